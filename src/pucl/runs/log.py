"""What a training leaves behind while it goes on, and goes on from."""

import time
from typing import Any

from pucl import processes
from pucl.records import DamagedError
from pucl.runs.directory import RunDirectory
from pucl.training.checkpoint import save_checkpoint
from pucl.training.loop import Training


def same_data(there: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether two fingerprints are of the same data, by what the earlier one tells; see `Task.fingerprint`."""
    return all(here.get(name) == value for name, value in there.items())


def check_same_data(directory: RunDirectory, there: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse to go on with data other than those that a run was begun with."""
    if not same_data(there, here):
        raise ValueError(
            f"{directory.path} holds a run on other data: there were {there.get('samples')} samples, and here are "
            f"{here['samples']}, not the same, or with other labels or features; choose another directory with --out"
        )


class RunLog:
    """Metrics, warnings, time and state of a training, kept in the run's directory.

    Every process holds the same; the first writes it down.

    Args:
        directory: Of the run.
        data: What tells the samples from others; see `Task.fingerprint`. A checkpoint is not continued on others.
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
        """How long the training has taken, with that of earlier calls."""
        return time.monotonic() - self._began

    @property
    def processor_seconds(self) -> float:
        """The same by the processors of this process."""
        return time.process_time() - self._processor_began

    def resume(self, training: Training[Any]) -> bool:
        """Bring a training to where the last checkpoint is; False where there is none."""
        state = processes.from_first(self._directory.state)
        if state is None:
            return False
        check_same_data(self._directory, state["data"], self._data)
        try:
            training.load(state)
        except (ValueError, RuntimeError, TypeError, LookupError, AttributeError) as error:  # Whatever torch raises.
            raise DamagedError(self._directory.checkpoint, f"it does not fit this training: {error}") from error
        history = processes.from_first(self._directory.history)
        self.history = [dict(line) for line in history if line["step"] <= training.step]
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

    def keep(self, training: Training[Any]) -> None:
        """Write everything down."""
        if processes.rank() == 0:
            self.keep_metrics()
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

    def keep_metrics(self) -> None:
        """Write the metrics alone, where the state is past use; nothing where there are none."""
        if processes.rank() == 0 and self.history:
            self._directory.keep_metrics(self.history)
