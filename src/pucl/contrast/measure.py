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
    log_unlabelled: Float[Tensor, " anchor"],
    log_positive: Float[Tensor, " anchor"],
    odds: float,
    log_floor: Float[Tensor, "#anchor"],
) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
    r"""Log E^-[g] from log A and log P.

    With :math:`x = \log \frac{\omega P}{(1 + \omega) A}`, :math:`\log E^- = \log(1 + \omega) + \log A + \log(1 - e^x)`,
    which exists for x < 0 alone.
    """
    if odds == 0:  # Nothing is taken off, so nothing needs a floor.
        return log_unlabelled, torch.zeros_like(log_unlabelled, dtype=torch.bool)
    log_scaled = math.log1p(odds) + log_unlabelled
    x = math.log(odds) + log_positive - log_scaled
    # The anchors at the floor are found first and their x is made harmless before the logarithm: a
    # `where` after it would multiply their zero gradient by an infinite slope and give NaN.
    with torch.no_grad():
        above = (x < 0) & (log_scaled + _log1mexp(x.clamp_max(-torch.finfo(x.dtype).tiny)) > log_floor)
        # NaN is not above the floor either; it must not vanish there.
        floored = ~above & ~x.isnan()
    log_mean = log_scaled + _log1mexp(torch.where(floored, -1.0, x))
    return torch.where(floored, log_floor, log_mean), floored


def corrected_mean(
    unlabelled: Float[Tensor, " anchor"],
    positive: Float[Tensor, " anchor"],
    odds: float,
    floor: float | Float[Tensor, "#anchor"],
) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
    """E^-[g] from A and P, for functions g that need no log space."""
    if odds == 0:
        return unlabelled, torch.zeros_like(unlabelled, dtype=torch.bool)
    mean = (1 + odds) * unlabelled - odds * positive
    floored = mean <= floor
    return torch.where(floored, floor, mean), floored


def _log1mexp(x: Float[Tensor, " anchor"]) -> Float[Tensor, " anchor"]:
    """log(1 - exp(x)) for x < 0, exact at both ends."""
    near_zero = x > LOG_HALF
    # Each branch sees only arguments at which its slope is finite.
    small = torch.log(-torch.expm1(torch.where(near_zero, x, LOG_HALF)))
    large = torch.log1p(-torch.exp(torch.where(near_zero, LOG_HALF, x)))
    return torch.where(near_zero, small, large)
