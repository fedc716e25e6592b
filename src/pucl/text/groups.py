"""Groups of pairs that are known to belong together, because they share a text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def group_pairs(texts: Sequence[str], seconds: Sequence[str] | None = None) -> NDArray[np.int64]:
    """The group of each pair, from 0 in the order of first appearance.

    Two pairs with an equal text are in one group, and so are pairs that are connected by a chain of these. Without
    second texts, equal texts are one group. Texts are equal if they differ at most in white space at their ends.

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
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        """The text that stands for all texts of its group."""
        parent.setdefault(text, text)
        top = text
        while parent[top] != top:
            top = parent[top]
        while parent[text] != top:  # Shorten the chain for the next search.
            parent[text], text = top, parent[text]
        return top

    firsts = [text.strip() for text in texts]
    for first, second in zip(firsts, firsts if seconds is None else map(str.strip, seconds), strict=True):
        parent[root(second)] = root(first)
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(root(first), len(numbers)) for first in firsts], np.int64)
