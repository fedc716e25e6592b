"""Groups of pairs that are known to belong together, because they share a text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
