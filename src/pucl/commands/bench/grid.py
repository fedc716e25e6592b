"""``pucl bench grid``: its options, and its report for people."""

import argparse
import statistics
from pathlib import Path

from pucl.benchmarks.grid import AIM, Report, Settings, measure_grid
from pucl.commands.bench.shared import Section, Subject, aligned, settings_from


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What runs, how many, and how often."""
    usual = Settings()
    parser.add_argument("--framework", default=usual.framework, help="of the runs (default: %(default)s)")
    parser.add_argument("--data", default=usual.data, help="of the runs (default: %(default)s)")
    for name, meaning in (
        ("epochs", "of each run"),
        ("runs", "how many runs the grid has"),
        ("workers", "how many at a time, against one"),
        ("rounds", "how often each has its turn"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=getattr(usual, name), metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write all figures here")


def show(report: Report) -> list[Section]:
    """One line for each number of workers."""
    rows = [
        [workers, f"{statistics.median(times):.1f}", f"{min(times):.1f} to {max(times):.1f}"]
        for workers, times in report.seconds.items()
    ]
    table = aligned([("workers", ""), ("grid", "s"), ("rounds", "s")], rows)
    speedup = statistics.median(report.speedups)
    words = (
        f"With several workers the grid is done {speedup:.2f} times as fast as with one "
        f"({min(report.speedups):.2f} to {max(report.speedups):.2f}); the aim is {AIM:g} for two on two cores. All "
        f"runs have as many threads."
    )
    return [Section(table, [words])]


GRID: Subject[Settings, Report] = Subject(
    purpose="time of a grid of runs with several workers over that with one",
    add_arguments=add_arguments,
    settings=lambda arguments: settings_from(Settings, arguments),
    measure=measure_grid,
    show=show,
    failures=lambda report: [] if report.equal else ["workers must not change a number, and do"],
)
