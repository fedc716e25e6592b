"""What is trained and tested: data with known relevance, and a model of their embeddings."""

from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from torch import nn

from pucl.shapes import Float, Tensor
from study.pairs.rows import KnowingLoss, Row

Numbers = dict[str, float]
"""Numbers of the retrieval probe, by their names in records."""


class Training(Protocol):
    """The training samples of one trial."""

    @property
    def samples(self) -> int:
        """Number of samples that a correction may remember."""
        ...

    @property
    def prior(self) -> float:
        """Share of hidden positives among the unlabelled."""
        ...

    def losses(self, model: nn.Module, loss: KnowingLoss, generator: torch.Generator) -> Iterator[Float[Tensor, ""]]:
        """The loss of each step of an epoch."""
        ...


class World(Protocol):
    """Data with known relevance."""

    def model(self, seed: int) -> nn.Module:
        """A model before training."""
        ...

    def training(self, row: Row, seed: int, *, validation: bool) -> Training:
        """What a row is trained on: the same samples for all rows of a seed.

        Args:
            row: The row.
            seed: It chooses the samples, and which of them are known to belong together.
            validation: Whether settings are chosen, so that validation samples are not trained on.
        """
        ...

    def measure(self, model: nn.Module, *, validation: bool) -> Mapping[str, Numbers]:
        """Retrieval with validation or test samples, by the name of the part that is searched."""
        ...
