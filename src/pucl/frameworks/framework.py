"""What every framework does: say who is compared with whom, and move its memory when the step is done."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from pucl.contrast.pairs import Pairs
from pucl.shapes import Float, Int, Tensor, UInt8


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Samples of one step.

    Args:
        pixels: The images as they are stored.
        ids: Which samples of the data they are.
        generator: Source of all random choices of this step, on the CPU.
        labels: Labels of the whole data, by id, for the oracle alone; None otherwise.
    """

    pixels: UInt8[Tensor, "batch 3 height width"]
    ids: Int[Tensor, " batch"]
    generator: torch.Generator
    labels: Int[Tensor, " sample"] | None = None


@runtime_checkable
class Framework(Protocol):
    """One way to find positives and unlabelled samples. The losses of its comparisons are added."""

    @property
    def ready(self) -> bool:
        """Whether the unlabelled samples are what a correction assumes (a queue must be full first)."""
        ...

    def pairs(self, batch: Batch) -> list[Pairs]:
        """Who is compared with whom; none, if there is nothing to compare with yet."""
        ...

    def commit(self) -> None:
        """Move queue, bank and momentum encoder, after the optimiser's step and in sight of the training loop."""
        ...

    def forward(self, pixels: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch feature"]:
        """What a classifier is given: the encoder's output before the head, in evaluation."""
        ...
