"""Samples after an encoder: embedded, shown on a page, or compared with each other.

A modality returns these from its `Task` and `Trained` (`pucl.modality`); diagnosis and reports read them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Labels = NDArray[np.int64]
Indices = NDArray[np.int64]
Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbeddedSamples:
    """The samples whose features a run keeps under the name ``train``.

    Args:
        labels: Their classes; None if unknown.
        classes: Names of the classes.
        names: Where each sample is from, such as its path inside a folder; None if its index is enough.
    """

    count: int
    labels: Labels | None
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Pictures in rows on one sheet.

    Args:
        src: The sheet as a data URI.
        side: Side of a picture in pixels.
        columns: Number of pictures in a row.
    """

    src: str
    side: int
    columns: int
    kind: Literal["sheet"] = "sheet"


@dataclass(frozen=True, kw_only=True)
class Drawings:
    """Graphs as nodes and edges. All fields are arrays of numbers in base64, for all graphs one after the other.

    Args:
        nodes: Number of drawn nodes of each graph, as bytes.
        edges: Number of drawn edges of each graph, in two bytes each.
        positions: Coordinates x and y of each node, as bytes.
        ends: First and second node of each edge, as bytes.
        sizes: Number of nodes of each graph, drawn or not, in four bytes each.
    """

    nodes: str
    edges: str
    positions: str
    ends: str
    sizes: str
    kind: Literal["drawings"] = "drawings"


@dataclass(frozen=True, kw_only=True)
class ShownTexts:
    """Texts, the longest of them cut."""

    texts: tuple[str, ...]
    kind: Literal["texts"] = "texts"


Thumbnails = Sheet | Drawings | ShownTexts
"""Samples as a page shows them. The page knows these three kinds."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbeddedData:
    """The features of a data set.

    Args:
        arrays: By name: features, labels, names and classes, as a ``.npz`` file holds them.
        rows: All features as one array, [sample, feature].
        parts: Number of samples of each part; empty for data without parts.
    """

    arrays: dict[str, NDArray[Any]]
    rows: Features
    parts: dict[str, int]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownSamples:
    """Some samples and their features, for a figure.

    Args:
        part: The samples that they are chosen from, in words: ``"test images"``.
        indices: Their indices among those.
        classes: Names of the classes.
    """

    part: str
    indices: Indices
    rows: Features
    labels: Labels | None
    classes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        part: str,
        samples: Any,
        choose: Callable[[Labels | None, int], Indices],
        encode: Callable[[Any], Features],
    ) -> "ShownSamples":
        """Choose among samples that have `labels`, `classes` and `subset(indices)`, and encode the chosen ones."""
        indices = choose(samples.labels, len(samples))
        chosen = samples.subset(indices)
        return cls(part=part, indices=indices, rows=encode(chosen), labels=chosen.labels, classes=chosen.classes)


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedSamples:
    """Some training samples, embedded as the loss of the training compares them.

    Args:
        embeddings: One vector of length 1 for each sample, [anchor, dim].
        views: What each sample is known to belong to, such as its second view or its partner, as vectors of length 1;
            None if there is no such thing.
        indices: Indices of the samples among all that are trained on.
        samples: Number of all samples that are trained on.
        features: The features of the samples before the head and without random views, [anchor, feature].
        names: Where each sample is from, or what it is, in words; None if its index is enough.
    """

    embeddings: Tensor
    views: Tensor | None
    indices: Indices
    samples: int
    features: Features
    labels: Tensor | None
    names: tuple[str, ...] | None = None

    @cached_property
    def cosines(self) -> Tensor:
        """Of each sample with what every sample belongs to, or with every sample, [anchor, anchor]."""
        return self.embeddings @ (self.embeddings if self.views is None else self.views).T

    @property
    def pairs(self) -> Tensor:
        """True for each pair of different samples, once."""
        count = len(self.embeddings)
        if self.views is None:
            return torch.ones(count, count, dtype=torch.bool).triu(1)  # The other half is equal.
        return ~torch.eye(count, dtype=torch.bool)

    @property
    def positive(self) -> Features | None:
        """Cosines of known positives; None if there are none."""
        if self.views is None:
            return None
        values: Features = self.cosines.diagonal().numpy().copy()
        return values

    @classmethod
    def of_views(
        cls,
        views: Iterable[Sequence[Tensor]],
        *,
        indices: Indices,
        samples: int,
        features: Features,
        labels: Labels | None,
        names: tuple[str, ...] | None = None,
    ) -> "ComparedSamples":
        """Compare the first view of each sample with the second views of all. Those of one sample are positives.

        Args:
            views: For each batch, the embeddings of both views.
            indices: Indices of the samples among all that are trained on.
            samples: Number of samples that they were chosen from.
            features: Their features before the head and without random views.
            labels: Their labels.
            names: Their names.
        """
        firsts, seconds = (nn.functional.normalize(torch.cat(each), dim=1) for each in zip(*views, strict=True))
        return cls(
            embeddings=firsts,
            views=seconds,
            indices=indices,
            samples=samples,
            features=features,
            labels=None if labels is None else torch.from_numpy(labels),
            names=names,
        )
