"""Groups of pairs that are known to belong together, because they share a text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.pairs import components


def group_pairs(texts: Sequence[str], seconds: Sequence[str] | None = None) -> NDArray[np.int64]:
    """The group of each pair, from 0 in the order of first appearance.

    Two pairs with an equal text are in one group, and so are pairs that are connected by a chain of these. Without
    second texts, equal texts are one group. Texts are equal if they differ at most in white space at their ends.
    Unlike `pucl.pairs.groups`, a pair that is alone has a group of its own.

    Args:
        texts: The first text of each pair.
        seconds: The second text of each pair; None for single texts.

    Shapes:
        int64 [pair].

    Example:
        >>> group_pairs(["a", "c", "b", "e"], ["b", "d", "x", "f"]).tolist()
        [0, 1, 0, 2]
        >>> group_pairs(["a", "b", "a "]).tolist()
        [0, 1, 0]
    """
    columns = [texts] if seconds is None else [texts, seconds]
    found = components([[text.strip() for text in row] for row in zip(*columns, strict=True)])
    _, first, numbers = np.unique(found, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def check_groups(groups: NDArray[np.int64], batch_size: int, name: str) -> tuple[str, ...]:
    """Notes on groups that leave a batch without negatives.

    Args:
        groups: The group of each pair.
        batch_size: Pairs of a batch.
        name: The data, for the error.

    Raises:
        DataError: If all pairs are of one group, so that nothing could be compared.
    """
    largest = int(np.bincount(groups).max())
    mend = "`pucl pairs check` names the texts that join most pairs; remove these pairs, or give --no-groups"
    if largest == len(groups) > 1:
        raise DataError(
            f"{name}: pairs that share a text are no negatives of each other: expected two groups or more, got one of "
            f"all {largest:,} pairs; {mend}"
        )
    if largest == 1 or 2 * largest <= batch_size:
        return ()
    if largest < batch_size:
        return (f"one group has {largest:,} pairs, more than half of a batch of {batch_size:,}; {mend}",)
    return (
        f"one group has {largest:,} pairs, and a batch has {batch_size:,}: a batch of this group alone has no "
        f"negatives, and teaches nothing; {mend}",
    )
