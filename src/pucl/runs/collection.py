"""A collection: the records of many finished runs in three files, without their encoders.

    runs.jsonl          a line for each run: its path, configuration and result, and the id of its environment
    metrics.jsonl.gz    a line for each epoch of each run: the path of the run, and the metrics
    environments.json   each environment once, by its id

A collection has neither encoders nor embeddings. A training cannot be resumed from it, and a page of it has no maps.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Required, TypedDict, cast

from pucl.config import RunConfig
from pucl.files import write_json, write_whole
from pucl.frameworks.recipes import read_config
from pucl.records import DamagedError, each_line, read_lines, read_record
from pucl.runs.directory import EpochMetrics, RunDirectory, RunResult, check_numbers

RUNS, METRICS, ENVIRONMENTS = "runs.jsonl", "metrics.jsonl.gz", "environments.json"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is recorded of one run.

    Args:
        path: Its directory; for a run of a collection, where the directory was below the collection's.
        written: The configuration as it was written, perhaps by an earlier version.
        config: The same as it is read now.
        result: The result; None if the run is not finished.
        history: The metrics of each epoch.
        environment: Versions, machine and device; empty if they were not recorded.
    """

    path: Path
    written: dict[str, Any]
    config: RunConfig
    result: dict[str, Any] | None
    history: list[dict[str, Any]]
    environment: dict[str, Any]


class RunLine(TypedDict):
    """A line of ``runs.jsonl``."""

    path: str
    environment: str
    config: dict[str, Any]
    result: RunResult


class EpochLine(EpochMetrics):
    """A line of ``metrics.jsonl.gz``."""

    run: Required[str]


def read_run(path: Path) -> Run:
    """Read the directory of a run.

    Raises:
        ValueError: If it is damaged, or of a version that is not known here.
        OSError: If it cannot be read.
    """
    if not path.is_dir():
        raise ValueError("there is no such directory")
    directory = RunDirectory(path)
    config = directory.config()
    return Run(
        path=path,
        written=read_record(path / "config.json", dict),
        config=config,
        result=directory.result(),
        history=directory.history(),
        environment=directory.environment(),
    )


def write_collection(out: Path, runs: Mapping[str, Run]) -> None:
    """Write finished runs as a collection. The same runs always give the same bytes."""
    lines, epochs, environments = [], [], {}
    for path, run in runs.items():
        if run.result is None:
            raise ValueError(f"a collection is of finished runs: expected a result, got none in {run.path}")
        known = _id_of(run.environment)
        environments[known] = run.environment
        lines.append({"path": path, "environment": known, "config": run.written, "result": run.result})
        epochs += [{"run": path} | metrics for metrics in run.history]
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / ENVIRONMENTS, environments)
    write_whole(out / METRICS, gzip.compress(_as_lines(epochs), mtime=0))  # A time would make other bytes each time.
    write_whole(out / RUNS, _as_lines(lines))  # Last: a directory with this file is a collection.


class Collection:
    """Reads a collection.

    A line that is damaged costs its own run alone; see `damaged`.

    Args:
        directory: Where its files are.

    Raises:
        DamagedError: If ``runs.jsonl`` has no lines of text.
        FileNotFoundError: If the directory is no collection.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.damaged: list[DamagedError] = []
        self._runs: dict[str, tuple[RunLine, RunConfig]] = {}
        file = directory / RUNS
        for number, line in each_line(file, RunLine):
            if isinstance(line, DamagedError):
                self.damaged.append(line)
                continue
            try:
                check_below(line["path"], file)
                check_numbers([line["result"]], file)
                if line["path"] in self._runs:
                    raise ValueError(f"each run has one line: got a second one for {line['path']!r}")
                self._runs[line["path"]] = line, read_config(line["config"])
            except ValueError as error:
                why = error.why if isinstance(error, DamagedError) else str(error)
                self.damaged.append(DamagedError(file, f"line {number}: {why}"))

    def __iter__(self) -> Iterator[str]:
        """The paths of the runs, in the order of the file."""
        return iter(self._runs)

    def __contains__(self, path: str) -> bool:
        return path in self._runs

    def config(self, path: str) -> RunConfig:
        """The configuration of a run."""
        return self._runs[path][1]

    def result(self, path: str) -> dict[str, Any]:
        """The result of a run."""
        return cast(dict[str, Any], self._runs[path][0]["result"])

    def history(self, path: str) -> list[dict[str, Any]]:
        """The metrics of each epoch of a run."""
        return self._histories.get(path, [])

    def environment(self, path: str) -> dict[str, Any]:
        """Versions, machine and device of a run."""
        known = self._runs[path][0]["environment"]
        environment = self._environments.get(known)
        if not isinstance(environment, dict):
            raise DamagedError(
                self.directory / ENVIRONMENTS, f"expected the environment {known!r}, got {environment!r}"
            )
        return environment

    def run(self, path: str) -> Run:
        """Everything that is recorded of a run."""
        line, config = self._runs[path]
        return Run(
            path=self.directory / path,
            written=line["config"],
            config=config,
            result=self.result(path),
            history=self.history(path),
            environment=self.environment(path),
        )

    @cached_property
    def _histories(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        file = self._file(METRICS)
        for line in check_numbers(read_lines(file, EpochLine), file):
            found.setdefault(line.pop("run"), []).append(line)
        return found

    @cached_property
    def _environments(self) -> dict[str, Any]:
        return read_record(self._file(ENVIRONMENTS), dict)

    def _file(self, name: str) -> Path:
        file = self.directory / name
        if not file.is_file():
            raise DamagedError(self.directory / RUNS, f"{name} should be beside it, and is missing")
        return file


def open_collection(directory: Path) -> Collection | None:
    """The collection in a directory; None if there is none."""
    return Collection(directory) if (directory / RUNS).is_file() else None


def check_below(path: str, file: Path) -> None:
    """Refuse a path that leads out of the directory of its record, so that nothing outside is read."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise DamagedError(file, f"runs are below it: expected a relative path, got {path!r}")


def _id_of(environment: Mapping[str, Any]) -> str:
    """A short name that the same environment has in every collection."""
    return hashlib.sha256(json.dumps(environment, sort_keys=True).encode()).hexdigest()[:8]


def _as_lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()
