"""What every framework does: say who is compared with whom, and move its memory when the step is done."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch

from pucl.contrast.pairs import Pairs
from pucl.images.views.recipe import Drawn, Views
from pucl.precision import full_precision
from pucl.shapes import Float, Int, Tensor

_Drawn = TypeVar("_Drawn", bound=Drawn)
_View = TypeVar("_View")
_Samples = TypeVar("_Samples")


@dataclass(frozen=True, kw_only=True)
class Batch(Generic[_Samples]):
    """The samples of one step that this process has.

    Args:
        samples: Images as they are stored, or graphs.
        ids: Which samples of the data they are.
        make_generator: Makes the source of all random choices of this step, on the CPU; in every process the same.
        part: Which of the step's samples these are; those of all processes are one batch.
        whole: How many samples the step has in all processes.
        labels: Labels of the whole data, by id, for the oracle alone; None otherwise.
    """

    samples: _Samples
    ids: Int[Tensor, " batch"]
    make_generator: Callable[[], torch.Generator]
    part: slice
    whole: int
    labels: Int[Tensor, " sample"] | None = None

    @cached_property
    def generator(self) -> torch.Generator:
        """Source of all random choices of this step, made when the first is to be made: on graphs there are none."""
        return self.make_generator()


ImageBatch = Batch[Tensor]
"""A batch of images as they are stored: uint8 [batch, 3, height, width]."""


def see(batch: ImageBatch, views: Views[_Drawn, _View]) -> _View:
    """One view of each image. Chance decides for the whole batch, so it does not matter who has which part."""
    height, width = batch.samples.shape[2:]
    parameters = views.draw(batch.whole, batch.generator, height=height, width=width)
    with full_precision(batch.samples.device):  # Colours keep their digits.
        return views.apply(batch.samples, parameters[batch.part])


@runtime_checkable
class Framework(Protocol[_Samples]):
    """One way to find positives and unlabelled samples. The losses of its comparisons are added."""

    @property
    def ready(self) -> bool:
        """Whether the unlabelled samples are what a correction assumes (a queue must be full first)."""
        ...

    def pairs(self, batch: Batch[_Samples]) -> list[Pairs]:
        """Who is compared with whom; none, if there is nothing to compare with yet."""
        ...

    def commit(self) -> None:
        """Move queue, bank and momentum encoder, after the optimiser's step and in sight of the training loop."""
        ...

    def forward(self, samples: _Samples) -> Float[Tensor, "batch feature"]:
        """What a classifier is given: the encoder's output before the head, in evaluation."""
        ...


ImageFramework = Framework[Tensor]
"""A framework whose samples are images: uint8 [batch, 3, height, width]."""
