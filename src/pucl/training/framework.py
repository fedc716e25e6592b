"""What a framework is: it says who is compared with whom, and moves its memory when a step is done."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from pucl.contrast.pairs import Pairs
from pucl.shapes import Int, Tensor

_Samples = TypeVar("_Samples")


@dataclass(frozen=True, kw_only=True)
class Batch(Generic[_Samples]):
    """The samples of one step that this process has.

    Args:
        samples: Samples as they are stored: images or graphs.
        ids: Which samples of the data they are.
        make_generator: Makes the source of all random choices of this step, on the CPU; the same in every process.
        part: Which of the step's samples these are; those of all processes are one batch.
        whole: How many samples the step has in all processes.
        labels: Labels of all data, by id, for the oracle alone; None otherwise.
    """

    samples: _Samples
    ids: Int[Tensor, " batch"]
    make_generator: Callable[[], torch.Generator]
    part: slice
    whole: int
    labels: Int[Tensor, " sample"] | None = None

    @cached_property
    def generator(self) -> torch.Generator:
        """Source of all random choices of this step. It is made at its first use: graphs draw nothing."""
        return self.make_generator()


class Framework(nn.Module, Generic[_Samples]):
    """One way to find positives and unlabelled samples. The losses of its comparisons are added.

    A subclass defines `pairs` and `forward`, and `commit` where it has a memory.

    Attributes:
        separate_statistics: Whether each process keeps the batch statistics of its own samples. Otherwise batch norms
            take them over all processes.
    """

    separate_statistics = False

    @property
    def ready(self) -> bool:
        """Whether the unlabelled samples are what a correction assumes. A queue must be full first."""
        return True

    def pairs(self, batch: Batch[_Samples]) -> list[Pairs]:
        """Who is compared with whom; none while there is nothing to compare with."""
        raise NotImplementedError

    def commit(self) -> None:
        """Move queue, bank or momentum encoder, after the optimiser's step and in sight of the training loop."""

    def forward(self, samples: _Samples) -> Any:
        """Features of samples, [batch, feature]: the encoder's output before the head, in evaluation."""
        raise NotImplementedError

    def never_ready(self, steps: int, batch_size: int) -> str | None:
        """Say why a training of so many steps ends before `ready`; None if it does not.

        Args:
            steps: Steps of the training.
            batch_size: Samples in a step.
        """
        del steps, batch_size
        return None

    def parts_to_compile(self) -> list[nn.Module]:
        """The modules that torch.compile may translate."""
        return []
