"""What a training leaves behind while it goes on, and goes on from."""

import time
import zlib
from typing import Any

import numpy as np
import torch

from pucl import processes
from pucl.data import ImageSet
from pucl.experiments.directory import RunDirectory
from pucl.training.checkpoint import save_checkpoint
from pucl.training.loop import Training


class RunLog:
    """Metrics, warnings, time and state of a training, kept in the run's directory.

    Every process holds the same; the first writes it down.

    Args:
        directory: Of the run.
        images: What it is trained on. A checkpoint is not continued on others.
    """

    def __init__(self, directory: RunDirectory, images: ImageSet) -> None:
        self.history: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.saved = time.monotonic()
        self._directory = directory
        self._data = _print_of(images)
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the training has taken, with that of earlier calls."""
        return time.monotonic() - self._began

    def resume(self, training: Training[torch.Tensor]) -> bool:
        """Bring a training to where the last checkpoint is; False where there is none."""
        state = processes.from_first(self._directory.state)
        if state is None:
            return False
        if state["data"] != self._data:
            raise ValueError(
                f"{self._directory.path} holds a run on other images: there were {state['data']['images']}, and here "
                f"are {self._data['images']}, not the same; choose another directory"
            )
        training.load(state)
        self.history = [line for line in processes.from_first(self._directory.history) if line["step"] <= training.step]
        self.warnings = list(state["warnings"])
        self._began = time.monotonic() - state["seconds"]
        return True

    def keep(self, training: Training[torch.Tensor]) -> None:
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


def _print_of(images: ImageSet) -> dict[str, Any]:
    """What tells these images from others, without reading them all."""
    some = images.pixels[np.unique(np.linspace(0, len(images) - 1, 64).astype(np.int64))]
    return {"images": len(images), "size": list(images.size), "crc": zlib.crc32(some.tobytes())}
