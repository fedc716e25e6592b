"""Pairs that a run never takes for negatives: read from a file, and part of what its data are."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.config import RunConfig
from pucl.data.choosing import checksum
from pucl.data.pairlist import read_pairs
from pucl.modality import Task


def excluded_pairs(config: RunConfig, task: Task) -> NDArray[np.int64] | None:
    """The pairs of the run's list as indices of its samples, [pair, 2]; None if it has no list.

    Raises:
        DataError: If the list cannot be read, or is of other data.
    """
    if config.exclude is None:
        return None
    return read_pairs(Path(config.exclude).expanduser()).within(len(task.samples), task.names)


def fingerprint(config: RunConfig, task: Task) -> dict[str, Any]:
    """Counts and checksums of the data of a run, and of the pairs that it leaves out.

    The same path can hold another list next week. A run is resumed with the same list only.
    """
    excluded = excluded_pairs(config, task)
    if excluded is None:
        return task.fingerprint()
    return task.fingerprint() | {"excluded": checksum(excluded)}
