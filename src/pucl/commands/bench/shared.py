"""What all subjects share: options of effort, the course of a measurement, and how figures look."""

import argparse
import dataclasses
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from pucl.benchmarks.measure import Peak, Spread
from pucl.files import write_json
from pucl.texts import say

WIDTH = 110  # Of sentences.

_Settings = TypeVar("_Settings")
_Report = TypeVar("_Report")
_Row = TypeVar("_Row")


class Section(NamedTuple):
    """A table, and what it comes to."""

    table: str
    sentences: list[str]


@dataclass(frozen=True, kw_only=True)
class Subject(Generic[_Settings, _Report]):
    """Something that can be measured.

    Args:
        purpose: In a few words.
        add_arguments: Declares its options, of which each field of the settings is one.
        settings: From options to what is measured.
        measure: Takes the settings, and something that is told in a few words what comes next. What it gives is kept
            whole, and has the facts of the machine as ``machine``.
        show: The report for people.
        failures: What makes the report void, if anything does.
    """

    purpose: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    settings: Callable[[argparse.Namespace], _Settings]
    measure: Callable[[_Settings, Callable[[str], object]], _Report]
    show: Callable[[_Report], list[Section]]
    failures: Callable[[_Report], list[str]] = lambda _: []

    def run(self, name: str, arguments: argparse.Namespace) -> int:
        """Measure, print, and keep the figures if asked to."""
        settings: Any = self.settings(arguments)
        out: Path | None = arguments.out
        if out is not None and (out.is_dir() or not out.parent.is_dir()):  # Said before minutes are spent.
            raise ValueError(f"out is the file for the figures: expected one in a directory that exists, got {out}")
        report: Any = self.measure(settings, lambda words: say(f"bench {name}, {words}", error=True))
        sections = self.show(report)
        sections[-1].sentences.extend(busy(report.machine))
        say("\n\n".join(f"{table}\n\n{as_paragraphs(sentences)}" for table, sentences in sections))
        if out is not None:
            record = {
                "command": command_line(name, settings, out),
                "made": datetime.now(UTC).isoformat(timespec="seconds"),
                "settings": {
                    field: str(value) if isinstance(value, Path) else value for field, value in asdict(settings).items()
                },
            }
            write_json(out, record | asdict(report))
            say(f"All figures: {out}")
        failures = self.failures(report)
        for failure in failures:
            say(f"pucl bench: {failure}", error=True)
        return 1 if failures else 0


@runtime_checkable
class Effort(Protocol):
    """Settings that all subjects have."""

    @property
    def threads(self) -> int:
        """Threads of torch."""
        ...

    @property
    def seconds(self) -> float:
        """About how long something is timed."""
        ...


def add_effort(parser: argparse.ArgumentParser, usual: Effort, timed: str) -> None:
    """Options that all subjects have."""
    parser.add_argument(
        "--threads", type=int, default=usual.threads, help="threads of torch (default: all cores, here %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=usual.seconds, help=f"about how long {timed} (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write all figures here")


def add_memory(parser: argparse.ArgumentParser, usual: bool) -> None:
    """The option of subjects that have peaks of memory."""
    add_switch(parser, "memory", "measure peaks of memory too, each in a process of its own", usual)


def add_switch(parser: argparse.ArgumentParser, name: str, meaning: str, usual: bool) -> None:
    """An option that is on or off."""
    default = "yes" if usual else "no"
    parser.add_argument(
        f"--{name}", action=argparse.BooleanOptionalAction, default=usual, help=f"{meaning} (default: {default})"
    )


def add_names(parser: argparse.ArgumentParser, option: str, meaning: str, usual: Sequence[str]) -> None:
    """An option that takes names with commas between."""
    parser.add_argument(
        option,
        type=lambda text: tuple(filter(None, text.split(","))),
        default=",".join(usual),
        metavar="NAME,...",
        help=f"{meaning} (default: %(default)s)",
    )


def settings_from(kind: Callable[..., _Settings], arguments: argparse.Namespace, **changes: object) -> _Settings:
    """Settings whose fields are the options of the same names, but for the changes."""
    fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type] # A class of settings, called as what makes them.
    return kind(**{field.name: getattr(arguments, field.name) for field in fields} | changes)


def command_line(subject: str, settings: Any, out: Path) -> str:
    """The command line that measures the same again, with no default left unsaid."""
    words = ["pucl", "bench", subject]
    for field in dataclasses.fields(settings):
        value, option = getattr(settings, field.name), field.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, tuple):
            words.append(f"--{option}={','.join(map(str, value))}")
        elif value is not None:
            words.append(f"--{option}={value:g}" if isinstance(value, float) else f"--{option}={value}")
    return shlex.join([*words, f"--out={out}"])


def aligned(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """A table with two lines of heading: the first column to the left, the others to the right.

    Args:
        columns: The two words above each.
        rows: As many cells each.

    Example:
        >>> print(aligned([("loss", ""), ("dense", "ms")], [["plain", "1.23"], ["pucl", "-"]]))
        loss   dense
                  ms
        ------------
        plain   1.23
        pucl       -
    """
    lines = [*zip(*columns, strict=True), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid = []
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        laid.append("  ".join(cells).rstrip())
    return "\n".join([*laid[:2], "-" * max(map(len, laid)), *laid[2:]])


def as_paragraphs(sentences: Sequence[str]) -> str:
    """Each sentence once, on lines of its own."""
    return "\n".join(textwrap.fill(sentence, width=WIDTH) for sentence in dict.fromkeys(sentences))


def busy(machine: Mapping[str, object]) -> list[str]:
    """A warning, if other programs were at work before."""
    load, cores = machine["load_average_before"], machine["cores"]
    if not (isinstance(load, float) and isinstance(cores, int) and load > cores / 2):
        return []
    return [
        f"The machine was busy before this began (load {load:.1f} on {cores} cores): threads that wait for each "
        f"other are then slowed down beyond measure. Use --threads 1, or come back when it is quiet."
    ]


@runtime_checkable
class Measured(Protocol):
    """What one contender took."""

    @property
    def milliseconds(self) -> Spread | None:
        """Its time; None if it did not run."""
        ...

    @property
    def peak(self) -> Peak | None:
        """How far memory rose; None if that was not asked for."""
        ...


def time(contenders: Mapping[str, Measured], name: str) -> str:
    """The median time of a contender in milliseconds, if it ran."""
    figures = contenders.get(name)
    return "-" if figures is None or figures.milliseconds is None else figure(figures.milliseconds.median)


def peak_bytes(contenders: Mapping[str, Measured], name: str) -> int | None:
    """How far a contender let memory rise, if that was seen."""
    figures = contenders.get(name)
    return None if figures is None or figures.peak is None else figures.peak.bytes


def peak(contenders: Mapping[str, Measured], name: str) -> str:
    """The same in megabytes."""
    risen = peak_bytes(contenders, name)
    return "-" if risen is None else figure(risen / 1e6)


def ratio(ratios: Mapping[str, Spread], name: str) -> str:
    """How many times as long, with quartiles, if both ran."""
    return quartiles(ratios[name]) if name in ratios else "-"


def quartiles(spread: Spread) -> str:
    """The median, and between what half of the measurements lie."""
    return f"{figure(spread.median)} ({figure(spread.lower_quartile)}-{figure(spread.upper_quartile)})"


def figure(value: float) -> str:
    """Three digits, or all there are before the point."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def extremes(values: Sequence[tuple[_Row, float]]) -> tuple[tuple[_Row, float], tuple[_Row, float]]:
    """The row with the least value, and that with the greatest."""
    ordered = sorted(values, key=lambda pair: pair[1])
    return ordered[0], ordered[-1]
