"""Cross-validation: every sample is tested once, by a classifier that has not learned from it."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation.classifier import Features, Labels, check_training_set
from pucl.evaluation.probe import Labelled, ProbedSamples, Split, need_sklearn

FOLDS = 10
"""Number of folds in the programs of the graph references."""


def folded(features: Features, labels: Labels, *, folds: int = FOLDS, seed: int = 0) -> ProbedSamples:
    """Samples in stratified folds, each of which is tested once.

    Args:
        features: Embeddings, [sample, dim].
        labels: The class of each sample, [sample].
        folds: Number of folds, each with about the same share of each class.
        seed: Seed of the folds. The same seed gives the same folds for every set of features.

    Raises:
        ValueError: If there are too few samples for this number of folds.
        ExtraMissingError: If scikit-learn is not installed.
    """
    x, _, _ = check_training_set(features, labels)
    samples = Labelled(x.cpu().numpy(), np.asarray(labels))
    splits = split_in_folds(samples, folds, seed)
    smallest = int(np.unique(samples.labels, return_counts=True)[1].min())
    if smallest < folds:
        warnings.warn(
            f"the smallest class has {smallest} samples, too few for {folds} folds, and is absent from some of them: "
            f"the accuracy says little about that class; use fewer folds",
            stacklevel=2,
        )
    return ProbedSamples(splits=tuple(splits), tested=samples, seed=seed)


def split_in_folds(samples: Labelled, folds: int, seed: int | None) -> list[Split]:
    """The folds of scikit-learn's ``StratifiedKFold``: each has about the same share of each class.

    As in scikit-learn, a class with fewer samples than folds is absent from some folds.

    Args:
        samples: The samples.
        folds: Number of folds, at least 2. The largest class has as many samples or more.
        seed: Seed of the order within each class; None keeps the order.
    """
    make_splitter, labels = need_folds().StratifiedKFold, samples.labels
    if folds < 2:
        raise ValueError(f"folds are held out one after the other: expected at least 2, got {folds}")
    largest = int(np.bincount(labels).max())
    if largest < folds:
        raise ValueError(
            f"every fold has samples of the largest class: expected at most {largest} folds, its number of samples, "
            f"got {folds}"
        )
    splitter = make_splitter(folds, shuffle=seed is not None, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = [Split(samples.take(train), samples.take(held)) for train, held in splitter.split(labels, labels)]
    if any(len(np.unique(split.train.labels)) < 2 for split in found):
        raise ValueError(
            f"a classifier separates classes: expected two classes or more outside of each of {folds} folds of "
            f"{len(labels)} samples, got one: all other classes are too small"
        )
    return found


def need_folds() -> Any:
    """The module of scikit-learn that makes folds. Raise `ExtraMissingError` if it is not installed."""
    return need_sklearn("model_selection", "cross-validation")


def can_be_folded(labels: NDArray[np.integer], folds: int) -> bool:
    """Whether two classes are left outside of every fold, also after inner folds are taken from the rest."""
    sizes = np.sort(np.bincount(labels))
    return len(sizes) > 1 and bool(sizes[-1] >= folds and sizes[-2] >= 3)
