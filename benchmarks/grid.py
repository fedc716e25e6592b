"""How much faster a grid of runs is with several workers than with one."""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.options import Settings, option
from benchmarks.report import Report
from benchmarks.timing import torch_threads
from pucl.devices import usable_cores
from pucl.frameworks.recipes import recipe
from pucl.runs.grid import Resources, run_grid
from pucl.runs.jobs import grid_of
from pucl.texts import table

AIM = 1.7  # Speed-up with two workers on two cores.


@dataclass(frozen=True, kw_only=True)
class GridSettings(Settings):
    """What is measured."""

    framework: str = option("infograph", "framework of the runs")
    data: str = option("shapes", "data set of the runs")
    epochs: int = option(20, "epochs of each run")
    runs: int = option(8, "number of runs in the grid")
    workers: int = option(lambda: max(2, usable_cores()), "number of workers that are compared with one", least=2)
    rounds: int = option(3, "number of rounds")


@dataclass(frozen=True, kw_only=True)
class GridReport(Report):
    """Times of the grid.

    Args:
        seconds: By number of workers: the time of the whole grid in each round.
        speedups: Time with one worker over time with several, round by round. Each run has the same number of threads;
            the start of the workers is part of the time.
        equal: Whether the accuracies are equal.
    """

    seconds: dict[str, list[float]]
    speedups: list[float]
    equal: bool

    def table(self) -> str:
        """One line per number of workers."""
        lines = [
            [workers, f"{statistics.median(times):.1f}", f"{min(times):.1f} to {max(times):.1f}"]
            for workers, times in self.seconds.items()
        ]
        return table([["workers", "grid s", "rounds s"], *lines])

    def notes(self) -> list[str]:
        """The speed-up."""
        return [
            f"With several workers the grid is {statistics.median(self.speedups):.2f} times as fast as with one "
            f"({min(self.speedups):.2f} to {max(self.speedups):.2f}). The aim is {AIM:g} for two workers on two cores. "
            f"Each run has the same number of threads."
        ]

    def failures(self) -> list[str]:
        """Whether workers change a result."""
        return [] if self.equal else ["workers must not change a number, but do"]


def measure_grid(settings: GridSettings, progress: Callable[[str], object]) -> GridReport:
    """Time of a grid of runs with several workers compared with one."""
    changes: dict[str, Any] = {"epochs": settings.epochs, "monitor": 0}
    if settings.framework == "infograph":
        changes["probes"] = "knn"  # A short evaluation, since the grid is what is measured.
    jobs = grid_of({"plain": recipe(settings.framework, settings.data, correction="plain", **changes)}, settings.runs)
    seconds: dict[str, list[float]] = {"1": [], str(settings.workers): []}
    results: dict[str, list[dict[str, Any] | None]] = {}
    with tempfile.TemporaryDirectory(prefix="pucl-benchmarks-") as directory:
        for number in range(settings.rounds + 1):  # Round 0 is not counted: later rounds find their files in memory.
            for workers in (1, settings.workers):
                progress(f"{workers} workers, round {number} of {settings.rounds}")
                out = Path(directory) / f"{workers}-{number}"
                began = time.perf_counter()
                with torch_threads(max(1, usable_cores() // settings.workers)):
                    done = run_grid(jobs, out, Resources(workers=workers))
                if number:
                    seconds[str(workers)].append(time.perf_counter() - began)
                results[str(workers)] = [each.result and _accuracies(each.result) for each in done]
                if failed := [each.error for each in done if each.error]:
                    raise ValueError(f"a run of the grid failed: {failed[0]}")
    one, several = seconds["1"], seconds[str(settings.workers)]
    return GridReport(
        seconds=seconds,
        speedups=[slow / fast for slow, fast in zip(one, several, strict=True)],
        equal=results["1"] == results[str(settings.workers)],
    )


def _accuracies(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("svm", "linear", "knn", "loss") if name in result}
