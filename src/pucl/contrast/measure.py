r"""The expectation over true negatives, from unlabelled samples and positives.

.. math:: E^-[g] = (1 + \omega)\, A - \omega\, P, \qquad A = \sum_i w_i\, g(u_i), \quad P = \mathrm{mean}_j\, g(p_j)

An estimate of it can fall below what any expectation of g can be, then a floor holds it. Both functions
return the estimate and which anchors stand at the floor: those learn nothing from their negatives.
"""

import math

import torch

from pucl.shapes import Bool, Float, Tensor

LOG_HALF = -math.log(2.0)


def corrected_log_mean(
    log_added: Float[Tensor, " anchor"],
    log_taken: Float[Tensor, " anchor"],
    log_floor: Float[Tensor, "#anchor"],
    corrects: Bool[Tensor, " anchor"] | None = None,
) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
    r"""Log E^-[g] from the logarithms of its two terms.

    With :math:`x = \log \frac{\omega P}{(1 + \omega) A}`,
    :math:`\log E^- = \log\big((1 + \omega) A\big) + \log(1 - e^x)`, which exists for x < 0 alone.

    Args:
        log_added: Log of (1 + omega) A.
        log_taken: Log of omega P; anything where omega is 0.
        log_floor: Log of the floor.
        corrects: Where omega is not 0, so that something is taken off and the floor can bind; None for everywhere.
    """
    x = log_taken - log_added
    # The anchors at the floor are found first and their x is made harmless before the logarithm: a
    # `where` after it would multiply their zero gradient by an infinite slope and give NaN.
    with torch.no_grad():
        above = (x < 0) & (log_added + _log1mexp(x.clamp_max(-torch.finfo(x.dtype).tiny)) > log_floor)
        # NaN is not above the floor either; it must not vanish there.
        floored = ~above & ~x.isnan()
        if corrects is not None:
            floored &= corrects
    if corrects is None:
        log_mean = log_added + _log1mexp(torch.where(floored, -1.0, x))
    else:
        log_share = _log1mexp(torch.where(floored | ~corrects, -1.0, x))
        log_mean = log_added + torch.where(corrects, log_share, 0.0)
    return torch.where(floored, log_floor, log_mean), floored


def corrected_mean(
    added: Float[Tensor, " anchor"],
    taken: Float[Tensor, " anchor"],
    floor: float | Float[Tensor, "#anchor"],
) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
    """E^-[g] from its two terms (1 + omega) A and omega P, for functions g that need no log space."""
    mean = added - taken
    floored = mean <= floor
    return torch.where(floored, floor, mean), floored


def _log1mexp(x: Float[Tensor, " anchor"]) -> Float[Tensor, " anchor"]:
    """log(1 - exp(x)) for x < 0, exact at both ends."""
    near_zero = x > LOG_HALF
    # Each branch sees only arguments at which its slope is finite.
    small = torch.log(-torch.expm1(torch.where(near_zero, x, LOG_HALF)))
    large = torch.log1p(-torch.exp(torch.where(near_zero, LOG_HALF, x)))
    return torch.where(near_zero, small, large)
