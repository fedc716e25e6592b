"""How much sooner a grid of runs is done with several workers than with one."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pucl.benchmarks.measure import machine_facts, torch_threads
from pucl.devices import usable_cores
from pucl.experiments.compare import grid_of
from pucl.experiments.grid import Means, run_grid
from pucl.experiments.recipes import recipe

AIM = 1.7  # Times as fast with two workers on two cores as with one.


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured.

    Args:
        framework: Of the runs.
        data: Of the runs.
        epochs: Of each run.
        runs: How many runs the grid has.
        workers: How many at a time, against one.
        rounds: How often each has its turn.
    """

    framework: str = "infograph"
    data: str = "shapes"
    epochs: int = 20
    runs: int = 8
    workers: int = field(default_factory=lambda: max(2, usable_cores()))
    rounds: int = 3

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("runs", 1), ("workers", 2), ("rounds", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is how many there are: expected at least {least}, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of it.

    Args:
        seconds: By number of workers, in each round, for the whole grid.
        speedups: Time with one worker over time with several, round by round. All runs have one thread.
        equal: Whether the accuracies are the same numbers.
        machine: Where.
    """

    seconds: dict[str, list[float]]
    speedups: list[float]
    equal: bool
    machine: dict[str, object]


def measure_grid(settings: Settings, progress: Callable[[str], object]) -> Report:
    """Run the same grid with one worker and with several, in turn."""
    facts = machine_facts()
    changes: dict[str, Any] = {"epochs": settings.epochs, "monitor": 0}
    if settings.framework == "infograph":
        changes["probes"] = "knn"  # A short end: it is the grid that is measured.
    rows = {"plain": recipe(settings.framework, settings.data, correction="plain", **changes)}
    jobs = grid_of(rows, settings.runs)
    seconds: dict[str, list[float]] = {"1": [], str(settings.workers): []}
    results: dict[str, list[dict[str, Any] | None]] = {}
    with tempfile.TemporaryDirectory(prefix="pucl-bench-") as place:
        for number in range(settings.rounds + 1):  # The first round starts workers and is not counted.
            for workers in (1, settings.workers):
                progress(f"{workers} at a time, round {number} of {settings.rounds}")
                out = Path(place) / f"{workers}-{number}"
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
