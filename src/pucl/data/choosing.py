"""Choosing samples, and telling data from others."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.split import draw_some


def evenly(labels: NDArray[np.int64] | None, count: int, limit: int) -> NDArray[np.int64]:
    """The places of so many samples out of all, as evenly over the classes as they come."""
    if limit < 2:
        raise ValueError(f"limit is how many samples are used: expected at least 2, got {limit}")
    chosen = np.linspace(0, count - 1, limit).astype(np.int64)
    if labels is None:
        return chosen
    # By rank within the class, so that every class has its share.
    return np.sort(np.argsort(labels, kind="stable")[chosen])


def to_show(labels: NDArray[np.int64] | None, count: int, most: int) -> NDArray[np.int64]:
    """Indices of the samples that a figure shows: all, or at most so many; evenly over the classes where known.

    Unlike `evenly`, it draws unlabelled samples at random: samples that are stored class by class in turn would
    otherwise show some of their classes only.
    """
    if labels is None or count <= most:
        return draw_some(count, most)
    return evenly(labels, count, most)


def checksum(*tables: NDArray[Any] | None) -> int:
    """A number that tells these tables from others; what is not known is passed over."""
    crc = 0
    for table in tables:
        if table is not None:
            crc = zlib.crc32(np.ascontiguousarray(table).tobytes(), crc)
    return crc
