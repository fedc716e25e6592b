"""What a training leaves behind while it goes on, and goes on from."""

import time
from typing import Any

from pucl import processes
from pucl.experiments.directory import RunDirectory
from pucl.training.checkpoint import save_checkpoint
from pucl.training.loop import Training


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

    @property
    def seconds(self) -> float:
        """How long the training has taken, with that of earlier calls."""
        return time.monotonic() - self._began

    def resume(self, training: Training[Any]) -> bool:
        """Bring a training to where the last checkpoint is; False where there is none."""
        state = processes.from_first(self._directory.state)
        if state is None:
            return False
        if state["data"] != self._data:
            raise ValueError(
                f"{self._directory.path} holds a run on other samples: there were {state['data']['samples']}, and "
                f"here are {self._data['samples']}, not the same; choose another directory"
            )
        training.load(state)
        self.history = [line for line in processes.from_first(self._directory.history) if line["step"] <= training.step]
        self.warnings = list(state["warnings"])
        self._began = time.monotonic() - state["seconds"]
        return True

    def keep(self, training: Training[Any]) -> None:
        """Write everything down."""
        if processes.rank() == 0:
            self.keep_metrics()
            about = {"seconds": self.seconds, "warnings": list(self.warnings), "data": self._data}
            save_checkpoint(self._directory.checkpoint, training.state() | about)
        self.saved = time.monotonic()

    def keep_metrics(self) -> None:
        """Write the metrics alone, where the state is past use; nothing where there are none."""
        if processes.rank() == 0 and self.history:
            self._directory.keep_metrics(self.history)
