"""The files that a training writes while it runs, and resumes from."""

import time
from typing import Any

from pucl import processes
from pucl.records import DamagedError
from pucl.runs.directory import RunDirectory
from pucl.training.checkpoint import save_checkpoint
from pucl.training.loop import Training


def same_data(there: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether all entries of an earlier fingerprint have the same values now; see `Task.fingerprint`."""
    return all(here.get(name) == value for name, value in there.items())


def check_same_data(directory: RunDirectory, there: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse to resume a run on other data than those it began with."""
    if not same_data(there, here):
        raise ValueError(
            f"{directory.path} holds a run on other data: it has {there.get('samples')} samples, and now there are "
            f"{here['samples']}, or other samples, labels or features; choose another directory with --out"
        )


class RunLog:
    """Metrics, warnings, time and state of a training, saved in the run's directory.

    Every process holds the same; the first one writes it.

    Args:
        data: The fingerprint of the samples; see `Task.fingerprint`. A checkpoint of other samples is refused.

    Attributes:
        history: The metrics of each epoch.
        warnings: All warnings so far.
        saved: When the last checkpoint was written, on the clock of `time.monotonic`.
    """

    def __init__(self, directory: RunDirectory, data: dict[str, Any]) -> None:
        self.history: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.saved = time.monotonic()
        self._directory = directory
        self._data = data
        self._began = time.monotonic()
        self._processor_began = time.process_time()

    @property
    def seconds(self) -> float:
        """Time of the training, including the time before it was resumed."""
        return time.monotonic() - self._began

    @property
    def processor_seconds(self) -> float:
        """Processor time of the training in this process, including the time before it was resumed."""
        return time.process_time() - self._processor_began

    def resume(self, training: Training[Any]) -> bool:
        """Load the last checkpoint into a training; return False if there is none."""
        state = processes.from_first(self._directory.state)
        if state is None:
            return False
        check_same_data(self._directory, state["data"], self._data)
        try:
            training.load(state)
        except (ValueError, RuntimeError, TypeError, LookupError, AttributeError) as error:  # Whatever torch raises.
            raise DamagedError(self._directory.checkpoint, f"it does not fit this training: {error}") from error
        history = processes.from_first(self._directory.history)
        self.history = [dict(metrics) for metrics in history if metrics["step"] <= training.step]
        epochs = training.step // training.steps_per_epoch
        if len(self.history) != epochs:
            raise DamagedError(
                self._directory.metrics,
                f"the checkpoint beside it is of epoch {epochs}: expected a line for each, got {len(self.history)}",
            )
        self.warnings = list(state["warnings"])
        self._began = time.monotonic() - state["seconds"]
        self._processor_began = time.process_time() - state["processor_seconds"]
        return True

    def save(self, training: Training[Any]) -> None:
        """Write metrics and checkpoint."""
        if processes.rank() == 0:
            self.save_metrics()
            save_checkpoint(
                self._directory.checkpoint,
                {
                    **training.state(),
                    "warnings": list(self.warnings),
                    "data": self._data,
                    "seconds": self.seconds,
                    "processor_seconds": self.processor_seconds,
                },
            )
        self.saved = time.monotonic()

    def save_metrics(self) -> None:
        """Write the metrics, if there are any, without a checkpoint: a failed training cannot be resumed."""
        if processes.rank() == 0 and self.history:
            self._directory.save_metrics(self.history)
