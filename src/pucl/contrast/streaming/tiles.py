"""The matrix of logits a tile at a time: made in cache, summed and forgotten."""

import math
from collections.abc import Iterator

import torch

from pucl.contrast.streaming.left_out import LeftOut
from pucl.shapes import Tensor

TILE = 512  # At most; a tile of 512 x 512 float32 numbers, 1 MiB, stays in cache.
FEW_DIAGONALS = 16  # Up to so many in a tile, filling them is quicker than comparing ids.


def each(
    query: Tensor, key: Tensor, left_out: LeftOut, *, mirrored: bool = False
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Rows, columns and logits of every tile, pairs that do not count at -inf. The logits share one buffer.

    With `mirrored` queries and keys are the same: only tiles on and above the diagonal are made.
    """
    # Where keys are few, a tile is the taller for it.
    row_blocks, column_blocks = _blocks(len(query), TILE * max(1, TILE // len(key))), _blocks(len(key), TILE)
    row_ranges = _id_ranges(left_out.query_ids, row_blocks)
    column_ranges = _id_ranges(left_out.key_ids, column_blocks)
    mask, period, by_id = left_out.mask, left_out.period, left_out.by_id
    place = None if period else left_out.place()
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
                elif place is None:
                    logits.masked_fill_(by_id[0][rows, None] == by_id[1][None, columns], -math.inf)
                else:
                    here = (place[rows] - columns.start)[:, None]
                    elsewhere = (here < 0) | (here >= logits.shape[1])
                    taken = logits.new_full(here.shape, -math.inf).masked_fill_(elsewhere, 0.0)
                    logits.scatter_add_(1, here.masked_fill_(elsewhere, 0), taken)
            yield rows, columns, logits


def buffer(query: Tensor, key: Tensor, *, needed: bool = True) -> Tensor:
    """Room for any tile; none where it is not needed."""
    return query.new_empty(min(TILE * TILE, len(query) * len(key)) if needed else 0)


def view(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The beginning of a buffer as a matrix of this shape."""
    return memory[: shape[0] * shape[1]].view(shape[0], shape[1])


def take_off_highest(logits: Tensor, highest: Tensor) -> Tensor:
    """Take the highest logit so far off those of each row; returned is how far it has risen, as a number <= 0.

    What was summed so far relative to the last one is to be multiplied with the exponential of that.

    Args:
        logits: Of some rows, changed in place.
        highest: The highest logit of each so far, -inf at first; brought up to date.
    """
    before = highest.clone()
    torch.maximum(before, logits.amax(dim=1), out=highest)
    shift = highest.masked_fill(highest == -math.inf, 0.0)
    logits.sub_(shift[:, None])
    return before.sub_(shift)


def _blocks(length: int, most: int) -> list[slice]:
    """Parts of at most so many, of nearly the same length: a small rest would be slow for its size."""
    size = math.ceil(length / math.ceil(length / most))
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _id_ranges(ids: Tensor | None, blocks: list[slice]) -> list[tuple[float, float]]:
    """Least and greatest id of each block, where they can be read without waiting for a device."""
    if ids is None or ids.device.type != "cpu":
        return [(-math.inf, math.inf)] * len(blocks)
    return [(int(ids[block].min()), int(ids[block].max())) for block in blocks]
