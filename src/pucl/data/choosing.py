"""Choose samples: a test set, a part of the data, or some for a figure. The choice is always the same."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # The step of splitmix64.

TEST_SHARE = 0.2
"""Share of each class to hold out if a data set comes without a test set."""


def check_share(test_share: float) -> None:
    """Refuse a share that would leave no samples to train on."""
    if not 0 <= test_share < 1:
        raise ValueError(
            f"test_share is the share of each class to hold out for tests: expected 0 <= share < 1, got {test_share}"
        )


def order_for_split(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Order samples so that the last ones are a stratified test set, whatever its share.

    The samples of a class are shuffled and get quantiles that are spread evenly over (0, 1]. All samples are sorted by
    quantile, from high to low. The test set of share s is then the samples with a quantile below s: one array on disk
    serves every share without a copy. One sample of each class has quantile 1, so every class has training samples.

    Returns:
        The order as indices, and the quantiles in that order.

    Example:
        >>> order, quantiles = order_for_split(np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1]))
        >>> count_held_out(quantiles, 0.2)
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


def count_held_out(quantiles: NDArray[np.float64], test_share: float) -> int:
    """The number of samples at the end of the order that are the test set."""
    return int(np.count_nonzero(quantiles < test_share))


def draw_some(count: int, most: int) -> NDArray[np.int64]:
    """Draw indices of samples at random, in rising order; always the same ones.

    Every n-th sample would not do: if samples are stored class by class in turn, these can all be of one class.

    Example:
        >>> draw_some(4, 9).tolist(), len(draw_some(1000, 32))
        ([0, 1, 2, 3], 32)
    """
    return np.sort(np.argsort(_scrambled(count), kind="stable")[:most])


def evenly(labels: NDArray[np.int64] | None, count: int, limit: int) -> NDArray[np.int64]:
    """Choose indices of ``limit`` of the samples, evenly from all classes; without labels, evenly from all."""
    if limit < 2:
        raise ValueError(f"limit is the number of samples to use: expected at least 2, got {limit}")
    chosen = np.linspace(0, count - 1, limit).astype(np.int64)
    if labels is None:
        return chosen
    # Every n-th sample in the order of classes, so that every class has its share.
    return np.sort(np.argsort(labels, kind="stable")[chosen])


def to_show(labels: NDArray[np.int64] | None, count: int, most: int) -> NDArray[np.int64]:
    """Choose indices of at most this many samples for a figure: evenly from all classes; at random without labels."""
    if labels is None or count <= most:
        return draw_some(count, most)
    return evenly(labels, count, most)


def checksum(*tables: NDArray[Any] | None) -> int:
    """The CRC-32 of these arrays one after the other; None is skipped."""
    crc = 0
    for table in tables:
        if table is not None:
            crc = zlib.crc32(np.ascontiguousarray(table).tobytes(), crc)
    return crc


def splitmix64(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number, in which every bit depends on every bit of the number.

    It is written out because numpy's generators may change.
    """
    z = numbers + GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)


def _scrambled(count: int) -> NDArray[np.uint64]:
    """A pseudo-random number for each index."""
    return splitmix64(np.arange(count, dtype=np.uint64) * GOLDEN)
