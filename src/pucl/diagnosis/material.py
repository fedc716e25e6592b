"""What is diagnosed: checked, as vectors of length 1."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.contrast.embeddings import as_embeddings, unit
from pucl.estimation.communities import FEWEST
from pucl.estimation.granularity import Granularity
from pucl.shapes import Float, Int, Tensor

Vectors = Tensor | NDArray[Any] | Sequence[Sequence[float]]
Labels = Tensor | NDArray[Any] | Sequence[Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """What is diagnosed.

    Args:
        embeddings: One row for each sample.
        keys: What they are compared with: views, or the embeddings themselves.
        features: What groups are searched in; None for the mean of embedding and view.
        labels: The class of each sample, from 0; None if unknown.
        classes: Names of the classes.
        names: What each sample is called; None if its index is enough.
    """

    embeddings: Float[Tensor, "sample dim"]
    keys: Float[Tensor, "sample dim"]
    features: Float[Tensor, "sample feature"] | None
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    names: tuple[str, ...] | None

    @property
    def views(self) -> bool:
        """Whether there are views beside the embeddings."""
        return self.keys is not self.embeddings

    def features_of(self, samples: Int[Tensor, " some"]) -> Float[Tensor, "some feature"]:
        """The features of some samples."""
        if self.features is not None:
            return self.features[samples]
        return (self.embeddings[samples] + self.keys[samples]) / 2 if self.views else self.embeddings[samples]

    def name_of(self, sample: int) -> str | None:
        """What a sample is called; None if its index is enough."""
        return None if self.names is None else self.names[sample]

    def class_of(self, sample: int) -> str | None:
        """The class of a sample; None if it is unknown."""
        return None if self.labels is None else self.classes[self.labels[sample]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Divided:
    """Some of the samples, divided into groups; the others follow.

    Args:
        material: All samples.
        samples: Indices of those that were divided, rising.
        granularity: Their groups.
    """

    material: Material
    samples: Int[Tensor, " divided"]
    granularity: Granularity

    def groups_of(self, samples: Int[Tensor, " some"]) -> Int[Tensor, "some partition"]:
        """The groups of any samples."""
        at = torch.searchsorted(self.samples, samples).clamp_max(len(self.samples) - 1)
        groups = self.granularity.groups[at]
        others = (self.samples[at] != samples).nonzero()[:, 0]
        if len(others):
            groups[others] = self.granularity.groups_of(self.material.features_of(samples[others]))
        return groups


def make_material(
    embeddings: Vectors,
    views: Vectors | None,
    labels: Labels | None,
    *,
    names: Sequence[str] | None,
    features: Vectors | None,
) -> Material:
    """Check what is to be diagnosed; see `pucl.diagnosis.diagnose`.

    Raises:
        ValueError: If something has the wrong shape or values, in a sentence that says what.
    """
    vectors = _vectors("embeddings", embeddings)
    count = len(vectors)
    if count < FEWEST:
        raise ValueError(
            f"embeddings are compared with each other, one row for each sample: expected at least {FEWEST} rows, "
            f"got {count}"
        )
    keys = vectors
    if views is not None:
        keys = _vectors("views", views)
        if keys.shape != vectors.shape:
            raise ValueError(
                f"views are the positives of the embeddings, row by row: expected the shape {list(vectors.shape)}, "
                f"got {list(keys.shape)}"
            )
    given = None
    if features is not None:
        given = _vectors("features", features)
        _check_length("features are what groups are searched in", len(given), count)
    if names is not None:
        _check_length("names are what the samples are called", len(names), count)
    numbers, classes = (None, ()) if labels is None else _classes(labels, count)
    return Material(
        embeddings=vectors,
        keys=keys,
        features=given,
        labels=numbers,
        classes=classes,
        names=None if names is None else tuple(map(str, names)),
    )


@torch.no_grad()
def _vectors(name: str, values: Vectors) -> Float[Tensor, "sample dim"]:
    """Vectors of length 1 in float32 on the CPU."""
    if not isinstance(values, Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} are vectors: expected numbers, got {array.dtype!s:.40}")
        values = torch.from_numpy(np.require(array, np.float32, ["C", "W"]))  # torch warns of arrays it may not write.
    return unit(name, as_embeddings(name, values.detach().cpu().float()))


def _classes(labels: Labels, count: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels as numbers from 0, and what they are called."""
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "biufSU":
        raise ValueError(
            f"labels are the classes of the samples: expected a number or a text for each, got {array.dtype!s:.40} of "
            f"shape {list(array.shape)}"
        )
    _check_length("labels are the classes of the samples", len(array), count)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("labels are the classes of the samples: expected a number for each, got NaN or infinity")
    classes, numbers = np.unique(array, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), tuple(map(str, classes))


def _check_length(meaning: str, length: int, count: int) -> None:
    if length != count:
        raise ValueError(f"{meaning}: expected one for each of {count:,} samples, got {length:,}")
