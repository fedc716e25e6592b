"""How good the embeddings are while they are learned: nearest neighbours within the training set."""

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation.probes import KNNProbe

MOST = 5000  # Samples that are looked at; more would cost more time than they tell.
HELD_OUT = 5  # One in so many of each class is held out, and classified by the rest.
FEWEST = 20 * HELD_OUT


class Monitor:
    """Accuracy of nearest neighbours on a part of the training samples that is held out of the vote.

    No test sample is ever looked at, so that whoever stops or chooses by this number chooses honestly.

    Args:
        labels: The classes of the training samples.
        most: How many samples are looked at.

    Attributes:
        places: Which samples they are; the same ones every time.
    """

    def __init__(self, labels: NDArray[np.int64], *, most: int = MOST) -> None:
        # At random places, not every so many-th: data often come sorted, or in turns of their classes.
        chosen = np.random.default_rng(0).permutation(len(labels))[: min(MOST, max(FEWEST, most))]
        self.places: NDArray[np.int64] = np.sort(chosen)
        self._labels = labels[self.places]
        self._held = held_out(self._labels)

    @property
    def possible(self) -> bool:
        """Whether there are enough samples, some are held out, and those that vote are of two classes at least."""
        enough = len(self._labels) >= 2 * HELD_OUT and bool(self._held.any())
        return enough and len(np.unique(self._labels[~self._held])) > 1

    def accuracy(self, features: NDArray[np.float32]) -> float:
        """The share of the held-out samples whose neighbours name the right class.

        Args:
            features: Of the samples at `places`, as they are now.
        """
        held = self._held
        probe = KNNProbe().fit(features[~held], self._labels[~held])
        return probe.score(features[held], self._labels[held])


def held_out(labels: NDArray[np.int64], *, seed: int = 0) -> NDArray[np.bool_]:
    """Draw one in `HELD_OUT` samples of each class at random; every class keeps a sample that votes.

    A stride over samples as they are stored would not do: where classes come in turn, it can hold out whole classes,
    and a class without voters is never found.

    Args:
        labels: The class of each sample.
        seed: Seed of the draw.

    Returns:
        True for each sample that is held out, [sample].
    """
    _, number, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    dealt = shuffled[np.argsort(number[shuffled], kind="stable")]  # Class after class, each in random order.
    held = np.zeros(len(labels), dtype=np.bool_)
    held[dealt[HELD_OUT // 2 :: HELD_OUT]] = True
    return held & (sizes[number] > 1)
