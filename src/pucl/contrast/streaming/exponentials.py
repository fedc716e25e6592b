r"""Averages of exponentials, for InfoNCE.

Uniform and tilted averages need two numbers per anchor at the most,

.. math:: \log A = \mathrm{LSE}_i\big((1 + \beta)\, u_i\big) - \mathrm{LSE}_i\big(\beta\, u_i\big),
          \qquad \mathrm{LSE}_i(0\, u_i) = \log N,

so logits are computed tile by tile, in cache, summed and dropped. The backward pass computes them again. Memory is
linear in the number of anchors. The matrix of all views against all views is symmetric: only tiles on and above the
diagonal are computed.
"""

import math
from typing import Any

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.objective import TileSums, Tiling
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import tiles
from pucl.contrast.streaming.gradients import add_gradients, connect, zero_gradients
from pucl.contrast.streaming.tiles import LeftOut, left_out
from pucl.contrast.streaming.totals import pair_totals
from pucl.shapes import Tensor

PAYS_FROM = 1 << 17  # Number of logits from which tiles are faster than a matrix.
SAFE_EXPONENT = 40.0  # exp(-40) to exp(40), their sums and their quotients are all normal float32 numbers.


def tile_sums(pairs: Pairs, correction: Correction) -> TileSums:
    """Logarithms of the averages, for weights that are exponentials."""
    query, key, left, tilt = pairs.query, pairs.key, left_out(pairs), float(correction.tilt * pairs.steepness)
    count, logit_sum = pair_totals(query.detach(), key.detach(), *left)
    scales = [1.0 + tilt, tilt] if tilt else [1.0]
    bounded = pairs.bound * scales[0] <= SAFE_EXPONENT
    # Without a bound, every row is shifted by its own maximum, and a mirrored tile has other rows.
    mirrored = pairs.symmetric and bounded and left.mask is None
    # Mirrored, the gradient of the queries includes that of the keys.
    sums = log_sums(query, key.detach() if mirrored else key, scales, mirrored, bounded, *left)
    highest = sums[-1].detach()  # It cancels in the sums, and so do its gradients.
    average = highest + sums[0] - (sums[1] if tilt else count.clamp_min(1).log())
    return TileSums(average, count, logit_sum)


TILING = Tiling(tile_sums, pays_from=PAYS_FROM)


@torch.library.custom_op("pucl::log_sums", mutates_args=())
def log_sums(
    query: Tensor,
    key: Tensor,
    scales: list[float],
    mirrored: bool,
    bounded: bool,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    period: int,
) -> Tensor:
    """Log sum_j exp(scale * (<query_i, key_j> - highest_i)) as [scale, anchor], and below them highest_i.

    The highest logit of a row is not added to its sums: sums are subtracted from each other, and their digits would be
    lost. With `bounded` no maximum is computed, and 0 is used instead. The sums of an anchor without samples are 0.
    """
    sums = query.new_zeros(len(scales), len(query))
    highest = query.new_full((len(query),), 0.0 if bounded else -math.inf)
    buffer, ones = tiles.buffer(query, key, needed=len(scales) > 1), query.new_ones(tiles.TILE)
    left = LeftOut(query_ids, key_ids, mask, period)
    for rows, columns, logits in tiles.each(query, key, left, mirrored=mirrored):
        if not bounded:
            risen = tiles.take_off_highest(logits, highest[rows])
        for s, scale in enumerate(scales):
            last = s == len(scales) - 1  # Its exponentials may overwrite the logits.
            terms = _exponentials(logits, scale, out=logits if last else tiles.view(buffer, logits.shape))
            if not bounded:
                sums[s, rows] *= torch.exp(scale * risen)
            # Products with ones: sums along rows and along columns are equally fast.
            sums[s, rows].addmv_(terms, ones[: terms.shape[1]])
            if mirrored and rows != columns:
                sums[s, columns].addmv_(terms.T, ones[: terms.shape[0]])
    highest.masked_fill_(highest == -math.inf, 0.0)
    return torch.cat([sums.log().masked_fill_(sums == 0, 0.0), highest[None]])


@torch.library.custom_op("pucl::log_sums_backward", mutates_args=())
def log_sums_backward(
    query: Tensor,
    key: Tensor,
    scales: list[float],
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
    sums, highest = sums[:-1], sums[-1]
    # d sum_i / d logit_ij = scale * exp(scale * (logit_ij - highest_i) - sum_i): `outer` is the first factor.
    outer = gradient[:-1] * gradient.new_tensor(scales)[:, None]
    if bounded:
        outer = outer * torch.exp(-sums)
    terms_buffer = tiles.buffer(query, key, needed=len(scales) > 1)
    outer_buffer = tiles.buffer(query, key, needed=mirrored)
    left = LeftOut(query_ids, key_ids, mask, period)
    for rows, columns, logits in tiles.each(query, key, left, mirrored=mirrored):
        slopes = logits
        if not bounded:
            logits.sub_(highest[rows, None])
        for s, scale in enumerate(scales):
            last = s == len(scales) - 1
            terms = logits if last else tiles.view(terms_buffer, logits.shape)
            if bounded:
                terms = _exponentials(logits, scale, out=terms)
            else:
                terms = torch.sub(torch.mul(logits, scale, out=terms), sums[s, rows, None], out=terms).exp_()
            factor = outer[s, rows, None]
            if mirrored:
                factor = torch.add(factor, outer[s, None, columns], out=tiles.view(outer_buffer, terms.shape))
            terms.mul_(factor)
            slopes = terms if s == 0 else slopes.add_(terms)
        add_gradients(gradients, slopes, query, key, rows, columns, mirrored=mirrored)
    return gradients


@log_sums.register_fake
def _(query: Tensor, _key: Tensor, scales: list[float], *_: Any) -> Tensor:
    return query.new_empty(len(scales) + 1, len(query))


connect(log_sums, log_sums_backward)


def _exponentials(logits: Tensor, scale: float, *, out: Tensor) -> Tensor:
    return torch.exp(logits if scale == 1 else torch.mul(logits, scale, out=out), out=out)
