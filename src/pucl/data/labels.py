"""Labels of samples: whole numbers, each the index of a class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError

SHOWN_CLASSES = 3  # Names in the repr of a set.


def classes_text(classes: tuple[str, ...]) -> str:
    """The end of the repr of a set: its classes, after a comma."""
    if not classes:
        return ", no labels"
    shown = ", ".join(classes[:SHOWN_CLASSES])
    more = ", ..." if len(classes) > SHOWN_CLASSES else ""
    return f", {len(classes):,} classes: {shown}{more}"


def are_whole_numbers(array: NDArray[Any]) -> bool:
    """Whether an array holds whole numbers. numpy's own check would accept timedelta64 too."""
    return array.dtype.kind in "iu"


def check_labels(labels: NDArray[np.int64], count: int, classes: tuple[str, ...]) -> None:
    """Refuse labels that are not one index of a class for each sample."""
    if labels.dtype != np.int64 or labels.shape != (count,):
        raise DataError(
            f"labels are one class for each sample: expected int64 [{count}], got {labels.dtype} {list(labels.shape)}"
        )
    if not classes:
        raise DataError("labels are indices into classes: expected the names of the classes, got none")
    wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if len(wrong):
        raise DataError(
            f"labels are indices into classes: expected 0..{len(classes) - 1}, got {labels[wrong[0]]} for sample "
            f"{wrong[0]}" + (f" and {len(wrong) - 1} more that are out of range" if len(wrong) > 1 else "")
        )
