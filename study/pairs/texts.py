"""Texts with classes: texts of one class are relevant to each other, and a pair is two of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.evaluation import record_key
from pucl.evaluation.retrieval import rank_neighbours
from pucl.shapes import Bool, Float, Tensor
from study.pairs.rows import GUIDE, TRUTH, KnowingLoss, Row
from study.pairs.world import Numbers

Indices = NDArray[np.int64]

TEST, HELD_OUT = "test", "held out"
"""The parts that are searched: texts of the classes that are trained on, and of others."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Texts as numbers.

    Args:
        inputs: What a model takes, one row for each text.
        features: Features of the untrained model, one row for each text.
        labels: The class of each text.
    """

    inputs: Sequence[Tensor]
    features: Float[Tensor, "text dim"]
    labels: Indices

    def take(self, indices: Indices) -> list[Tensor]:
        """The inputs of these texts."""
        chosen = torch.from_numpy(indices)
        return [each[chosen] for each in self.inputs]


@dataclass(frozen=True, eq=False, kw_only=True)
class TextWorld:
    """Texts with classes, as inputs of a model.

    Args:
        train: Texts to train on.
        validation: Texts to choose settings with: of the same classes, and not trained on then.
        train_without: Texts to train on while settings are chosen.
        test: Texts to test with, of all classes.
        trained_classes: Classes that are trained on; the others are held out.
        each: Texts of each class that are trained on, drawn by the seed; as many as a class has if it has fewer.
        batch: Texts of a step.
        build: Makes the model, by torch's global generator.
    """

    train: Part
    train_without: Part
    validation: Part
    test: Part
    trained_classes: Indices
    each: int
    batch: int
    build: Callable[[], nn.Module]

    def model(self, seed: int) -> nn.Module:
        """The model before training."""
        torch.manual_seed(seed)
        return self.build()

    def training(self, row: Row, seed: int, *, validation: bool) -> "TextTraining":
        """Texts of the trained classes, and which of them are known to belong together."""
        part = self.train_without if validation else self.train
        generator = np.random.default_rng(seed)
        size, groups = row.known + 1, []
        for label in self.trained_classes:
            members = generator.permutation(np.flatnonzero(part.labels == label))[: self.each]
            count = len(members) // size
            groups.append(members[: count * size].reshape(count, size))
        shares = np.array([each.size for each in groups]) / sum(each.size for each in groups)
        return TextTraining(
            part=part,
            groups=np.concatenate(groups),
            views=row.at_once + 1,
            batch=self.batch,
            prior=float((shares**2).sum()),
        )

    @torch.no_grad()
    def measure(self, model: nn.Module, *, validation: bool) -> Mapping[str, Numbers]:
        """Search with every text for the others of its class, among those of the part."""
        part = self.validation if validation else self.test
        seen = np.isin(part.labels, self.trained_classes)
        parts = {TEST: seen} | ({} if validation or seen.all() else {HELD_OUT: ~seen})
        measured = {}
        for name, chosen in parts.items():
            indices = np.flatnonzero(chosen)
            blocks = [indices[start : start + self.batch] for start in range(0, len(indices), self.batch)]
            features = torch.cat([model(*part.take(block)) for block in blocks])
            found = rank_neighbours(features.numpy(), part.labels[indices]).means()
            measured[name] = {record_key("retrieval", key): value for key, value in found.items()}
        return measured


@dataclass(eq=False, kw_only=True)
class TextTraining:
    """Texts in groups that are known to belong together.

    A step takes some of the texts of a group, drawn anew, as the views of one sample; all texts of other groups are
    unlabelled.

    Args:
        part: The texts.
        groups: Indices of the texts of each group.
        views: Texts of a group that are taken in a step.
        batch: Texts of a step.
        prior: Share of hidden positives among the unlabelled.
    """

    part: Part
    groups: NDArray[np.int64]
    views: int
    batch: int
    prior: float

    @property
    def samples(self) -> int:
        """Number of groups."""
        return len(self.groups)

    def losses(self, model: nn.Module, loss: KnowingLoss, generator: torch.Generator) -> Iterator[Float[Tensor, ""]]:
        """The loss of each step of an epoch.

        An epoch takes as many texts as there are, and so as many steps with few views as with many.
        """
        count = self.batch // self.views
        drawn: list[Indices] = []
        while len(drawn) * self.batch < self.groups.size:
            order = torch.randperm(len(self.groups), generator=generator).numpy()
            drawn += [order[start : start + count] for start in range(0, max(1, len(order) - count + 1), count)]
        for chosen in drawn[: max(1, self.groups.size // self.batch)]:
            places = torch.rand(len(chosen), self.groups.shape[1], generator=generator).argsort(dim=1)[:, : self.views]
            texts = np.take_along_axis(self.groups[chosen], places.numpy(), axis=1).T.ravel()
            views = model(*self.part.take(texts)).unflatten(0, (self.views, len(chosen)))
            if loss.row.related == TRUTH:
                labels = torch.from_numpy(self.part.labels[texts])
                loss.related = labels[:, None] == labels
            elif loss.row.related == GUIDE:
                loss.related = closer_than_partner(self.part.features[torch.from_numpy(texts)], len(chosen))
            yield loss(*views, ids=torch.from_numpy(chosen))


def closer_than_partner(features: Float[Tensor, "text dim"], count: int) -> Bool[Tensor, "text text"]:
    """Pairs that are closer than the anchor is to its partner, which is `count` rows further on, in a circle."""
    cosines = features @ features.T
    partner = torch.arange(len(features)).roll(-count)
    return cosines > cosines.gather(1, partner[:, None])


class Head(nn.Module):
    """A network of two layers that is added to its input. Before training it returns its input.

    Args:
        dim: Dimension of input and output.
        width: Units of the layer between.
    """

    def __init__(self, dim: int = 384, width: int = 256) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(dim, width), nn.Linear(width, dim)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)

    def forward(self, features: Float[Tensor, "text dim"], *_more: Tensor) -> Float[Tensor, "text dim"]:
        """The features, moved."""
        moved: Tensor = features + self.second(torch.relu(self.first(features)))
        return moved
