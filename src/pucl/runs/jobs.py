"""The jobs of a grid: what to run, how each ended, and how long the rest will take."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pucl.config import RunConfig
from pucl.progress import duration
from pucl.runs.display import Positions
from pucl.texts import slug

Result = dict[str, Any]
"""The result of a run, as its record has it."""

Workload = tuple[str, str, str, int]
"""Framework, data, correction and epochs."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of a grid.

    Args:
        name: Its name on the display.
        path: Its directory, below that of the grid.
        config: What to run.
        row: Its row in the table.
        part: Its part of the table; empty if the table has one part.
    """

    name: str
    path: str
    config: RunConfig
    row: str = ""
    part: str = ""

    @property
    def workload(self) -> Workload:
        """Runs with the same workload take about the same time."""
        return self.config.framework, self.config.data, self.config.correction, self.config.epochs


@dataclass(frozen=True, kw_only=True)
class Done:
    """A job that has ended.

    Args:
        job: The job.
        result: Its result; None if it failed.
        error: Why it failed; None if it did not.
        seconds: The time that it took in this call; 0 if it was finished before.
    """

    job: Job
    result: Result | None
    error: str | None
    seconds: float


def grid_of(rows: Mapping[str, RunConfig], seeds: int, part: str = "") -> list[Job]:
    """All rows with all seeds, seed after seed, so that the rows can be compared at any time.

    Args:
        rows: Configurations by the name of their row.
        seeds: Number of seeds, from 0.
        part: The part of a table that these rows are, such as the data; a slash separates levels of directories.

    Raises:
        ValueError: If two rows would have the same directory.
    """
    if seeds < 1:
        raise ValueError(f"seeds is the number of trainings of each row: expected at least 1, got {seeds}")
    above = Path(*(slug(level) for level in Path(part).parts))
    check_directories(rows)
    return [
        Job(
            name=f"{f'{part}, ' if part else ''}{name}, seed {seed}",
            path=str(above / slug(name) / f"seed-{seed}"),
            config=replace(config, seed=seed),
            row=name,
            part=part,
        )
        for seed in range(seeds)
        for name, config in rows.items()
    ]


def check_directories(names: Iterable[str]) -> None:
    """Refuse names of rows, or of parts of a table, that would share a directory."""
    taken: dict[str, str] = {}
    for name in names:
        other = taken.setdefault(slug(name), name)
        if other != name:
            raise ValueError(
                "each row and part has its own directory: expected names that differ in letters or digits, got "
                f"{other!r} and {name!r}, which both become {slug(name)!r}"
            )


class Outlook:
    """Estimates the time until a grid ends.

    Args:
        jobs: The jobs that are not finished.
        workers: Number of jobs at a time.
    """

    def __init__(self, jobs: Sequence[Job], workers: int) -> None:
        self._waiting = {job.path: job.workload for job in jobs}
        self._workers = workers
        self._took: dict[Workload, list[float]] = {}
        self._lock = threading.Lock()  # The dashboard asks from another thread.

    def note(self, done: Done) -> None:
        """Learn from a job that has ended."""
        with self._lock:
            del self._waiting[done.job.path]
            if done.error is None:
                self._took.setdefault(done.job.workload, []).append(
                    max(done.seconds, _whole_seconds(done.result or {}))
                )

    def left(self, positions: Positions | None = None) -> str:
        """The time left in words: estimated from runs with the same workload, otherwise from the mean of all runs.

        Args:
            positions: Of running jobs. Before the first job has ended, these say how long one takes.
        """
        positions = positions or {}
        with self._lock:
            times = [seconds for took in self._took.values() for seconds in took]
            times = times or [rest / (1 - share) for share, rest in positions.values() if share < 1]
            if not times:
                return f"{len(self._waiting)} to go"
            mean = sum(times) / len(times)
            mean_of = {workload: sum(values) / len(values) for workload, values in self._took.items()}
            running = {path: rest for path, (_, rest) in positions.items() if path in self._waiting}
            ahead = [running.get(path, mean_of.get(workload, mean)) for path, workload in self._waiting.items()]
        at_a_time = min(self._workers, len(ahead)) or 1
        return f"about {duration(max([sum(ahead) / at_a_time, *running.values()]))} left"


def _whole_seconds(result: Result) -> float:
    """The time of a run in all calls that it took."""
    return float(result.get("seconds", 0.0) + result.get("evaluation_seconds", 0.0))
