"""The directory of a run. It is the run's record: reports read this and nothing else."""

import fcntl
import json
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Required, TypedDict

import numpy as np
import torch

import pucl
from pucl import processes
from pucl.config import RunConfig
from pucl.evaluation import known_numbers
from pucl.files import left_parts, whole_file, write_json, write_whole
from pucl.frameworks.recipes import read_config
from pucl.records import DamagedError, MismatchError, conform, read_lines, read_record
from pucl.runs.display import PROGRESS
from pucl.runs.runfile import RUN_FILE, as_toml
from pucl.training.checkpoint import Checkpoint, load_checkpoint

Calibration = TypedDict(
    "Calibration", {"calibration.error": float, "calibration.curve": list[list[float]]}, total=False
)
"""How good the r of a learning correction was; see `pucl.training.calibration`."""


Learnt = TypedDict("Learnt", {"correction.report": str}, total=False)
"""What a learning correction said about itself at the end of an epoch."""


class RunResult(Calibration, Learnt, total=False):
    """The result of a finished run; it also holds the numbers of its probes, and may hold more."""

    seconds: Required[float]
    loss: float
    floored: float
    tau_plus: float
    evaluation_seconds: float
    processor_seconds: float
    peak_memory_mib: float
    data: dict[str, Any]
    notes: list[str]
    warnings: list[str]


class EpochMetrics(Calibration, Learnt, total=False):
    """The metrics of one epoch; it may also hold numbers of probes, and more."""

    epoch: Required[int]
    step: Required[int]
    loss: float
    floored: float
    tau_plus: float
    positive_similarity: float
    unlabelled_similarity: float
    learning_rate: float
    samples_per_second: float


class RunDirectory:
    """The files of one run: configuration, environment, metrics, checkpoint, encoder, embeddings and result.

    Args:
        path: The directory. It is created when it is first used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint.pt"
        self.weights = path / "encoder.safetensors"
        self.embeddings = path / "embeddings.npz"
        self.metrics = path / "metrics.jsonl"  # One line for each epoch.
        self.tensorboard = path / "tensorboard"
        self.wandb = path / "wandb"
        self.logs = path / "logs.json"  # What loggers need to continue; see `pucl.runs.loggers`.

    @contextmanager
    def claimed(self, config: RunConfig, *, device: torch.device) -> Iterator[None]:
        """Lock the directory for this run, and write its configuration and environment.

        Raises:
            ValueError: If the directory is in use, or holds another run or something else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is the directory of a run: expected a directory or a new name, got a file")
        temporary = {self.path / ".lock", self.path / PROGRESS, *left_parts(self.path)}
        held = set(self.path.iterdir()) - temporary if self.path.exists() else set()
        if held and not (self.path / "config.json").exists():
            raise ValueError(f"{self.path} holds files that are not a run of pucl: choose another directory with --out")
        other = self.config() if held else config  # Raises if another program wrote the config.json.
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path} is in use by another process that runs the same") from None
            for part in left_parts(self.path):
                part.unlink(missing_ok=True)  # Left by a killed process: a running one would hold the lock.
            # A run without checkpoint, metrics or result may be overwritten.
            if self.begun and other != config:
                there, here = other.as_json(), config.as_json()
                differences = ", ".join(
                    f"{name} is {there[name]!r} there and {here[name]!r} here"
                    for name in there
                    if name in here and there[name] != here[name]
                )
                raise ValueError(f"{self.path} holds another run: {differences}; choose another directory with --out")
            try:
                if not self.begun:
                    self._clear_logs()  # Of a run that was killed before its first checkpoint.
                    write_json(self.path / "config.json", config.as_json())
                    write_whole(self.path / RUN_FILE, as_toml(config).encode(errors="backslashreplace"))
                if self.result() is None:
                    write_json(self.path / "environment.json", environment(device))
                yield
            except BaseException:
                if not self.begun:
                    self._clear()
                raise

    def _clear(self) -> None:
        """Remove a run that failed before its first checkpoint, such as one whose data are missing."""
        self._clear_logs()
        # The lock last: it protects the other files.
        for name in (
            self.weights.name,
            self.embeddings.name,
            PROGRESS,
            "environment.json",
            RUN_FILE,
            "config.json",
            ".lock",
        ):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # The directory stays if it has other files.
            self.path.rmdir()

    def _clear_logs(self) -> None:
        self.logs.unlink(missing_ok=True)
        for folder in (self.tensorboard, self.wandb):
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def begun(self) -> bool:
        """Whether there is a checkpoint, metrics or a result."""
        return any(path.exists() for path in (self.checkpoint, self.metrics, self.path / "result.json"))

    def config(self) -> RunConfig:
        """The configuration."""
        file = self.path / "config.json"
        try:
            return read_config(read_record(file, dict))
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(f"{self.path} is not a run of pucl: {self._missing()}") from None
        except DamagedError:
            raise
        except ValueError as error:
            raise DamagedError(file, str(error)) from error

    def _missing(self) -> str:
        """Why this is no run, in words."""
        if not self.path.is_dir():
            return "there is no such directory"
        below = next(self.path.rglob("config.json"), None)
        return "it has no config.json" + (f"; there are runs below it, such as {below.parent}" if below else "")

    def result(self) -> dict[str, Any] | None:
        """The result; None if the run is not finished."""
        file = self.path / "result.json"
        return check_numbers([read_record(file, RunResult)], file)[0] if file.exists() else None

    def state(self) -> Checkpoint | None:
        """The last checkpoint; None if there is none."""
        return load_checkpoint(self.checkpoint) if self.checkpoint.exists() else None

    def history(self) -> list[dict[str, Any]]:
        """The metrics of each epoch so far."""
        return check_numbers(read_lines(self.metrics, EpochMetrics), self.metrics) if self.metrics.exists() else []

    def environment(self) -> dict[str, Any]:
        """Versions, machine and device of the run; empty if they were not recorded."""
        file = self.path / "environment.json"
        return read_record(file, dict) if file.exists() else {}

    def save_metrics(self, history: list[dict[str, Any]]) -> None:
        """Write all metrics again: after a resume, epochs past the checkpoint are repeated."""
        write_whole(self.metrics, "".join(json.dumps(line) + "\n" for line in history).encode())

    def finish(self, result: dict[str, Any], embeddings: dict[str, Any]) -> None:
        """Write embeddings and result, and remove the checkpoint."""
        with whole_file(self.embeddings) as file:
            np.savez(file, **embeddings)
        write_json(self.path / "result.json", result)
        self.checkpoint.unlink(missing_ok=True)


def check_numbers(records: Sequence[Any], file: Path) -> list[dict[str, Any]]:
    """The records of a file, in which all numbers of probes are numbers.

    Raises:
        DamagedError: If one is not.
    """
    known = known_numbers().keys()
    for record in records:
        for name in known & record.keys():
            try:
                conform(record[name], float, repr(name))
            except MismatchError as error:
                raise DamagedError(file, str(error)) from error
    return list(records)


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, machine and device, for the record."""
    return {
        "pucl": pucl.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": str(device),
        "processes": processes.world_size(),
        "threads": torch.get_num_threads(),
    }
