"""How good the embeddings are while they are learned: nearest neighbours within the training set."""

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation.probes import KNNProbe

MOST = 5000  # Samples that are looked at; more would cost more time than they tell.
HELD_OUT = 5  # Every so many-th of them is classified by the rest.
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
        self._held = np.arange(len(self.places)) % HELD_OUT == 0

    @property
    def possible(self) -> bool:
        """Whether there are enough samples, and those that vote are of two classes at least."""
        return len(self._labels) >= 2 * HELD_OUT and len(np.unique(self._labels[~self._held])) > 1

    def accuracy(self, features: NDArray[np.float32]) -> float:
        """The share of the held-out samples whose neighbours name the right class.

        Args:
            features: Of the samples at `places`, as they are now.
        """
        held = self._held
        probe = KNNProbe().fit(features[~held], self._labels[~held])
        return probe.score(features[held], self._labels[held])
