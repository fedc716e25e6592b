r"""Averages of softplus, for Jensen-Shannon, tile by tile: two sums for each anchor, one of them weighted.

.. math:: A = \frac{\sum_i e^{\beta u_i}\, \mathrm{softplus}(u_i)}{\sum_i e^{\beta u_i}}, \qquad
          \frac{dA}{du_i} = w_i\, \bigl(\mathrm{sigmoid}(u_i) + \beta\, (\mathrm{softplus}(u_i) - A)\bigr).
"""

import math
from typing import Any

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.objective import TileSums, Tiling
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import cutoff, tiles
from pucl.contrast.streaming.exponentials import PAYS_FROM, SAFE_EXPONENT
from pucl.contrast.streaming.gradients import add_gradients, connect, zero_gradients
from pucl.contrast.streaming.tiles import LeftOut, left_out
from pucl.contrast.streaming.totals import pair_totals
from pucl.shapes import Tensor


def tile_sums(pairs: Pairs, correction: Correction) -> TileSums:
    """The averages, for weights that are exponentials."""
    query, key, left, tilt = pairs.query, pairs.key, left_out(pairs), float(correction.tilt * pairs.steepness)
    count, logit_sum = pair_totals(query.detach(), key.detach(), *left)
    bounded = pairs.bound * tilt <= SAFE_EXPONENT
    return TileSums(softplus_averages(query, key, count, tilt, bounded, *left)[0], count, logit_sum)


TILING = Tiling(tile_sums, pays_from=PAYS_FROM)


@torch.library.custom_op("pucl::softplus_averages", mutates_args=())
def softplus_averages(
    query: Tensor,
    key: Tensor,
    count: Tensor,
    tilt: float,
    bounded: bool,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    period: int,
) -> Tensor:
    """The average of softplus(<query_i, key_j>) with weights exp(tilt * logit), 0 for an anchor without samples.

    Below the averages, as [3, anchor], log sum_j exp(tilt * (logit_ij - highest_i)) and highest_i, as in `log_sums`;
    both are 0 without a tilt.
    """
    sums = query.new_zeros(2, len(query))
    highest = query.new_full((len(query),), 0.0 if bounded else -math.inf)
    buffers, ones = [tiles.buffer(query, key) for _ in range(2)], query.new_ones(tiles.TILE)
    for rows, _, logits in tiles.each(query, key, LeftOut(query_ids, key_ids, mask, period)):
        out, spare = (tiles.view(buffer, logits.shape) for buffer in buffers)
        values, weigh = cutoff.softplus(logits, out=out, spare=spare), ones[: logits.shape[1]]
        if tilt:
            if not bounded:
                sums[:, rows] *= torch.exp(tilt * tiles.take_off_highest(logits, highest[rows]))
            weights = logits.mul_(tilt).exp_() if bounded else cutoff.weights(logits.mul_(tilt))
            sums[1, rows].addmv_(weights, weigh)
            values.mul_(weights)
        sums[0, rows].addmv_(values, weigh)
    if not tilt:
        return torch.stack([sums[0] / count.clamp_min(1), sums[1], sums[1]])
    highest.masked_fill_(highest == -math.inf, 0.0)
    total = torch.where(sums[1] == 0, 1.0, sums[1])
    return torch.stack([sums[0] / total, total.log(), highest])


@torch.library.custom_op("pucl::softplus_averages_backward", mutates_args=())
def softplus_averages_backward(
    query: Tensor,
    key: Tensor,
    count: Tensor,
    tilt: float,
    bounded: bool,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    period: int,
    averages: Tensor,
    gradient: Tensor,
    of_query: bool,
    of_key: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the queries and keys."""
    gradients = zero_gradients(query, key, of_query, of_key)
    average, log_sum, highest = averages
    outer = gradient[0] if tilt else gradient[0] / count.clamp_min(1)
    buffers = [tiles.buffer(query, key, needed=bool(tilt)) for _ in range(2)]
    for rows, columns, logits in tiles.each(query, key, LeftOut(query_ids, key_ids, mask, period)):
        if tilt:
            values, steps = (tiles.view(buffer, logits.shape) for buffer in buffers)
            cutoff.softplus(logits, out=values, spare=steps).sub_(average[rows, None])
            cutoff.sigmoid(logits, out=steps).add_(values, alpha=tilt)
            if not bounded:
                logits.sub_(highest[rows, None])
            exponents = logits.mul_(tilt).sub_(log_sum[rows, None])
            slopes = (exponents.exp_() if bounded else cutoff.weights(exponents)).mul_(steps)
        else:
            slopes = cutoff.sigmoid(logits, out=logits)
        slopes.mul_(outer[rows, None])
        add_gradients(gradients, slopes, query, key, rows, columns)
    return gradients


@softplus_averages.register_fake
def _(query: Tensor, *_: Any) -> Tensor:
    return query.new_empty(3, len(query))


connect(softplus_averages, softplus_averages_backward)
