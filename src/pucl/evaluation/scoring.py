"""The probes by name, and what they make of one set of embeddings."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation.probes import Features, FullBatchLinearProbe, KNNProbe, Labels, LinearProbe, Probe

LINEAR, REFERENCE, KNN = "linear", "linear-reference", "knn"

PROBES: dict[str, Callable[[], Probe]] = {LINEAR: FullBatchLinearProbe, REFERENCE: LinearProbe, KNN: KNNProbe}
"""By name: the linear probe and the neighbours of every run, and the linear probe by the references' recipe."""


def accuracies(
    train: Features,
    labels: Labels,
    test: Features,
    test_labels: Labels,
    *,
    probes: Iterable[str] = (LINEAR, KNN),
    folds: Sequence[NDArray[np.int64]] | None = None,
) -> dict[str, float]:
    """Accuracy on the test samples by probe, 0 to 1.

    Args:
        train: Embeddings that the probes are fitted on.
        labels: Their classes.
        test: Embeddings that they are scored on.
        test_labels: Their classes.
        probes: Names out of `PROBES`.
        folds: Rows of `train`, where the data prescribe that probes are fitted on each such part by itself; the
            accuracy is then the mean over them (STL10's protocol).
    """
    parts = [slice(None)] if folds is None else folds
    return {
        name: float(np.mean([PROBES[name]().fit(train[part], labels[part]).score(test, test_labels) for part in parts]))
        for name in probes
    }
