"""``python -m benchmarks grid``: how much faster a grid of runs is with several workers than with one."""

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import machine_facts
from benchmarks.options import option
from benchmarks.subject import Progress, Section, Subject
from benchmarks.text import aligned
from benchmarks.timing import torch_threads
from pucl.devices import usable_cores
from pucl.frameworks.recipes import recipe
from pucl.runs.compare import grid_of
from pucl.runs.grid import Means, run_grid

AIM = 1.7  # Speed-up with two workers on two cores.


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured."""

    framework: str = option("infograph", "framework of the runs")
    data: str = option("shapes", "data set of the runs")
    epochs: int = option(20, "epochs of each run")
    runs: int = option(8, "number of runs in the grid")
    workers: int = option(lambda: max(2, usable_cores()), "number of workers that are compared with one")
    rounds: int = option(3, "number of rounds")

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("runs", 1), ("workers", 2), ("rounds", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is how many there are: expected at least {least}, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Times of the grid.

    Args:
        seconds: By number of workers: the time of the whole grid in each round.
        speedups: Time with one worker over time with several, round by round. Each run has the same number of threads.
        equal: Whether the accuracies are equal.
        machine: Facts of the machine.
    """

    seconds: dict[str, list[float]]
    speedups: list[float]
    equal: bool
    machine: dict[str, object]


def measure_grid(settings: Settings, progress: Progress) -> Report:
    """Run the same grid with one worker and with several, in turn."""
    facts = machine_facts()
    changes: dict[str, Any] = {"epochs": settings.epochs, "monitor": 0}
    if settings.framework == "infograph":
        changes["probes"] = "knn"  # A short evaluation, since the grid is what is measured.
    rows = {"plain": recipe(settings.framework, settings.data, correction="plain", **changes)}
    jobs = grid_of(rows, settings.runs)
    seconds: dict[str, list[float]] = {"1": [], str(settings.workers): []}
    results: dict[str, list[dict[str, Any] | None]] = {}
    with tempfile.TemporaryDirectory(prefix="pucl-benchmarks-") as directory:
        for number in range(settings.rounds + 1):  # Round 0 starts the workers and is not counted.
            for workers in (1, settings.workers):
                progress(f"{workers} workers, round {number} of {settings.rounds}")
                out = Path(directory) / f"{workers}-{number}"
                began = time.perf_counter()
                with torch_threads(max(1, usable_cores() // settings.workers)):
                    done = run_grid(jobs, out, Means(workers=workers))
                if number:
                    seconds[str(workers)].append(time.perf_counter() - began)
                results[str(workers)] = [each.result and _accuracies(each.result) for each in done]
                if failed := [each.error for each in done if each.error]:
                    raise ValueError(f"a run of the grid failed: {failed[0]}")
    one, several = seconds["1"], seconds[str(settings.workers)]
    return Report(
        seconds=seconds,
        speedups=[slow / fast for slow, fast in zip(one, several, strict=True)],
        equal=results["1"] == results[str(settings.workers)],
        machine=facts,
    )


def _accuracies(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("svm", "linear", "knn", "loss") if name in result}


def show(report: Report) -> list[Section]:
    """A table with one row per number of workers, and the speed-up."""
    rows = [
        [workers, f"{statistics.median(times):.1f}", f"{min(times):.1f} to {max(times):.1f}"]
        for workers, times in report.seconds.items()
    ]
    table = aligned([("workers", ""), ("grid", "s"), ("rounds", "s")], rows)
    speedup = statistics.median(report.speedups)
    sentence = (
        f"With several workers the grid is {speedup:.2f} times as fast as with one ({min(report.speedups):.2f} to "
        f"{max(report.speedups):.2f}). The aim is {AIM:g} for two workers on two cores. Each run has the same number "
        f"of threads."
    )
    return [Section(table, [sentence])]


GRID: Subject[Settings, Report] = Subject(
    name="grid",
    purpose="time of a grid of runs with several workers compared with one",
    settings=Settings,
    measure=measure_grid,
    show=show,
    failures=lambda report: [] if report.equal else ["workers must not change a number, but do"],
)
