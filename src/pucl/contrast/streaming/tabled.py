r"""Averages of exponentials with the weights 1 - r(s), where r is a table over the similarity s.

Three sums per anchor are enough, with :math:`h_i = e^{u_i}` and the scale c of the bound (`pointwise.bounded`),

.. math:: \log \mu = \log\Big(\sum_i h_i - c \sum_i r_i h_i\Big) - \log\Big(N - c \sum_i r_i\Big).

Tiles are computed as in `exponentials`, mirrored ones too, since r is symmetric. The table has no gradient.
"""

import math
from typing import Any

import torch

from pucl.contrast.pairs import Pairs
from pucl.contrast.pointwise import PointwiseTable
from pucl.contrast.streaming import tiles
from pucl.contrast.streaming.exponentials import SAFE_EXPONENT
from pucl.contrast.streaming.gradients import add_gradients, connect, zero_gradients
from pucl.contrast.streaming.tiles import LeftOut, left_out
from pucl.contrast.streaming.totals import pair_totals
from pucl.shapes import Float, Tensor


def fit(pairs: Pairs) -> bool:
    """Whether logits are cosines divided by a temperature, and all anchors have the same unlabelled samples."""
    return pairs.shared and not (isinstance(pairs.lowest, float) and pairs.lowest == -math.inf)


def average(
    pairs: Pairs, correction: PointwiseTable
) -> tuple[Float[Tensor, " anchor"], Float[Tensor, " anchor"], Float[Tensor, ""], Float[Tensor, " anchor"]]:
    """Logarithms of the averages, the number of samples of each anchor, and the sum of all their logits.

    The last result is the number of samples again, but 0 for an anchor whose weights are all zero.
    """
    query, key, left = pairs.query, pairs.key, left_out(pairs)
    count, logit_sum = pair_totals(query.detach(), key.detach(), *left)
    bounded = pairs.bound <= SAFE_EXPONENT
    mirrored = pairs.symmetric and bounded and left.mask is None
    table = correction.table.to(query)
    # Entry 0 is for excluded pairs, whose logit is -inf.
    table = torch.cat([table.new_zeros(1), table])
    per_logit = torch.as_tensor(pairs.temperature, dtype=query.dtype, device=query.device).detach()
    per_logit = per_logit * ((len(table) - 1) / 2)
    sums = pointwise_sums(query, key.detach() if mirrored else key, table, per_logit, mirrored, bounded, *left)
    plain, removed, hidden, highest = sums.unbind()
    share = removed.detach() / torch.where(plain > 0, plain, 1.0).detach()
    scale = torch.ones_like(share)
    if correction.most < 1:
        scale = correction.most / share.clamp_min(correction.most or torch.finfo(share.dtype).tiny)
    total, weight = plain - scale * removed, count - scale * hidden.detach()
    some = (total > 0) & (weight > 0)
    log_average = torch.where(some, total, 1.0).log() - torch.where(some, weight, 1.0).log() + highest.detach()
    return torch.where(some, log_average, 0.0), count, logit_sum, count.masked_fill(~some, 0.0)


@torch.library.custom_op("pucl::pointwise_sums", mutates_args=())
def pointwise_sums(
    query: Tensor,
    key: Tensor,
    table: Tensor,
    per_logit: Tensor,
    mirrored: bool,
    bounded: bool,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    period: int,
) -> Tensor:
    """Sums over each anchor's keys of h, of r h and of r, and below them the highest logit.

    h is exp(logit - highest); with `bounded` the highest is taken for 0. r is the entry of the table for the
    similarity: entry 1 begins at similarity -1, and a similarity is `per_logit` times the logit in units of entries.
    """
    sums = query.new_zeros(3, len(query))
    highest = query.new_full((len(query),), 0.0 if bounded else -math.inf)
    look_up, ones = _LookUp(query, key, table, per_logit), query.new_ones(tiles.TILE)
    left = LeftOut(query_ids, key_ids, mask, period)
    for rows, columns, logits in tiles.each(query, key, left, mirrored=mirrored):
        hidden = look_up(logits)
        if not bounded:
            sums[:2, rows] *= torch.exp(tiles.take_off_highest(logits, highest[rows]))
        terms = logits.exp_()
        _add_up(sums[0], terms, rows, columns, ones, mirrored)
        _add_up(sums[2], hidden, rows, columns, ones, mirrored)
        _add_up(sums[1], hidden.mul_(terms), rows, columns, ones, mirrored)
    highest.masked_fill_(highest == -math.inf, 0.0)
    return torch.cat([sums, highest[None]])


def _add_up(sums: Tensor, tile: Tensor, rows: slice, columns: slice, ones: Tensor, mirrored: bool) -> None:
    sums[rows].addmv_(tile, ones[: tile.shape[1]])
    if mirrored and rows != columns:
        sums[columns].addmv_(tile.T, ones[: tile.shape[0]])


@torch.library.custom_op("pucl::pointwise_sums_backward", mutates_args=())
def pointwise_sums_backward(
    query: Tensor,
    key: Tensor,
    table: Tensor,
    per_logit: Tensor,
    mirrored: bool,
    bounded: bool,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    period: int,
    sums: Tensor,
    gradient: Tensor,
    of_query: bool,
    of_key: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the queries and keys; with `mirrored` the first holds both."""
    gradients = zero_gradients(query, key, of_query, of_key)
    highest = sums[-1]
    # d (sum of h)_i / d logit_ij = h_ij, and d (sum of r h)_i / d logit_ij = r_ij h_ij.
    of_plain, of_removed = gradient[0], gradient[1]
    look_up, buffer = _LookUp(query, key, table, per_logit), tiles.buffer(query, key, needed=mirrored)
    left = LeftOut(query_ids, key_ids, mask, period)
    for rows, columns, logits in tiles.each(query, key, left, mirrored=mirrored):
        factor = look_up(logits)
        if not bounded:
            logits.sub_(highest[rows, None])
        terms = logits.exp_()
        if mirrored:
            both = tiles.view(buffer, terms.shape)
            factor.mul_(torch.add(of_removed[rows, None], of_removed[None, columns], out=both))
            factor.add_(torch.add(of_plain[rows, None], of_plain[None, columns], out=both))
        else:
            factor.mul_(of_removed[rows, None]).add_(of_plain[rows, None])
        slopes = terms.mul_(factor)
        add_gradients(gradients, slopes, query, key, rows, columns, mirrored=mirrored)
    return gradients


@pointwise_sums.register_fake
def _(query: Tensor, *_: Any) -> Tensor:
    return query.new_empty(4, len(query))


connect(pointwise_sums, pointwise_sums_backward)


class _LookUp:
    """r of every logit of a tile, in one buffer that all tiles share."""

    def __init__(self, query: Tensor, key: Tensor, table: Tensor, per_logit: Tensor) -> None:
        self.table, self.per_logit = table, float(per_logit)
        self.middle = table.new_tensor((len(table) - 1) / 2 + 1)
        self.entries = tiles.buffer(query, key)
        self.indices = torch.empty_like(self.entries, dtype=torch.int64)

    def __call__(self, logits: Tensor) -> Tensor:
        entries, indices = (tiles.view(memory, logits.shape) for memory in (self.entries, self.indices))
        torch.add(self.middle, logits, alpha=self.per_logit, out=entries).clamp_(0, len(self.table) - 1)
        indices.copy_(entries)  # Rounds towards zero.
        # Of all ways to look up, this one uses all threads.
        torch.gather(self.table.expand(len(logits), -1), 1, indices, out=entries)
        return entries
