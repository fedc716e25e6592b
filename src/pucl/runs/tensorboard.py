"""The metrics of a run for TensorBoard too, beside those in its directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pucl.data.errors import ExtraMissingError

SKIPPED = ("epoch", "epochs", "step", "steps", "seconds_left")  # Where a training is, and no quantity.


class TensorBoard:
    """Writes each epoch's metrics as events; after a resume, those past the checkpoint are replaced.

    Args:
        directory: Where to; ``tensorboard --logdir`` of it or of any directory above shows them.
        step: At which step the training goes on; events after it come from a training that was killed.
    """

    def __init__(self, directory: Path, *, step: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (an extra)
        except ImportError as error:
            raise ExtraMissingError("--tensorboard", "tensorboard") from error
        self._writer = SummaryWriter(str(directory), purge_step=step + 1)

    def epoch(self, line: Mapping[str, Any]) -> None:
        """Take in one epoch."""
        for name, value in line.items():
            if isinstance(value, int | float) and name not in SKIPPED:
                self._writer.add_scalar(name, value, int(line["step"]))
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
