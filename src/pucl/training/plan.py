"""The settings of a training loop."""

import math
from dataclasses import dataclass

from pucl import processes
from pucl.contrast.compat import Compat
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.objective import Floor
from pucl.devices import Precision
from pucl.training.optimisers import Schedule


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a training loop.

    Args:
        epochs: Passes over the data.
        batch_size: Samples per step, of all processes together.
        learning_rate: The highest learning rate.
        schedule: The learning rate over time; see `pucl.training.optimisers.schedule`.
        warmup_epochs: Epochs in which the learning rate rises from 0.
        clip: Clip gradients to this norm; None: off.
        seed: Seed of order, views and draws. The same seed gives the same training.
        floor: Smallest value of the estimate over negatives; see `pucl.contrast.objective.Floor`.
        precision: Number format of encoder and head. Losses are always computed in float32.
        keep_rest: Whether an epoch ends with a smaller batch of the remaining samples, at least two for each process,
            as is usual for graphs. Otherwise an epoch leaves these samples out.
        compat: Use the loss as its authors published it; see `pucl.contrast.compat`.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Schedule = "constant"
    warmup_epochs: int = 0
    clip: float | None = None
    seed: int = 0
    objective: ObjectiveName = "infonce"
    floor: Floor = "temperature"
    precision: Precision = "float32"
    keep_rest: bool = False
    compat: Compat | None = None

    def __post_init__(self) -> None:
        check_plan(self.epochs, self.batch_size, self.clip)

    def steps_per_epoch(self, samples: int) -> int:
        """Number of steps of an epoch, given the number of samples."""
        rest = self.keep_rest and samples % self.batch_size >= 2 * processes.world_size()
        return samples // self.batch_size + int(rest)


def check_plan(epochs: int, batch_size: int, clip: float | None) -> None:
    """Refuse impossible values of a plan; see `Plan`."""
    if clip is not None and not 0 < clip < math.inf:
        raise ValueError(f"clip is the largest norm that a gradient may have: expected above 0, got {clip}")
    if epochs < 1:
        raise ValueError(f"epochs is the number of passes over the data: expected at least 1, got {epochs}")
    if batch_size < 2:
        raise ValueError(f"batch_size is the number of samples in a step: expected at least 2, got {batch_size}")
