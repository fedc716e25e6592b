"""What every framework does: say who is compared with whom, and move its memory when the step is done."""

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import torch

from pucl.contrast.pairs import Pairs
from pucl.shapes import Float, Int, Tensor, UInt8
from pucl.views.recipe import Drawn, Views

_Drawn = TypeVar("_Drawn", bound=Drawn)
_View = TypeVar("_View")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The samples of one step that this process has.

    Args:
        pixels: The images as they are stored.
        ids: Which samples of the data they are.
        generator: Source of all random choices of this step, on the CPU; in every process the same.
        part: Which of the step's samples these are; those of all processes are one batch.
        whole: How many samples the step has in all processes.
        labels: Labels of the whole data, by id, for the oracle alone; None otherwise.
    """

    pixels: UInt8[Tensor, "batch 3 height width"]
    ids: Int[Tensor, " batch"]
    generator: torch.Generator
    part: slice
    whole: int
    labels: Int[Tensor, " sample"] | None = None

    def seen_by(self, views: Views[_Drawn, _View]) -> _View:
        """One view of each image. Chance decides for the whole batch, so it does not matter who has which part."""
        height, width = self.pixels.shape[2:]
        parameters = views.draw(self.whole, self.generator, height=height, width=width)
        with torch.autocast(self.pixels.device.type, enabled=False):  # Colours keep their digits.
            return views.apply(self.pixels, parameters[self.part])


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
