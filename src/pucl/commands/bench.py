"""Measure what things cost, against their plain form, against the peers that are installed, and against the limit.

All contenders run in turn in one process, on the same data, and ratios are taken round by round: the machine may
be busy or change its pace, and the ratios stay.
"""

import argparse
import shlex
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pucl.benchmarks.loss import PEERS, Report, Row, Settings, measure_losses
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
    parser.add_argument(
        "--threads", type=int, default=usual.threads, help="threads of torch (default: all cores, here %(default)s)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=usual.seconds,
        help="about how long each loss is timed at each batch size (default: %(default)s)",
    )
    parser.add_argument(
        "--peer-limit",
        type=int,
        default=usual.peer_limit,
        metavar="N",
        help="largest batch for peers whose cost grows with its cube (default: %(default)s)",
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
    print(loss_table(report))
    print()
    print("\n".join(textwrap.fill(sentence, width=110) for sentence in loss_sentences(report)))
    if arguments.out is not None:
        record = {
            "command": _loss_command(settings, arguments.out),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "settings": asdict(settings),
            **asdict(report),
        }
        write_json(arguments.out, record)
        print(f"All figures: {arguments.out}")
    disagreements = [row.disagreement for row in report.rows if row.disagreement is not None]
    for disagreement in disagreements:
        print(f"pucl bench: contenders must compute the same loss, and do not: {disagreement}", file=sys.stderr)
    return 1 if disagreements else 0


SUBJECTS = {
    "loss": Subject(
        "time and peak memory of each loss, forward and backward: dense, streaming, and as peers have it",
        _add_loss_arguments,
        _run_loss,
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
            _ratio(row, "dense/streaming"),
            *[_time(row, peer) for peer in peers],
            _time(row, "products"),
            _ratio(row, "streaming/products"),
            _peak(row, "dense"),
            _peak(row, "streaming"),
        ]
        for row in report.rows
    ]
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
    load, cores = report.machine["load_average_before"], report.machine["cores"]
    if isinstance(load, float) and isinstance(cores, int) and load > cores / 2:
        notes.append(
            f"The machine was busy before this began (load {load:.1f} on {cores} cores): threads that wait for each "
            f"other are then slowed down beyond measure. Use --threads 1, or come back when it is quiet."
        )
    return list(dict.fromkeys(notes))


def _medians(report: Report, ratio: str) -> list[tuple[Row, float]]:
    return [(row, row.ratios[ratio].median) for row in report.rows if ratio in row.ratios]


def _ordered(values: list[tuple[Row, float]]) -> list[tuple[Row, float]]:
    """From the least to the greatest; twice the same if there is one alone, so that both ends exist."""
    ordered = sorted(values, key=lambda pair: pair[1])
    return ordered if len(ordered) > 1 else ordered * 2


def _place(row: Row) -> str:
    return f"{row.loss}, batch {row.batch}"


def _time(row: Row, contender: str) -> str:
    figures = row.contenders.get(contender)
    return "-" if figures is None or figures.milliseconds is None else _figure(figures.milliseconds.median)


def _ratio(row: Row, ratio: str) -> str:
    if ratio not in row.ratios:
        return "-"
    spread = row.ratios[ratio]
    return f"{_figure(spread.median)} ({_figure(spread.lower_quartile)}-{_figure(spread.upper_quartile)})"


def _peak_bytes(row: Row, contender: str) -> int | None:
    figures = row.contenders.get(contender)
    return None if figures is None or figures.peak is None else figures.peak.bytes


def _peak(row: Row, contender: str) -> str:
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
