"""Measure what things cost, against their plain form, against the peers that are installed, and against the limit.

All contenders run in turn in one process, on the same data, and ratios are taken round by round: the machine may
be busy or change its pace, and the ratios stay.
"""

import argparse
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pucl.benchmarks import train
from pucl.benchmarks.loss import PEERS, Report, Row, Settings, measure_losses
from pucl.benchmarks.measure import Spread
from pucl.files import write_json


@dataclass(frozen=True)
class Subject:
    """Something that can be measured: its purpose in a few words, its options, and what it does."""

    purpose: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, and the options that go with it."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True, title="subjects")
    for name, subject in SUBJECTS.items():
        subject.add_arguments(subjects.add_parser(name, help=subject.purpose, description=f"{subject.purpose}."))


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, and keep the figures if asked to."""
    return SUBJECTS[arguments.subject].run(arguments)


def _add_loss_arguments(parser: argparse.ArgumentParser) -> None:
    usual = Settings()
    parser.add_argument(
        "--batch-sizes",
        default=",".join(map(str, usual.batch_sizes)),
        metavar="N,N,...",
        help="samples in a batch, each in two views (default: %(default)s)",
    )
    parser.add_argument(
        "--losses", default=",".join(usual.losses), metavar="NAME,...", help="which losses (default: %(default)s)"
    )
    parser.add_argument("--dim", type=int, default=usual.dim, help="length of an embedding (default: %(default)s)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=usual.temperature,
        help="what cosines are divided by (default: %(default)s)",
    )
    _add_effort(parser, usual, "each loss is timed at each batch size")
    parser.add_argument(
        "--peer-limit",
        type=int,
        default=usual.peer_limit,
        metavar="N",
        help="largest batch for peers whose cost grows with its cube (default: %(default)s)",
    )


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    usual = train.Settings()
    parser.add_argument(
        "--encoders", default=",".join(usual.encoders), metavar="NAME,...", help="which encoders (default: %(default)s)"
    )
    parser.add_argument(
        "--frameworks",
        default=",".join(usual.frameworks),
        metavar="NAME,...",
        help="which of simclr, moco and cmc, each with each encoder (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=usual.batch_size, metavar="N", help="images in a step (default: %(default)s)"
    )
    parser.add_argument(
        "--size", type=int, default=usual.size, help="side of the images in pixels (default: %(default)s)"
    )
    parser.add_argument(
        "--views",
        action=argparse.BooleanOptionalAction,
        default=usual.views,
        help="time views against those that Pillow makes image by image (default: yes)",
    )
    _add_effort(parser, usual, "each framework is timed with each encoder")


def _add_effort(parser: argparse.ArgumentParser, usual: Settings | train.Settings, timed: str) -> None:
    """Options that all subjects have."""
    parser.add_argument(
        "--threads", type=int, default=usual.threads, help="threads of torch (default: all cores, here %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=usual.seconds, help=f"about how long {timed} (default: %(default)s)"
    )
    parser.add_argument(
        "--memory",
        action=argparse.BooleanOptionalAction,
        default=usual.memory,
        help="measure peaks of memory too, each in a process of its own (default: yes)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write all figures here")


def _run_loss(arguments: argparse.Namespace) -> int:
    settings = Settings(
        batch_sizes=_batch_sizes(arguments.batch_sizes),
        losses=tuple(filter(None, arguments.losses.split(","))),
        dim=arguments.dim,
        temperature=arguments.temperature,
        threads=arguments.threads,
        seconds=arguments.seconds,
        memory=arguments.memory,
        peer_limit=arguments.peer_limit,
    )
    _check_out(arguments.out)
    report = measure_losses(settings, progress=lambda words: print(f"bench loss, {words}", file=sys.stderr, flush=True))
    _show(loss_table(report), loss_sentences(report))
    if arguments.out is not None:
        _keep(arguments.out, _loss_command(settings, arguments.out), settings, report)
    disagreements = [row.disagreement for row in report.rows if row.disagreement is not None]
    for disagreement in disagreements:
        print(f"pucl bench: contenders must compute the same loss, and do not: {disagreement}", file=sys.stderr)
    return 1 if disagreements else 0


def _run_train(arguments: argparse.Namespace) -> int:
    settings = train.Settings(
        encoders=tuple(filter(None, arguments.encoders.split(","))),
        frameworks=tuple(filter(None, arguments.frameworks.split(","))),
        batch_size=arguments.batch_size,
        size=arguments.size,
        threads=arguments.threads,
        seconds=arguments.seconds,
        memory=arguments.memory,
        views=arguments.views,
    )
    _check_out(arguments.out)
    report = train.measure_training(
        settings, progress=lambda words: print(f"bench train, {words}", file=sys.stderr, flush=True)
    )
    _show(train_table(report), train_sentences(report))
    if arguments.out is not None:
        _keep(arguments.out, _train_command(settings, arguments.out), settings, report)
    return 0


def _show(table: str, sentences: list[str]) -> None:
    print(table)
    print()
    print("\n".join(textwrap.fill(sentence, width=110) for sentence in sentences))


def _keep(out: Path, command: str, settings: Settings | train.Settings, report: Report | train.Report) -> None:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(out, {"command": command, "made": made, "settings": asdict(settings), **asdict(report)})
    print(f"All figures: {out}")


SUBJECTS = {
    "loss": Subject(
        "time and peak memory of each loss, forward and backward: dense, streaming, and as peers have it",
        _add_loss_arguments,
        _run_loss,
    ),
    "train": Subject(
        "time of a training step and its parts over that of the bare encoder, and of views over Pillow's",
        _add_train_arguments,
        _run_train,
    ),
}


def loss_table(report: Report) -> str:
    """One line for each loss and batch size, the columns aligned."""
    peers = [name for name in PEERS if any(name in row.contenders for row in report.rows)]
    lines = [
        ["loss", "batch", "dense", "stream", "dense/stream", *peers, "products", "stream/products", "dense", "stream"],
        ["", "", "ms", "ms", "(quartiles)", *["ms"] * len(peers), "ms", "(quartiles)", "peak MB", "peak MB"],
    ]
    lines += [
        [
            row.loss,
            str(row.batch),
            _time(row, "dense"),
            _time(row, "streaming"),
            _ratio(row.ratios, "dense/streaming"),
            *[_time(row, peer) for peer in peers],
            _time(row, "products"),
            _ratio(row.ratios, "streaming/products"),
            _peak(row, "dense"),
            _peak(row, "streaming"),
        ]
        for row in report.rows
    ]
    return _aligned(lines)


def train_table(report: train.Report) -> str:
    """One line for each framework and encoder, the columns aligned."""
    parts = ("views", "loss", "optimiser")
    lines = [
        ["framework", "encoder", "batch", "step", "encoder", "step/encoder", *parts, "plain format", "step", "step"],
        ["", "", "", "ms", "ms", "(quartiles)", *["ms"] * len(parts), "/ channels last", "images/s", "peak MB"],
    ]
    lines += [
        [
            row.framework,
            row.encoder,
            str(row.batch),
            _time(row, "step"),
            _time(row, "encoder"),
            _ratio(row.ratios, "step/encoder"),
            *[_time(row, part) for part in parts],
            _ratio(row.ratios, "encoder_plain_format/encoder"),
            _figure(row.images_per_second),
            _peak(row, "step"),
        ]
        for row in report.rows
    ]
    return _aligned(lines)


def _aligned(lines: list[list[str]]) -> str:
    """A table with two lines of heading: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = []
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        aligned.append("  ".join(cells).rstrip())
    return "\n".join([*aligned[:2], "-" * max(map(len, aligned)), *aligned[2:]])


def loss_sentences(report: Report) -> list[str]:
    """What the table comes to, and what is not in it."""
    sentences = []
    against_dense = _medians(report, "dense/streaming")
    if against_dense:
        faster = sum(ratio > 1 for _, ratio in against_dense)
        (least, slow), *_, (most, fast) = _ordered(against_dense)
        memory = [
            (row, streaming / dense)
            for row in report.rows
            if (streaming := _peak_bytes(row, "streaming")) is not None and (dense := _peak_bytes(row, "dense"))
        ]
        clause = ""
        if memory:
            (leanest, low), *_, (fattest, high) = _ordered(memory)
            clause = f", with {low:.0%} ({_place(leanest)}) to {high:.0%} ({_place(fattest)}) of its peak memory"
        sentences.append(
            f"Streaming is faster than dense in {faster} of {len(against_dense)} cases, {_figure(slow)} times as fast "
            f"({_place(least)}) to {_figure(fast)} times ({_place(most)}){clause}."
        )
    of_limit = [(row, 1 / ratio) for row, ratio in _medians(report, "streaming/products")]
    if of_limit:
        (least, low), *_, (most, high) = _ordered(of_limit)
        sentences.append(
            f"The bare matrix products, the limit, would take {low:.0%} ({_place(least)}) to {high:.0%} "
            f"({_place(most)}) of streaming's time."
        )
    for name, peer in PEERS.items():
        for row, ratio in _medians(report, f"{name}/streaming")[-1:]:
            theirs, ours = _peak_bytes(row, name), _peak_bytes(row, "streaming")
            clause = f" and {_figure(theirs / ours)} times as much memory" if theirs and ours else ""
            sentences.append(
                f"{peer.distribution} takes {_figure(ratio)} times as long as streaming{clause} ({_place(row)})."
            )
    return [*sentences, *_notes(report)]


def _notes(report: Report) -> list[str]:
    """Why something is missing, and what a reader would regret not to know; each reason once."""
    notes = []
    for row in report.rows:
        for name, figures in row.contenders.items():
            who = PEERS[name].distribution if name in PEERS else name
            if figures.skipped is not None:
                notes.append(f"Not run: {who}: {figures.skipped}.")
            if figures.peak is not None and figures.peak.missing is not None:
                notes.append(f"No peak of {who}: {figures.peak.missing}.")
        if row.floored > 0.5:
            notes.append(f"{row.floored:.0%} of the anchors are at the floor ({_place(row)}).")
    notes += [f"Not here: {peer} ({reason})." for peer, reason in report.absent_peers.items()]
    return list(dict.fromkeys([*notes, *_busy(report.machine)]))


def train_sentences(report: train.Report) -> list[str]:
    """What the table comes to, and what views cost."""
    sentences = []
    for row in report.rows:
        step = row.ratios["step/encoder"]
        aim = "" if row.aim is None else f"; the aim is {row.aim:g} at most"
        sentences.append(
            f"A step of {row.framework} with {row.encoder} takes {_quartiles(step)} times as long as the bare "
            f"encoder{aim}."
        )
        peak = row.contenders["step"].peak
        if peak is not None and peak.missing is not None:
            sentences.append(f"No peak of {row.framework} with {row.encoder}: {peak.missing}.")
    sentences += [
        f"Views of {cost.batch} images take {_figure(cost.ours.median)} ms with {cost.threads} "
        f"thread{'s' if cost.threads > 1 else ''}: {_quartiles(cost.speedup)} times as fast as Pillow, image by "
        f"image, with one ({_figure(cost.pillow.median)} ms), and {_quartiles(cost.lean_speedup)} times as fast as "
        f"Pillow at its leanest ({_figure(cost.lean.median)} ms)."
        for cost in report.views
    ]
    if report.views_missing is not None:
        sentences.append(f"Not run: {report.views_missing}.")
    return list(dict.fromkeys([*sentences, *_busy(report.machine)]))


def _busy(machine: Mapping[str, object]) -> list[str]:
    load, cores = machine["load_average_before"], machine["cores"]
    if not (isinstance(load, float) and isinstance(cores, int) and load > cores / 2):
        return []
    return [
        f"The machine was busy before this began (load {load:.1f} on {cores} cores): threads that wait for each "
        f"other are then slowed down beyond measure. Use --threads 1, or come back when it is quiet."
    ]


def _medians(report: Report, ratio: str) -> list[tuple[Row, float]]:
    return [(row, row.ratios[ratio].median) for row in report.rows if ratio in row.ratios]


def _ordered(values: list[tuple[Row, float]]) -> list[tuple[Row, float]]:
    """From the least to the greatest; twice the same if there is one alone, so that both ends exist."""
    ordered = sorted(values, key=lambda pair: pair[1])
    return ordered if len(ordered) > 1 else ordered * 2


def _place(row: Row) -> str:
    return f"{row.loss}, batch {row.batch}"


def _time(row: Row | train.Row, contender: str) -> str:
    figures = row.contenders.get(contender)
    return "-" if figures is None or figures.milliseconds is None else _figure(figures.milliseconds.median)


def _ratio(ratios: Mapping[str, Spread], ratio: str) -> str:
    return _quartiles(ratios[ratio]) if ratio in ratios else "-"


def _quartiles(spread: Spread) -> str:
    return f"{_figure(spread.median)} ({_figure(spread.lower_quartile)}-{_figure(spread.upper_quartile)})"


def _peak_bytes(row: Row | train.Row, contender: str) -> int | None:
    figures = row.contenders.get(contender)
    return None if figures is None or figures.peak is None else figures.peak.bytes


def _peak(row: Row | train.Row, contender: str) -> str:
    peak = _peak_bytes(row, contender)
    return "-" if peak is None else _figure(peak / 1e6)


def _figure(value: float) -> str:
    """Three digits, or all there are before the point."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _batch_sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",") if word)
    except ValueError:
        raise ValueError(
            f"batch sizes are the numbers of samples in a batch: expected whole numbers with commas between, "
            f"such as 256,1024, got {text!r}"
        ) from None


def _check_out(path: Path | None) -> None:
    """Refuse a place for the figures before minutes are spent on them."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise ValueError(f"out is the file for the figures: expected one in a directory that exists, got {path}")


def _loss_command(settings: Settings, out: Path) -> str:
    """The command line that measures the same again, with no default left unsaid."""
    return shlex.join(
        [
            "pucl",
            "bench",
            "loss",
            f"--batch-sizes={','.join(map(str, settings.batch_sizes))}",
            f"--losses={','.join(settings.losses)}",
            f"--dim={settings.dim}",
            f"--temperature={settings.temperature:g}",
            f"--threads={settings.threads}",
            f"--seconds={settings.seconds:g}",
            f"--peer-limit={settings.peer_limit}",
            "--memory" if settings.memory else "--no-memory",
            f"--out={out}",
        ]
    )


def _train_command(settings: train.Settings, out: Path) -> str:
    """The command line that measures the same again, with no default left unsaid."""
    return shlex.join(
        [
            "pucl",
            "bench",
            "train",
            f"--encoders={','.join(settings.encoders)}",
            f"--frameworks={','.join(settings.frameworks)}",
            f"--batch-size={settings.batch_size}",
            f"--size={settings.size}",
            f"--threads={settings.threads}",
            f"--seconds={settings.seconds:g}",
            "--memory" if settings.memory else "--no-memory",
            "--views" if settings.views else "--no-views",
            f"--out={out}",
        ]
    )
