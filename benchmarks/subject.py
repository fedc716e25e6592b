"""A benchmark as a command: read options, measure, print tables, write the record."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from benchmarks.options import add_options, command_line, read_options
from benchmarks.text import as_paragraphs
from pucl.files import write_json

_Settings = TypeVar("_Settings")
_Report = TypeVar("_Report")

Progress = Callable[[str], object]
"""Is called with a short text before each part of a benchmark."""


class Section(NamedTuple):
    """A table, and sentences that sum it up."""

    table: str
    sentences: list[str]


@dataclass(frozen=True, kw_only=True)
class Subject(Generic[_Settings, _Report]):
    """Something that can be measured.

    Args:
        name: The word on the command line.
        purpose: What it measures, for the help text.
        settings: A dataclass whose fields are made by `option`.
        measure: Computes the report, a dataclass with the facts of the machine as ``machine``. The record is the
            settings and all fields of the report.
        show: The report as text.
        failures: Reasons why the figures are not valid; none if they are.
    """

    name: str
    purpose: str
    settings: Callable[..., _Settings]
    measure: Callable[[_Settings, Progress], _Report]
    show: Callable[[_Report], list[Section]]
    failures: Callable[[_Report], list[str]] = lambda _: []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare an option for each setting, and ``--out``."""
        add_options(parser, self.settings)
        parser.add_argument("--out", type=Path, metavar="FILE.json", help="write all figures to this file")

    def run(self, arguments: argparse.Namespace) -> int:
        """Measure, print the report and write the record; 1 if the figures are not valid."""
        settings: Any = read_options(self.settings, arguments)
        out: Path | None = arguments.out
        if out is not None and (out.is_dir() or not out.parent.is_dir()):  # Raise before minutes are spent.
            raise ValueError(f"out is the file for the figures: expected one in a directory that exists, got {out}")
        report: Any = self.measure(settings, self._print_progress)
        sections = self.show(report)
        sections[-1].sentences.extend(busy(report.machine))
        print("\n\n".join(f"{table}\n\n{as_paragraphs(sentences)}" for table, sentences in sections))
        if out is not None:
            write_json(out, self._record(settings, report, out))
            print(f"All figures: {out}")
        failures = self.failures(report)
        for failure in failures:
            print(f"benchmarks {self.name}: {failure}", file=sys.stderr)
        return 1 if failures else 0

    def _record(self, settings: Any, report: Any, out: Path) -> dict[str, Any]:
        values = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}
        return {
            "command": command_line(self.name, settings, out),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "settings": values,
            **asdict(report),
        }

    def _print_progress(self, text: str) -> None:
        print(f"benchmarks {self.name}: {text}", file=sys.stderr, flush=True)


def busy(machine: Mapping[str, object]) -> list[str]:
    """A warning if other programs kept the machine busy before the benchmark began."""
    load, cores = machine["load_average_before"], machine["cores"]
    if not (isinstance(load, float) and isinstance(cores, int) and load > cores / 2):
        return []
    return [
        f"The machine was busy before the benchmark began (load {load:.1f} on {cores} cores), which slows down several "
        f"threads far more than one. Use --threads 1, or repeat this when the machine is idle."
    ]
