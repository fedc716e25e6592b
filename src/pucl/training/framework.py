"""What a framework is: it says who is compared with whom, and moves its memory when a step is done."""

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn

from pucl.contrast.pairs import Pairs
from pucl.shapes import Int, Tensor

_Samples = TypeVar("_Samples")


@dataclass(frozen=True, kw_only=True)
class Batch(Generic[_Samples]):
    """The samples of one step that this process has.

    Args:
        ids: Which samples of the data they are.
        generator: Source of all random choices of this step, on the CPU; the same in every process.
        part: The slice of the step's samples that this process has. All processes together have one batch.
        whole: How many samples the step has in all processes.
        progress: The share of the training that is done before this step, from 0 to below 1.
    """

    samples: _Samples
    ids: Int[Tensor, " batch"]
    generator: torch.Generator
    part: slice
    whole: int
    progress: float = 0.0


class Framework(nn.Module, Generic[_Samples]):
    """One way to find positives and unlabelled samples. The losses of its comparisons are added or averaged.

    A subclass defines `pairs`, and `commit` if it has a memory. The other methods fit a framework that has one
    `encoder`, one `head` and random `views`; a framework of other parts replaces them.

    Attributes:
        encodes: Names of the attributes that are saved as the encoder of a run: encoders and heads, but not queues,
            banks and slow copies.
        averaged: Whether the losses of its comparisons are averaged. Otherwise they are added.
        separate_statistics: Whether each process keeps the batch statistics of its own samples. Otherwise batch norms
            take them over all processes.
    """

    encodes: ClassVar[tuple[str, ...]] = ("encoder", "head")
    averaged: ClassVar[bool] = False
    separate_statistics = False

    encoder: nn.Module
    head: nn.Module
    views: Any

    @property
    def ready(self) -> bool:
        """Whether the unlabelled samples are what a correction assumes. A queue must be full first."""
        return True

    def pairs(self, batch: Batch[_Samples]) -> list[Pairs]:
        """Who is compared with whom; none while there is nothing to compare with.

        The pairs name the samples of anchors and keys: the oracles look up their labels.
        """
        raise NotImplementedError

    def commit(self) -> None:
        """Move queue, bank or momentum encoder, after the optimiser's step and in sight of the training loop."""

    def forward(self, samples: _Samples) -> Any:
        """Features of samples, [batch, feature]: the encoder's output before the head, in evaluation."""
        return self.encoder(self.views.plain(samples))

    def look(self, samples: _Samples, generator: torch.Generator) -> list[Tensor]:
        """The embeddings of two random views of each sample, as the loss compares them."""
        return [self.head(self.encoder(self.views(samples, generator))) for _ in range(2)]

    def networks(self) -> list[nn.Module]:
        """The encoders whose outputs, side by side, are the features."""
        return [self.encoder]

    def parts_to_compile(self) -> list[nn.Module]:
        """The modules that torch.compile may translate."""
        return [self.encoder, self.head]

    def never_ready(self, steps: int, batch_size: int) -> str | None:  # noqa: ARG002
        """Why a training of this length would end before the framework is `ready`; None if it would not."""
        return None
