"""Averages of softplus where there are many rows, each short, and an anchor's positive is among its logits.

So it is of nodes against graphs. Whole rows are made at a time, and their slopes kept for the backward pass as long as
they are not too many.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import cutoff, tiles
from pucl.contrast.streaming.gradients import go_back, remember, room
from pucl.contrast.streaming.left_out import LeftOut, left_out
from pucl.shapes import Float, Tensor

WHOLE_ROWS = 1 << 19  # Logits in a tile of whole rows, 2 MiB of float32: with smaller ones threads wait for each other.
KEPT = 1 << 26  # Bytes of slopes that may wait for the backward pass; 131,000 nodes with 128 graphs.


def fit(pairs: Pairs) -> bool:
    """Whether whole rows fit into a tile, and hold the positives."""
    return pairs.own is not None and len(pairs.key) <= tiles.TILE


def average(
    pairs: Pairs, tilt: float
) -> tuple[Float[Tensor, " anchor"], Float[Tensor, " anchor"], Float[Tensor, ""], Float[Tensor, "anchor 1"]]:
    """The averages, how many samples each anchor meets, the sum of all their logits, and logits of the positives."""
    query, key, left = pairs.query, pairs.key, left_out(pairs)
    wanted = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
    keep = wanted and len(query) * len(key) * query.element_size() <= KEPT
    rows = softplus_rows_operator if torch.compiler.is_compiling() else SoftplusRows.apply
    averages, positive, count, logit_sum, _ = rows(  # type: ignore[no-untyped-call]
        query, key, pairs.own, tilt, left.query_ids, left.key_ids, left.mask, keep
    )
    return averages, count, logit_sum, positive[:, None]


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
    """What `softplus_averages` and `pair_totals` give, and <query_i, key_own(i)>, of whole rows at a time.

    Returns the averages, the logits of the positives, how many keys each query meets, and the sum of all their logits;
    with `keep` also the slopes of the averages (without a tilt, of the sums).
    """
    left = LeftOut(query_ids, key_ids, mask)
    place = left.one_place()
    average, positive = query.new_empty(len(query)), query.new_empty(len(query))
    count = query.new_full((len(query),), len(key) if place is None else len(key) - 1)
    # Without a pass over the logits, where but one in a row is to be taken off again.
    total = query.new_zeros(()) if place is None else query.sum(dim=0) @ key.sum(dim=0)
    slopes = query.new_empty(len(query) if keep else 0, len(key))
    spare = _buffers(query, key, 3 if tilt else 1)
    for rows, logits in _each(query, key, slopes):
        torch.gather(logits, 1, own[rows, None], out=positive[rows, None])
        if place is not None:
            hidden: Tensor | None = place[rows, None]
            total -= (positive[rows] if place is own else logits.gather(1, place[rows, None])).sum()
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
    """Gradients of the queries and keys: those of averages and positives go through the same two products."""
    query_gradient, key_gradient = room(query, key, of_query, of_key)
    key_gradient.zero_()
    outer = torch.zeros_like(count) if of_average is None else of_average
    outer = outer if tilt else outer / count.clamp_min(1)
    spare = _buffers(query, key, 3 if tilt else 1)
    kept, left = len(slopes) > 0, LeftOut(query_ids, key_ids, mask)
    place = None if kept else left.one_place()
    for rows, tile in _each(query, key, slopes, made=kept):
        if kept:
            steps = torch.mul(tile, outer[rows, None], out=tiles.view(spare[0], tile.shape))
        else:
            _hide(tile, left.of_rows(rows) if place is None else place[rows, None])
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
    """Rows and their logits, each in its place in `kept`, or all in one buffer if that is empty.

    With `made` the tiles are there already.
    """
    buffer, height = _buffers(query, key, 0 if len(kept) else 1), max(1, WHOLE_ROWS // len(key))
    for start in range(0, len(query), height):
        rows = slice(start, min(start + height, len(query)))
        tile = kept[rows] if len(kept) else tiles.view(buffer[0], (rows.stop - start, len(key)))
        yield rows, tile if made else torch.mm(query[rows], key.T, out=tile)


def _buffers(query: Tensor, key: Tensor, count: int) -> Tensor:
    return query.new_empty(count, min(max(WHOLE_ROWS, len(key)), len(query) * len(key)))


def _hide(logits: Tensor, hidden: Tensor | None) -> None:
    """Put -inf where a pair does not count: at the places, or where it is true."""
    if hidden is None:
        return
    if hidden.dtype == torch.bool:
        logits.masked_fill_(hidden, -math.inf)
    else:
        logits.scatter_(1, hidden, -math.inf)


def slopes_of(logits: Tensor, tilt: float, spare: Tensor) -> Tensor:
    r"""The average for each row, or without a tilt the sum; in the place of the logits its slopes.

    Without a tilt a logarithm is taken of four terms at once, and from what the slopes need anyway: with
    v = sigmoid(-\|u\|), the smaller of sigmoid(u) and 1 - sigmoid(u),

    .. math:: \mathrm{softplus}(u) = \max(u, 0) - \log(1 - v), \qquad (1 - v)(1 - v') = 1 - (v + v' - v v').

    No digits are lost to this: where sigmoid(u) is so near to 1 that few of v are right, max(u, 0) is much larger.
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
        first.add_(rest - 1.0)  # What was rounded off in 1 - v.
        return total.sub_(rest.log_().sub_(first).sum(dim=1))
    highest = logits.amax(dim=1, keepdim=True)
    highest.masked_fill_(highest == -math.inf, 0.0)
    second, third = (tiles.view(buffer, logits.shape) for buffer in spare[1:])
    values, steps = cutoff.softplus(logits, out=first, spare=second), cutoff.sigmoid(logits, out=second)
    weights = cutoff.weights(logits.sub_(highest).mul_(tilt))
    total = weights.sum(dim=1, keepdim=True)
    weights.mul_(torch.where(total == 0, 1.0, total).reciprocal_())
    average = torch.mul(weights, values, out=third).sum(dim=1)
    # The difference first: of a tilt times two large values no digits would be left for it.
    weights.mul_(steps.add_(values.sub_(average[:, None]), alpha=tilt))
    return average


softplus_rows_operator = torch.library.custom_op("pucl::softplus_rows", softplus_rows, mutates_args=())
_backward_operator = torch.library.custom_op("pucl::softplus_rows_backward", softplus_rows_backward, mutates_args=())
_backward_operator.register_fake(room)


@softplus_rows_operator.register_fake
def _(query: Tensor, key: Tensor, *settings: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    average, positive, count = (query.new_empty(len(query)) for _ in range(3))
    return average, positive, count, query.new_empty(()), query.new_empty(len(query) if settings[-1] else 0, len(key))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, count, total, slopes = output
    ctx.mark_non_differentiable(count, total, slopes)
    ctx.set_materialize_grads(False)  # Of the slopes that would be another matrix.
    remember(ctx, inputs[:-1], (count, slopes))


def _go_back(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    return go_back(_backward_operator, ctx, *gradients[:2])


softplus_rows_operator.register_autograd(_go_back, setup_context=_remember)


class SoftplusRows(torch.autograd.Function):
    """The same without an operator, whose way through the dispatcher is a tenth of the loss of a small batch."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        """What `softplus_rows` gives."""
        output = softplus_rows(*inputs)
        _remember(ctx, inputs, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """The gradients of the queries and keys."""
        return go_back(softplus_rows_backward, ctx, *gradients[:2])
