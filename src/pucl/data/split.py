"""Which pictures are held back to be tested on: fixed, stratified, and the same whatever the library versions."""

import numpy as np
from numpy.typing import NDArray

TEST_SHARE = 0.2
"""Share of each class that is held back where a data set comes without a test set."""


def check_share(test_share: float) -> None:
    """Refuse a share that would leave nothing to train on."""
    if not 0 <= test_share < 1:
        raise ValueError(
            "test_share is the share of each class that is held back for tests: expected 0 <= share < 1, "
            f"got {test_share}"
        )


def order_for_split(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Order pictures such that for every share the test set is the tail, and each class gives its part to it.

    The pictures of a class are shuffled and spread evenly over (0, 1]; the order is by that quantile, from high to
    low. A test set of share s is then what has a quantile below s, so one array on disk serves every share, without
    a copy. The last of each class has quantile 1: no class is without pictures to train on.

    Returns:
        The order, and the quantiles in that order.

    Example:
        >>> order, quantiles = order_for_split(np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1]))
        >>> held_back(quantiles, 0.2)
        2
    """
    quantiles = np.empty(len(labels))
    keys = _scrambled(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(keys[members], kind="stable")]
        quantiles[members] = (np.arange(len(members)) + 0.5) / len(members)
        quantiles[members[-1]] = 1
    order = np.argsort(-quantiles, kind="stable").astype(np.int64)
    return order, quantiles[order]


def held_back(quantiles: NDArray[np.float64], test_share: float) -> int:
    """How many pictures at the end of the order are the test set."""
    return int(np.count_nonzero(quantiles < test_share))


def draw_some(count: int, most: int) -> NDArray[np.int64]:
    """Indices of at most so many samples out of all, drawn at random, in rising order; the same ones every time.

    A stride would not do: where samples are stored class by class in turn, all that it takes can be of one class.

    Example:
        >>> draw_some(4, 9).tolist(), len(draw_some(1000, 32))
        ([0, 1, 2, 3], 32)
    """
    return np.sort(np.argsort(_scrambled(count), kind="stable")[:most])


def _scrambled(count: int) -> NDArray[np.uint64]:
    """A number for each row that looks random (splitmix64), written out since numpy's generators may change."""
    z = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)
