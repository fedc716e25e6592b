"""Averages of softplus for many short rows in which an anchor's positive is one of its logits: nodes against graphs.

Whole rows are computed at once. Their slopes are stored for the backward pass if they are not too many.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pucl.contrast.correction import Correction
from pucl.contrast.objective import TileSums, Tiling
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import cutoff, tiles
from pucl.contrast.streaming.gradients import run_backward, save_inputs, zero_gradients
from pucl.contrast.streaming.tiles import LeftOut, left_out
from pucl.shapes import Tensor

PAYS_FROM = 1 << 16  # Fewer logits than for other tiles: slopes are computed in the forward pass.
WHOLE_ROWS = 1 << 19  # Logits in a tile, 2 MiB of float32: with smaller tiles, threads wait for each other.
KEPT = 1 << 26  # Largest size in bytes of stored slopes; 131,000 nodes with 128 graphs.


def fit(pairs: Pairs) -> bool:
    """Whether whole rows fit into a tile and contain the positives."""
    return pairs.own is not None and len(pairs.key) <= tiles.TILE


def tile_sums(pairs: Pairs, correction: Correction) -> TileSums:
    """The averages, for weights that are exponentials, and the positives' logits."""
    query, key, left = pairs.query, pairs.key, left_out(pairs)
    wanted = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
    keep = wanted and len(query) * len(key) * query.element_size() <= KEPT
    rows = softplus_rows_operator if torch.compiler.is_compiling() else SoftplusRows.apply
    averages, positive, count, logit_sum, _ = rows(  # type: ignore[no-untyped-call]
        query, key, pairs.own, float(correction.tilt * pairs.steepness), left.query_ids, left.key_ids, left.mask, keep
    )
    return TileSums(averages, count, logit_sum, positive[:, None])


TILING = Tiling(tile_sums, pays_from=PAYS_FROM)


def softplus_rows(
    query: Tensor,
    key: Tensor,
    own: Tensor,
    tilt: float,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The results of `softplus_averages` and `pair_totals`, and <query_i, key_own(i)>, from whole rows.

    Returns the averages, the logits of the positives, the number of keys of each query, and the sum of all their
    logits; with `keep` also the slopes of the averages (without a tilt, of the sums).
    """
    left = LeftOut(query_ids, key_ids, mask)
    hidden_index = left.only_key_index()
    average, positive = query.new_empty(len(query)), query.new_empty(len(query))
    count = query.new_full((len(query),), len(key) if hidden_index is None else len(key) - 1)
    # If one key per row is excluded, the sum needs no pass over the logits: its logit is subtracted below.
    total = query.new_zeros(()) if hidden_index is None else query.sum(dim=0) @ key.sum(dim=0)
    slopes = query.new_empty(len(query) if keep else 0, len(key))
    spare = _buffers(query, key, 3 if tilt else 1)
    for rows, logits in _each(query, key, slopes):
        torch.gather(logits, 1, own[rows, None], out=positive[rows, None])
        if hidden_index is not None:
            hidden: Tensor | None = hidden_index[rows, None]
            total -= (positive[rows] if hidden_index is own else logits.gather(1, hidden_index[rows, None])).sum()
        else:
            hidden = left.of_rows(rows)
            if hidden is not None:
                count[rows] -= hidden.sum(dim=1)
            total += (logits if hidden is None else logits.masked_fill(hidden, 0.0)).sum()
        _hide(logits, hidden)
        average[rows] = slopes_of(logits, tilt, spare)
    if not tilt:
        average /= count.clamp_min(1)
    return average, positive, count, total, slopes


def softplus_rows_backward(
    query: Tensor,
    key: Tensor,
    own: Tensor,
    tilt: float,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    count: Tensor,
    slopes: Tensor,
    of_average: Tensor | None,
    of_positive: Tensor | None,
    of_query: bool,
    of_key: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the queries and keys. Those of averages and positives share the same two matrix products."""
    query_gradient, key_gradient = zero_gradients(query, key, of_query, of_key)
    outer = torch.zeros_like(count) if of_average is None else of_average
    outer = outer if tilt else outer / count.clamp_min(1)
    spare = _buffers(query, key, 3 if tilt else 1)
    kept, left = len(slopes) > 0, LeftOut(query_ids, key_ids, mask)
    hidden_index = None if kept else left.only_key_index()
    for rows, tile in _each(query, key, slopes, made=kept):
        if kept:
            steps = torch.mul(tile, outer[rows, None], out=tiles.view(spare[0], tile.shape))
        else:
            _hide(tile, left.of_rows(rows) if hidden_index is None else hidden_index[rows, None])
            slopes_of(tile, tilt, spare)
            steps = tile.mul_(outer[rows, None])
        if of_positive is not None:
            steps.scatter_add_(1, own[rows, None], of_positive[rows, None])
        if of_query:
            torch.mm(steps, key, out=query_gradient[rows])
        if of_key:
            key_gradient.addmm_(steps.T, query[rows])
    return query_gradient, key_gradient


def _each(query: Tensor, key: Tensor, kept: Tensor, *, made: bool = False) -> Iterator[tuple[slice, Tensor]]:
    """Yield rows and their logits, written into the same rows of `kept`, or into one buffer if that is empty.

    With `made` the tiles in `kept` are computed already.
    """
    buffer, height = _buffers(query, key, 0 if len(kept) else 1), max(1, WHOLE_ROWS // len(key))
    for start in range(0, len(query), height):
        rows = slice(start, min(start + height, len(query)))
        tile = kept[rows] if len(kept) else tiles.view(buffer[0], (rows.stop - start, len(key)))
        yield rows, tile if made else torch.mm(query[rows], key.T, out=tile)


def _buffers(query: Tensor, key: Tensor, count: int) -> Tensor:
    return query.new_empty(count, min(max(WHOLE_ROWS, len(key)), len(query) * len(key)))


def _hide(logits: Tensor, hidden: Tensor | None) -> None:
    """Set excluded pairs to -inf; `hidden` holds column indices or a mask."""
    if hidden is None:
        return
    if hidden.dtype == torch.bool:
        logits.masked_fill_(hidden, -math.inf)
    else:
        logits.scatter_(1, hidden, -math.inf)


def slopes_of(logits: Tensor, tilt: float, spare: Tensor) -> Tensor:
    r"""Return the average of each row, or without a tilt the sum, and overwrite the logits with its slopes.

    Without a tilt, one logarithm is taken of four terms at once, from values that the slopes need anyway: with
    v = sigmoid(-\|u\|), the smaller of sigmoid(u) and 1 - sigmoid(u),

    .. math:: \mathrm{softplus}(u) = \max(u, 0) - \log(1 - v), \qquad (1 - v)(1 - v') = 1 - (v + v' - v v').

    No digits are lost: where sigmoid(u) is so near to 1 that v has few correct digits, max(u, 0) is much larger.
    """
    first = tiles.view(spare[0], logits.shape)
    if not tilt:
        total = torch.clamp(logits, min=0.0, out=first).sum(dim=1)
        limit = cutoff.limit(logits, 0.8)
        torch.threshold_(logits.clamp_(-limit, limit).sigmoid_(), 2 * math.exp(-limit), 0.0)
        one = logits.new_ones(())
        torch.minimum(torch.sub(one, logits, out=first), logits, out=first)
        for _ in range(2):
            half = (first.shape[1] + 1) // 2
            low, high = first[:, : first.shape[1] - half], first[:, half:]
            low.addcmul_(low, high, value=-1.0).add_(high)
            first = first[:, :half]
        rest = one - first
        first.add_(rest - 1.0)  # The rounding error of 1 - v.
        return total.sub_(rest.log_().sub_(first).sum(dim=1))
    highest = logits.amax(dim=1, keepdim=True)
    highest.masked_fill_(highest == -math.inf, 0.0)
    second, third = (tiles.view(buffer, logits.shape) for buffer in spare[1:])
    values, steps = cutoff.softplus(logits, out=first, spare=second), cutoff.sigmoid(logits, out=second)
    weights = cutoff.weights(logits.sub_(highest).mul_(tilt))
    total = weights.sum(dim=1, keepdim=True)
    weights.mul_(torch.where(total == 0, 1.0, total).reciprocal_())
    average = torch.mul(weights, values, out=third).sum(dim=1)
    # Subtract first: the difference of two large products would have no correct digits.
    weights.mul_(steps.add_(values.sub_(average[:, None]), alpha=tilt))
    return average


softplus_rows_operator = torch.library.custom_op("pucl::softplus_rows", softplus_rows, mutates_args=())
_backward_operator = torch.library.custom_op("pucl::softplus_rows_backward", softplus_rows_backward, mutates_args=())
_backward_operator.register_fake(zero_gradients)


@softplus_rows_operator.register_fake
def _(query: Tensor, key: Tensor, *settings: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    average, positive, count = (query.new_empty(len(query)) for _ in range(3))
    return average, positive, count, query.new_empty(()), query.new_empty(len(query) if settings[-1] else 0, len(key))


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, count, total, slopes = output
    ctx.mark_non_differentiable(count, total, slopes)
    ctx.set_materialize_grads(False)  # For the slopes that would be another matrix.
    save_inputs(ctx, inputs[:-1], (count, slopes))


def _run_backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    return run_backward(_backward_operator, ctx, *gradients[:2])


softplus_rows_operator.register_autograd(_run_backward, setup_context=_save_inputs)


class SoftplusRows(torch.autograd.Function):
    """The same without an operator: for a small batch, its dispatch takes a tenth of the time of the loss."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        """The result of `softplus_rows`."""
        output = softplus_rows(*inputs)
        _save_inputs(ctx, inputs, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """The gradients of the queries and keys."""
        return run_backward(softplus_rows_backward, ctx, *gradients[:2])
