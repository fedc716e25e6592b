"""The quality of the embeddings during a training, measured inside the training set."""

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation.probe import Labelled, Probe, measure, train_and_test

MOST = 5000  # Samples that are embedded; more would take time and say little more.
HELD_OUT = 5  # One in five samples of each class is held out.
FEWEST = 20 * HELD_OUT


class Monitor:
    """Measures embeddings of training samples: probes learn from some of them and are tested on the others.

    It never uses a test sample, so that it is honest to stop a training or to choose a setting by its numbers.

    Args:
        labels: The classes of the training samples.
        most: Most samples that are used.

    Attributes:
        indices: The samples that are used; always the same ones.
    """

    def __init__(self, labels: NDArray[np.int64], *, most: int = MOST) -> None:
        # Drawn at random. Every n-th sample would not do: data often come sorted, or with classes in turn.
        chosen = np.random.default_rng(0).permutation(len(labels))[: min(MOST, max(FEWEST, most))]
        self.indices: NDArray[np.int64] = np.sort(chosen)
        self._labels = labels[self.indices]
        self._held = held_out(self._labels)

    @property
    def possible(self) -> bool:
        """Whether there are enough samples, some are held out, and the others are of two classes at least."""
        enough = len(self._labels) >= 2 * HELD_OUT and bool(self._held.any())
        return enough and len(np.unique(self._labels[~self._held])) > 1

    def measure(self, features: NDArray[np.float32], probes: dict[str, Probe]) -> dict[str, float]:
        """The leading number of each monitored probe, by the name of the probe.

        Args:
            features: Embeddings of the samples at `indices`.
            probes: Probes by name; those that are not monitored, or lack a package, are skipped.
        """
        samples = Labelled(features, self._labels)
        held = np.flatnonzero(self._held)
        rest = np.flatnonzero(~self._held)
        monitored = {name: probe for name, probe in probes.items() if probe.monitored and probe.installed}
        record = measure(train_and_test(samples.take(rest), samples.take(held)), monitored)
        return {name: record[name] for name in monitored if name in record}


def held_out(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Draw one in `HELD_OUT` samples of each class at random. Every class keeps a sample to learn from.

    Every n-th sample of the data would not do: where classes come in turn, it can hold out whole classes.

    Returns:
        True for each sample that is held out, [sample].
    """
    _, number, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(0).permutation(len(labels))
    dealt = shuffled[np.argsort(number[shuffled], kind="stable")]  # Class after class, each in random order.
    held = np.zeros(len(labels), dtype=np.bool_)
    held[dealt[HELD_OUT // 2 :: HELD_OUT]] = True
    return held & (sizes[number] > 1)
