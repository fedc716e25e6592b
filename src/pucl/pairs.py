"""Groups of pairs that belong together: they share a text, or are joined by pairs that do."""

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.errors import ExtraMissingError
from pucl.data.pairlist import read_pairs
from pucl.floored import user_level
from pucl.shapes import Int, Tensor

NONE = -1  # The group of a row that shares nothing with another one.
MANY = 100  # Rows from which a group of more than half of them is worth a warning.
SHOWN = 3  # Elements that an error names.
LONGEST = 40  # Characters of an element that an error shows.

__all__ = ["groups", "read_groups"]


def groups(
    pairs: Iterable[Any], samples: Iterable[Any] | None = None, *, most: int | None = None
) -> Int[Tensor, " row"]:
    """Group ids for a loss: pairs that share an element, directly or through other pairs, are of one group.

    If "a" belongs to "b" and "b" belongs to "c", then "a" belongs to "c": a group is a connected component of the graph
    of pairs. Elements are equal by content: two pairs with the same text are joined, wherever the texts stand.

    Pass the ids of a batch to any loss: ``loss(z0, z1, groups=ids[rows])``. Members of a group are then positives of
    each other and never each other's negatives.

    Args:
        pairs: The pairs, each a sequence of texts, indices or other hashable elements; more than two are allowed. Or an
            array of indices, [pair, 2].
        samples: Elements to return groups for, in their order, such as ``range(10)`` if pairs are pairs of indices.
            They need not occur in pairs; equal ones are of one group. None: return the group of each pair.
        most: An element in more than this many pairs joins nothing. A stock answer such as "yes" would otherwise make
            one group of all questions. None (default): every element joins.

    Returns:
        int64 [pair] or [sample]: numbers from 0, and -1 for a row that is alone in its group.

    Raises:
        ValueError: If all rows are of one group: no loss could compare anything.

    Note:
        The same element in two rows that are *not* joined, because of `most`, is pushed away from itself. Give equal
        elements equal ``ids``: `pucl.adapters.TwoTowerLoss` leaves out pairs of the same id.

    Example:
        >>> groups([("how old", "9"), ("your age", "9"), ("colour", "red"), ("age", "your age")]).tolist()
        [0, 0, -1, 0]
        >>> groups([(0, 2), (2, 3)], range(5)).tolist()
        [0, -1, 0, 0, -1]
    """
    if most is not None and most < 1:
        raise ValueError(f"most is the number of pairs that one element may join: expected at least 1, got {most}")
    rows = [_elements(pair) for pair in _listed(pairs)]
    counts = Counter(chain.from_iterable(set(row) for row in rows))
    asked = rows if samples is None else [(sample,) for sample in _listed(samples)]
    if not asked:
        return torch.empty(0, dtype=torch.int64)
    # A row of the graph is a pair, or a sample that is asked for. It is joined to its elements.
    joined = rows if samples is None else [*rows, *asked]
    component = components([[each for each in row if most is None or counts[each] <= most] for row in joined])
    of_asked = component[-len(asked) :]
    _, first, numbers, sizes = np.unique(of_asked, return_index=True, return_inverse=True, return_counts=True)
    _check_largest(int(sizes.max()), len(asked), counts)
    # Groups of two or more are numbered in the order in which they appear.
    shared = sizes > 1
    order = np.full(len(sizes), NONE)
    order[np.flatnonzero(shared)[np.argsort(first[shared])]] = np.arange(int(shared.sum()))
    return torch.from_numpy(order[numbers].astype(np.int64))


def read_groups(file: str | Path, samples: int | Sequence[str], *, most: int | None = None) -> Int[Tensor, " sample"]:
    """Group ids for a loss from a list of pairs, such as `pucl suspects` writes it; see `groups`.

    Args:
        file: A ``.csv``, ``.parquet`` or ``.json`` file with the columns ``first`` and ``second``, indices of samples,
            or ``first_name`` and ``second_name``.
        samples: Number of samples, or the name of each.
        most: A sample in more than this many pairs joins nothing; see `groups`. Pairs of pairs are joined, so that a
            long list can make one group of many samples.

    Returns:
        int64 [sample]: numbers from 0, and -1 for a sample that is in no pair.

    Example::

        ids = pucl.pairs.read_groups("pairs.csv", len(data))
        loss(z0, z1, groups=ids[rows])
    """
    count, names = (samples, None) if isinstance(samples, int) else (len(samples), samples)
    return groups(read_pairs(Path(file)).within(count, names), range(count), most=most)


def _listed(values: Iterable[Any]) -> Iterable[Any]:
    """Arrays and tensors as lists: the elements of a tensor are never equal as keys."""
    return values.tolist() if isinstance(values, np.ndarray | torch.Tensor) else values


def _elements(pair: Any) -> tuple[Hashable, ...]:
    """The elements of a pair; raise if it is none."""
    elements = () if isinstance(pair, str) else tuple(_listed(pair))
    if len(elements) < 2 or any(isinstance(element, torch.Tensor) for element in elements):
        raise ValueError(
            f"a pair holds two or more texts, numbers or other elements that are equal by content: expected such as "
            f"('a', 'b'), got {pair!r}"
        )
    return elements


def components(rows: Sequence[Sequence[Hashable]]) -> NDArray[np.int64]:
    """The connected component of each row; rows are joined by the elements that they share."""
    try:
        from scipy.sparse import coo_array  # type: ignore[import-untyped]  # noqa: PLC0415
        from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("finding groups of pairs", "scipy", "pairs") from error
    number: dict[Hashable, int] = {}
    ends = [number.setdefault(element, len(number)) for row in rows for element in row]
    starts = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    size = len(rows) + len(number)
    coordinates = starts, np.array(ends, dtype=np.int64) + len(rows)
    edges = coo_array((np.ones(len(ends), dtype=np.int8), coordinates), (size, size))
    _, component = connected_components(edges, directed=False)
    return np.asarray(component[: len(rows)], dtype=np.int64)


def _check_largest(largest: int, rows: int, counts: Counter[Hashable]) -> None:
    """Raise if one group holds everything, warn if it holds more than half of many rows."""
    if largest < 2 or (largest < rows and (rows < MANY or 2 * largest <= rows)):
        return
    often = ", ".join(f"{_brief(element)} ({count})" for element, count in counts.most_common(SHOWN))
    advice = (
        f"the elements in most pairs are {often}. If they say little about their pairs, set most= below these numbers, "
        f"so that they join nothing"
    )
    if largest == rows:
        raise ValueError(
            f"members of a group are no negatives of each other: expected two groups or more, got one of all {rows} "
            f"rows; {advice}"
        )
    warnings.warn(
        f"one group holds {largest:,} of {rows:,} rows, and its members are no negatives of each other; {advice}",
        UserWarning,
        stacklevel=user_level(),
    )


def _brief(element: Hashable) -> str:
    text = repr(element)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
