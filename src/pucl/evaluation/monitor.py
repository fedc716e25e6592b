"""How good the embeddings are while they are learned: nearest neighbours within the training set."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation.probes import KNNProbe

MOST = 5000  # Images that are looked at; more would cost more time than they tell.
MEMORY = 2**27  # Bytes that they may take; large images are looked at in smaller number.
HELD_OUT = 5  # Every so many-th of them is classified by the rest.


class Monitor:
    """Accuracy of nearest neighbours on a part of the training images that is held out of the vote.

    No test image is ever looked at, so that whoever stops or chooses by this number chooses honestly.

    Args:
        pixels: The training images.
        labels: Their classes.
        embed: What makes features of images.
    """

    def __init__(
        self,
        pixels: NDArray[np.uint8],
        labels: NDArray[np.int64],
        embed: Callable[[NDArray[np.uint8]], NDArray[np.float32]],
    ) -> None:
        # At random places, not every so many-th: data often come sorted, or in turns of their classes.
        most = min(MOST, max(HELD_OUT * 20, MEMORY // pixels[0].nbytes))
        places = np.random.default_rng(0).permutation(len(pixels))[:most]
        self._pixels, self._labels = pixels[np.sort(places)], labels[np.sort(places)]
        self._embed = embed

    @staticmethod
    def possible(labels: NDArray[Any] | None) -> bool:
        """Whether there are labels of two classes at least, and enough images."""
        return labels is not None and len(labels) >= 2 * HELD_OUT and len(np.unique(labels)) > 1

    def accuracy(self) -> float:
        """The share of the held-out images whose neighbours name the right class."""
        features = self._embed(self._pixels)
        held = np.arange(len(features)) % HELD_OUT == 0
        probe = KNNProbe().fit(features[~held], self._labels[~held])
        return probe.score(features[held], self._labels[held])
