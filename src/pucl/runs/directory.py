"""The directory of a run: its record, and the only thing that reports read."""

import fcntl
import json
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Required, TypedDict, cast

import numpy as np
import torch

import pucl
from pucl import processes
from pucl.config import RunConfig
from pucl.files import left_parts, whole_file, write_json, write_whole
from pucl.frameworks.recipes import read_config
from pucl.records import DamagedError, read_lines, read_record
from pucl.runs.display import PROGRESS
from pucl.training.checkpoint import Checkpoint, load_checkpoint


class RunResult(TypedDict, total=False):
    """What a finished run came to; it may hold more than this."""

    seconds: Required[float]
    svm: float
    svm_scaled: float
    linear: float
    knn: float
    loss: float
    floored: float
    tau_plus: float
    evaluation_seconds: float
    processor_seconds: float
    peak_memory_mib: float
    data: dict[str, Any]
    notes: list[str]
    warnings: list[str]


class EpochMetrics(TypedDict, total=False):
    """The metrics of one epoch; it may hold more than this."""

    epoch: Required[int]
    step: Required[int]
    loss: float
    floored: float
    tau_plus: float
    knn: float
    positive_similarity: float
    unlabelled_similarity: float
    learning_rate: float
    samples_per_second: float


class RunDirectory:
    """Where one run keeps configuration, environment, metrics, checkpoint, encoder, embeddings and result.

    Args:
        path: The directory; made when it is first used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoint(self) -> Path:
        """The state of the training."""
        return self.path / "checkpoint.pt"

    @property
    def weights(self) -> Path:
        """Encoder and head."""
        return self.path / "encoder.safetensors"

    @property
    def embeddings(self) -> Path:
        """What the encoder makes of all samples."""
        return self.path / "embeddings.npz"

    @property
    def metrics(self) -> Path:
        """One line of JSON for each epoch."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Where TensorBoard's events go, if they are wanted."""
        return self.path / "tensorboard"

    @contextmanager
    def claimed(self, config: RunConfig, *, device: torch.device) -> Iterator[None]:
        """Use the directory for this run alone, or say why that cannot be."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is to hold a run: expected a directory or a new name, got a file")
        passing = {self.path / ".lock", self.path / PROGRESS, *left_parts(self.path)}
        held = set(self.path.iterdir()) - passing if self.path.exists() else set()
        if held and not (self.path / "config.json").exists():
            raise ValueError(
                f"{self.path} holds something else than a run of pucl: choose another directory with --out"
            )
        other = self.config() if held else config  # Other programs have files of that name too.
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path} is in use by another process that runs the same") from None
            for part in left_parts(self.path):
                part.unlink(missing_ok=True)  # Of a process that was killed: others do not get so far as here.
            # A run that came to nothing, such as one with a setting that cannot be, is nobody's loss.
            if self.begun and other != config:
                differences = _differences(other, config)
                raise ValueError(f"{self.path} holds another run: {differences}; choose another directory with --out")
            try:
                if not self.begun:
                    write_json(self.path / "config.json", config.as_json())
                if self.result() is None:
                    write_json(self.path / "environment.json", environment(device))
                yield
            except BaseException:
                if not self.begun:
                    self._clear()
                raise

    def _clear(self) -> None:
        """Leave nothing of a run that came to nothing, such as one whose data are not there."""
        shutil.rmtree(self.tensorboard, ignore_errors=True)
        known = (self.weights, self.embeddings, *(self.path / name for name in (PROGRESS, "environment.json")))
        for file in (*known, self.path / "config.json", self.path / ".lock"):  # The lock last: until then it is ours.
            file.unlink(missing_ok=True)
        with suppress(OSError):  # Somebody else's file is a reason to stay.
            self.path.rmdir()

    @property
    def begun(self) -> bool:
        """Whether there is something to go on from, or to return."""
        return any(path.exists() for path in (self.checkpoint, self.metrics, self.path / "result.json"))

    @property
    def in_use(self) -> bool:
        """Whether a process has claimed the directory."""
        try:
            with (self.path / ".lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def config(self) -> RunConfig:
        """What the run is."""
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
        """What is here instead of a run."""
        if not self.path.is_dir():
            return "there is no such directory"
        below = next(self.path.rglob("config.json"), None)
        return "it has no config.json" + (f"; there are runs below it, such as {below.parent}" if below else "")

    def result(self) -> dict[str, Any] | None:
        """What the run came to; None while it is not finished."""
        file = self.path / "result.json"
        return cast(dict[str, Any], read_record(file, RunResult)) if file.exists() else None

    def state(self) -> Checkpoint | None:
        """The state of the training at its last checkpoint; None before the first."""
        return load_checkpoint(self.checkpoint) if self.checkpoint.exists() else None

    def history(self) -> list[dict[str, Any]]:
        """The metrics of each epoch so far."""
        return cast(list[dict[str, Any]], read_lines(self.metrics, EpochMetrics)) if self.metrics.exists() else []

    def environment(self) -> dict[str, Any]:
        """With what the run was made; empty where that was not written down."""
        file = self.path / "environment.json"
        return read_record(file, dict) if file.exists() else {}

    def keep_metrics(self, history: list[dict[str, Any]]) -> None:
        """Write the metrics anew: after a resume, epochs past the checkpoint are run again."""
        write_whole(self.metrics, "".join(json.dumps(line) + "\n" for line in history).encode())

    def keep_embeddings(self, parts: dict[str, Any]) -> None:
        """Write embeddings and labels."""
        with whole_file(self.embeddings) as file:
            np.savez(file, **parts)


def environment(device: torch.device) -> dict[str, Any]:
    """With what a run was made."""
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


def _differences(one: RunConfig, other: RunConfig) -> str:
    before, after = one.as_json(), other.as_json()
    return ", ".join(
        f"{name} is {before[name]!r} there and {after[name]!r} here" for name in before if before[name] != after[name]
    )
