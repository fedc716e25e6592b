r"""Averages of exponentials with the weights 1 - r(s), where r is a table over the similarity s.

Three sums per anchor are enough, with :math:`h_i = e^{u_i}` and the scale c of the bound (`pointwise.bounded`),

.. math:: \log \mu = \log\Big(\sum_i h_i - c \sum_i r_i h_i\Big) - \log\Big(N - c \sum_i r_i\Big).

Tiles are computed as in `exponentials`, mirrored ones too, since r is symmetric. The table has no gradient.
"""

import math
from typing import Any

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.objective import TileSums, Tiling
from pucl.contrast.pairs import Pairs, without_bound
from pucl.contrast.streaming import tiles
from pucl.contrast.streaming.exponentials import PAYS_FROM, SAFE_EXPONENT
from pucl.contrast.streaming.gradients import add_gradients, connect, zero_gradients
from pucl.contrast.streaming.tiles import LeftOut, left_out
from pucl.contrast.streaming.totals import pair_totals
from pucl.shapes import Tensor

PADS = 2  # Entries that are repeated at each end of the table.
NEAREST, ZEROS = 1, 0  # Numbers of these modes in torch's operator.


def fit(pairs: Pairs) -> bool:
    """Whether logits are cosines divided by a temperature, and all anchors have the same unlabelled samples."""
    return pairs.shared and not without_bound(pairs.lowest)


def tile_sums(pairs: Pairs, correction: Correction) -> TileSums:
    """Logarithms of the averages, for a correction that has a `weight_table`."""
    if correction.weight_table is None:
        raise TypeError(f"weights are looked up in a table: {type(correction).__name__} has none")
    table, most = correction.weight_table
    query, key, left = pairs.query, pairs.key, left_out(pairs)
    count, logit_sum = pair_totals(query.detach(), key.detach(), *left)
    bounded = pairs.bound <= SAFE_EXPONENT
    mirrored = pairs.symmetric and bounded and left.mask is None
    table = table.to(query)
    temperature = torch.as_tensor(pairs.temperature, dtype=query.dtype, device=query.device).detach()
    sums = pointwise_sums(query, key.detach() if mirrored else key, table, temperature, mirrored, bounded, *left)
    plain, removed, hidden, highest = sums.unbind()
    share = removed.detach() / torch.where(plain > 0, plain, 1.0).detach()
    scale = torch.ones_like(share)
    if most < 1:
        scale = most / share.clamp_min(most or torch.finfo(share.dtype).tiny)
    total, weight = plain - scale * removed, count - scale * hidden.detach()
    some = (total > 0) & (weight > 0)
    log_average = torch.where(some, total, 1.0).log() - torch.where(some, weight, 1.0).log() + highest.detach()
    average = torch.where(some, log_average, 0.0)
    return TileSums(average, count, logit_sum, weighed=count.masked_fill(~some, 0.0))


TILING = Tiling(tile_sums, pays_from=PAYS_FROM)


@torch.library.custom_op("pucl::pointwise_sums", mutates_args=())
def pointwise_sums(
    query: Tensor,
    key: Tensor,
    table: Tensor,
    temperature: Tensor,
    mirrored: bool,
    bounded: bool,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    period: int,
) -> Tensor:
    """Sums over each anchor's keys of h, of r h and of r, and below them the highest logit.

    h is exp(logit - highest); with `bounded` the highest is taken for 0. r is the entry of the table for the
    similarity, which is the logit times the temperature.
    """
    sums = query.new_zeros(3, len(query))
    highest = query.new_full((len(query),), 0.0 if bounded else -math.inf)
    look_up, ones = _LookUp(query, key, table, temperature), query.new_ones(tiles.TILE)
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
    temperature: Tensor,
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
    look_up = _LookUp(query, key, table, temperature)
    buffers = [tiles.buffer(query, key, needed=mirrored) for _ in range(2)]
    left = LeftOut(query_ids, key_ids, mask, period)
    for rows, columns, logits in tiles.each(query, key, left, mirrored=mirrored):
        hidden = look_up(logits)
        if not bounded:
            logits.sub_(highest[rows, None])
        terms = logits.exp_()
        if mirrored:
            plain, removed = (tiles.view(memory, terms.shape) for memory in buffers)
            torch.add(of_plain[rows, None], of_plain[None, columns], out=plain)
            torch.add(of_removed[rows, None], of_removed[None, columns], out=removed)
        else:
            plain, removed = of_plain[rows, None], of_removed[rows, None]
        slopes = terms.mul_(torch.addcmul(plain, hidden, removed, out=hidden))
        add_gradients(gradients, slopes, query, key, rows, columns, mirrored=mirrored)
    return gradients


@pointwise_sums.register_fake
def _(query: Tensor, *_: Any) -> Tensor:
    return query.new_empty(4, len(query))


connect(pointwise_sums, pointwise_sums_backward)


class _LookUp:
    """r of every logit of a tile.

    The table is a picture of one row, and r is its nearest pixel: of all ways to look up, this one is vectorised and
    uses all threads. Coordinates of pictures go from -1 to 1, as similarities do. Beyond that the last entry follows
    `PADS` times, since rounding makes some cosines larger than 1. Beyond those it is 0, also at -inf, the logit of
    excluded pairs.
    """

    def __init__(self, query: Tensor, key: Tensor, table: Tensor, temperature: Tensor) -> None:
        self.picture = torch.cat([table[:1].expand(PADS), table, table[-1:].expand(PADS)])
        self.per_logit = float(temperature) * len(table) / len(self.picture)
        # The end of a bin belongs to the next one, as in `bins_of`.
        self.shift = table.new_tensor(8 * torch.finfo(table.dtype).eps)
        self.memory = tiles.buffer(query, key)

    def __call__(self, logits: Tensor) -> Tensor:
        height, width = logits.shape
        across = torch.add(self.shift, logits, alpha=self.per_logit, out=tiles.view(self.memory, logits.shape))
        # A picture for each row, since threads share pictures. There is one row of pixels, so that any coordinate will
        # do for down: the same as for across.
        pixels = across.as_strided((height, 1, width, 2), (width, width, 1, 0))
        pictures = self.picture.expand(height, 1, 1, -1)
        return torch.grid_sampler_2d(pictures, pixels, NEAREST, ZEROS, align_corners=False).view(height, width)
