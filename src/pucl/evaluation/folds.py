"""The same folds for every classifier: each sample is tested once, by one that has not seen it."""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.errors import ExtraMissingError
from pucl.evaluation.probes import Features, Labels, Probe, _training_set

FOLDS = 10
"""Outer folds of the graph references."""

Progress = Callable[[int, int], None]
"""Told how many pieces of the work are done, and of how many."""


class Split(NamedTuple):
    """Places of the samples to learn from, and of those held back."""

    train: NDArray[np.intp]
    held: NDArray[np.intp]


def stratified_splits(labels: NDArray[np.int64], folds: int, seed: int | None) -> list[Split]:
    """Parts with about the same share of each class, each held back once: scikit-learn's ``StratifiedKFold``.

    A class with fewer samples than folds is absent from some of them. That is allowed, as in scikit-learn; whoever
    calls says so to the user, once.

    Args:
        labels: The class of each sample, [sample].
        folds: How many parts, at least 2. Some class has as many samples or more.
        seed: Of the order within each class; None takes samples as they come.
    """
    try:
        from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("cross-validation", "scikit-learn") from error
    if folds < 2:
        raise ValueError(f"folds are parts that are held back in turn: expected at least 2, got {folds}")
    largest = int(np.bincount(labels).max())
    if largest < folds:
        raise ValueError(
            f"folds have a share of each class: expected at most as many as the largest class has samples, {largest}, "
            f"got {folds} folds"
        )
    splitter = StratifiedKFold(folds, shuffle=seed is not None, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        splits = [Split(train, held) for train, held in splitter.split(np.zeros(len(labels)), labels)]
    if any(len(np.unique(labels[split.train])) < 2 for split in splits):
        raise ValueError(
            f"a classifier tells classes apart: expected two or more in what is left of {len(labels)} samples for each "
            f"of {folds} folds, got one, since all others are too small"
        )
    return splits


def can_be_folded(labels: NDArray[np.int64], folds: int) -> bool:
    """Whether two classes are left in every part to learn from: one in every fold, another in every inner fold too."""
    sizes = np.sort(np.bincount(labels))
    return len(sizes) > 1 and bool(sizes[-1] >= folds and sizes[-2] >= 3)


def warn_of_small_classes(labels: NDArray[np.int64], folds: int, inner_folds: int = 0) -> None:
    """Say once that the smallest class cannot be in every fold, or in every inner fold of what is left."""
    smallest = int(np.unique(labels, return_counts=True)[1].min())
    left = smallest - math.ceil(smallest / folds)
    if smallest < folds or left < inner_folds:
        inner = f" of {inner_folds} inner folds each" if inner_folds else ""
        warnings.warn(
            f"the smallest class, of {smallest}, is too small for {folds} folds{inner} and absent from some: take "
            f"fewer folds, or mind that such an accuracy says little of that class",
            stacklevel=3,
        )


def cross_validated(
    make: Callable[[], Probe],
    features: Features,
    labels: Labels,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[float, ...]:
    """The accuracy of a probe on each fold, learned from all others; folds are those of `cross_validated_svm`.

    Args:
        make: A fresh probe, which makes its own choices inside what it is given: ``FullBatchLinearProbe``, say.
        features: Embeddings, [sample, dim].
        labels: The class of each, [sample].
        folds: Parts with about the same share of each class.
        seed: Of the folds.
        progress: Told how many folds are done.

    Example:
        >>> from pucl.evaluation import KNNProbe
        >>> features = torch.eye(2).repeat(20, 1)
        >>> cross_validated(KNNProbe, features, torch.tensor([0, 1]).repeat(20), folds=4)
        (1.0, 1.0, 1.0, 1.0)
    """
    x, y, _ = _training_set(features, labels)
    splits = stratified_splits(y.cpu().numpy(), folds, seed)
    warn_of_small_classes(y.cpu().numpy(), folds)
    accuracies = []
    for split in splits:
        train, held = (torch.from_numpy(places).to(x.device) for places in split)
        accuracies.append(make().fit(x[train], y[train]).score(x[held], y[held]))
        if progress is not None:
            progress(len(accuracies), folds)
    return tuple(accuracies)
