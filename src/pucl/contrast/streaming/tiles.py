"""The matrix of logits, tile by tile: computed in cache, summed and dropped."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from pucl.contrast.pairs import Pairs
from pucl.shapes import Tensor

TILE = 512  # Largest side: a tile of 512 x 512 float32 numbers, 1 MiB, stays in cache.
FEW_DIAGONALS = 16  # Up to this number in a tile, filling diagonals is faster than comparing ids.


class LeftOut(NamedTuple):
    """Excluded pairs, by ids of both sides or by a mask; see `Pairs`. Operators take the fields as single arguments."""

    query_ids: Tensor | None
    key_ids: Tensor | None
    mask: Tensor | None
    period: int = 0

    @property
    def by_id(self) -> tuple[Tensor, Tensor] | None:
        """The ids of both sides, if they decide which pairs are excluded."""
        if self.mask is not None or self.query_ids is None or self.key_ids is None:
            return None
        return self.query_ids, self.key_ids

    def key_index(self) -> Tensor | None:
        """The index of the one key that each query excludes, -1 for none; None if there may be several.

        Comparing all ids of one side with all ids of the other would take as long as computing the logits.
        """
        if self.by_id is None or self.by_id[1].device.type != "cpu":
            return None
        query_ids, key_ids = self.by_id
        ids, order = key_ids.sort()
        if not bool((ids[1:] > ids[:-1]).all()):
            return None
        index = torch.searchsorted(ids, query_ids).clamp_max_(len(ids) - 1)
        return torch.where(ids[index] == query_ids, order[index], -1)

    def only_key_index(self) -> Tensor | None:
        """The index of the one key that each query excludes, if there is exactly one for each query."""
        if self.by_id is None or self.by_id[1].device.type != "cpu":
            return None
        query_ids, key_ids = self.by_id
        if torch.equal(key_ids, torch.arange(len(key_ids))):  # Graphs, numbered from 0.
            least, most = (int(end) for end in query_ids.aminmax())
            return query_ids if least >= 0 and most < len(key_ids) else None
        index = self.key_index()
        return None if index is None or int(index.min()) < 0 else index

    def of_rows(self, rows: slice) -> Tensor | None:
        """True where a pair is excluded; None if none is."""
        if self.mask is not None:
            return ~self.mask[rows]
        if self.by_id is None:
            return None
        query_ids, key_ids = self.by_id
        return query_ids[rows, None] == key_ids[None, :]


def left_out(pairs: Pairs) -> LeftOut:
    """The excluded pairs, of which the fields are arguments of the operators."""
    if pairs.mask is None or pairs.query_ids is None or pairs.key_ids is None:
        return LeftOut(pairs.query_ids, pairs.key_ids, pairs.mask, pairs.period)
    return LeftOut(None, None, pairs.counting(), pairs.period)


def each(
    query: Tensor, key: Tensor, excluded: LeftOut, *, mirrored: bool = False
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Rows, columns and logits of every tile, with -inf for excluded pairs. All tiles share one buffer.

    With `mirrored` queries and keys are the same: only tiles on and above the diagonal are computed.
    """
    # If there are few keys, tiles are taller.
    row_blocks, column_blocks = _blocks(len(query), TILE * max(1, TILE // len(key))), _blocks(len(key), TILE)
    row_ranges = _id_ranges(excluded.query_ids, row_blocks)
    column_ranges = _id_ranges(excluded.key_ids, column_blocks)
    mask, period, by_id = excluded.mask, excluded.period, excluded.by_id
    key_index = None if period else excluded.key_index()
    memory = buffer(query, key)
    for r, rows in enumerate(row_blocks):
        for c in range(r if mirrored else 0, len(column_blocks)):
            columns = column_blocks[c]
            logits = view(memory, (rows.stop - rows.start, columns.stop - columns.start))
            torch.mm(query[rows], key[columns].T, out=logits)
            if mask is not None:
                logits.masked_fill_(~mask[rows, columns], -math.inf)
            elif period and sum(logits.shape) <= FEW_DIAGONALS * period:
                first = (rows.start - columns.start + len(logits) - 1) % period - len(logits) + 1
                for diagonal in range(first, logits.shape[1], period):
                    logits.diagonal(diagonal).fill_(-math.inf)
            elif by_id is not None:
                (row_low, row_high), (low, high) = row_ranges[r], column_ranges[c]
                if row_low > high or low > row_high:  # No pair here can have equal ids.
                    pass
                elif key_index is None:
                    logits.masked_fill_(by_id[0][rows, None] == by_id[1][None, columns], -math.inf)
                else:
                    here = (key_index[rows] - columns.start)[:, None]
                    elsewhere = (here < 0) | (here >= logits.shape[1])
                    taken = logits.new_full(here.shape, -math.inf).masked_fill_(elsewhere, 0.0)
                    logits.scatter_add_(1, here.masked_fill_(elsewhere, 0), taken)
            yield rows, columns, logits


def buffer(query: Tensor, key: Tensor, *, needed: bool = True) -> Tensor:
    """Memory for any tile; no elements if it is not needed."""
    return query.new_empty(min(TILE * TILE, len(query) * len(key)) if needed else 0)


def view(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The beginning of a buffer as a matrix of this shape."""
    return memory[: shape[0] * shape[1]].view(shape[0], shape[1])


def take_off_highest(logits: Tensor, highest: Tensor) -> Tensor:
    """Subtract the highest logit so far from the logits of each row. Return the old maximum minus the new one, <= 0.

    Sums of exponentials relative to the old maximum have to be multiplied by the exponential of the result.

    Args:
        logits: Logits of some rows, changed in place.
        highest: The highest logit of each row so far, -inf at first; updated in place.
    """
    before = highest.clone()
    torch.maximum(before, logits.amax(dim=1), out=highest)
    shift = highest.masked_fill(highest == -math.inf, 0.0)
    logits.sub_(shift[:, None])
    return before.sub_(shift)


def _blocks(length: int, most: int) -> list[slice]:
    """Slices of at most `most` entries and nearly equal length: a small remainder would be slow for its size."""
    size = math.ceil(length / math.ceil(length / most))
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _id_ranges(ids: Tensor | None, blocks: list[slice]) -> list[tuple[float, float]]:
    """Least and greatest id of each block. On an accelerator they are not read, and the range is infinite."""
    if ids is None or ids.device.type != "cpu":
        return [(-math.inf, math.inf)] * len(blocks)
    return [(int(ids[block].min()), int(ids[block].max())) for block in blocks]
