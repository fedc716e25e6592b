"""Two Gaussians fitted to the similarities of unlabelled pairs: an estimate of tau' without known positives."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pucl.estimation.shares import Numbers, check_spread, sorted_cosines
from pucl.shapes import Float, Tensor

LARGEST = 1 - 1e-6  # Larger cosines are reduced to this: atanh(1) is infinite, and two equal samples have it.
CELLS = 4096  # Larger sets of numbers are binned into so many cells. This makes EM fast and hardly changes the fit.
STARTS = (0.02, 0.1, 0.3, 0.5)  # First weights of the upper component; the fit with the highest likelihood is kept.
APART = 1.5  # Fewest standard deviations between the two means for a reliable weight.
NARROWEST = 0.1  # Smallest deviation of a component, as a share of the whole: a spike would be chance.
ITERATIONS = 2000  # Most rounds of EM from each start.
TOLERANCE = 1e-6  # EM ends when the weight moves by less than this in a round.


@dataclass(frozen=True, kw_only=True)
class Mixture:
    r"""Two Gaussians on Fisher's :math:`z = \mathrm{atanh}(s)`. The upper one is taken for the hidden positives.

    Args:
        tau_plus: Weight w of the upper one.
        lower_mean: Mean of the lower one, on z.
        lower_deviation: Its standard deviation.
        upper_mean: Mean of the upper one, on z.
        upper_deviation: Its standard deviation.
    """

    tau_plus: float
    lower_mean: float
    lower_deviation: float
    upper_mean: float
    upper_deviation: float

    @property
    def separation(self) -> float:
        """Distance of the means in standard deviations. Below `APART` the weight is not reliable."""
        spread = math.sqrt((self.lower_deviation**2 + self.upper_deviation**2) / 2)
        return (self.upper_mean - self.lower_mean) / spread

    def posterior(self, similarities: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""The probability that a pair of this similarity belongs to the upper Gaussian. It never falls with s.

        It is the probability of a hidden positive only if hidden positives are the upper Gaussian.

        .. math:: r(s) = \sigma(\ell(z)), \qquad \ell(z) = \log \frac{w\, p_1(z)}{(1 - w)\, p_0(z)} = a + b z + k z^2

        If one Gaussian is wider, :math:`\ell` has its extreme at :math:`z^* = -b / 2k`: far out, the wider Gaussian
        exceeds the other one on both sides. This has no meaning, so beyond :math:`z^*` the value
        :math:`\ell(z^*)` is used.
        """
        exact = similarities if similarities.dtype == torch.float64 else similarities.float()
        z = _fisher(exact)
        lower, upper = (self.lower_mean, self.lower_deviation**2), (self.upper_mean, self.upper_deviation**2)
        a, b, k = _log_odds(self.tau_plus, lower, upper)
        if k < 0:
            z = z.clamp_max(-b / (2 * k))
        elif k > 0:
            z = z.clamp_min(-b / (2 * k))
        return torch.sigmoid(a + b * z + k * z**2).to(similarities.dtype)

    def densities(
        self, similarities: Float[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        r"""The lower and the upper component as densities of s, each times its weight. Their sum is the mixture.

        .. math:: p(s) = p(z)\, \frac{dz}{ds} = \frac{p(z)}{1 - s^2}
        """
        exact = similarities if similarities.dtype == torch.float64 else similarities.float()
        bounded = exact.clamp(-LARGEST, LARGEST)
        z, slope = torch.atanh(bounded), 1 / (1 - bounded**2)
        lower, upper = (
            weight * slope * torch.exp(-(((z - mean) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
            for weight, mean, deviation in (
                (1 - self.tau_plus, self.lower_mean, self.lower_deviation),
                (self.tau_plus, self.upper_mean, self.upper_deviation),
            )
        )
        return lower.to(similarities.dtype), upper.to(similarities.dtype)


def mixture(unlabelled: Numbers) -> Mixture:
    r"""Expectation-maximisation with two Gaussians on Fisher's :math:`z = \mathrm{atanh}(s)` of unlabelled cosines.

    With :math:`r_i` the probability that pair i belongs to the upper component, it repeats

    .. math:: r_i = \frac{w\, p_1(z_i)}{w\, p_1(z_i) + (1 - w)\, p_0(z_i)}, \qquad w = \frac{1}{n} \sum_i r_i,

    and sets mean and variance of :math:`p_1` to those of the :math:`z_i` weighted by :math:`r_i`, of :math:`p_0` by
    :math:`1 - r_i`. Nothing is random. EM starts several times, with different shares of the most similar pairs as the
    upper component, and the fit with the highest likelihood is returned.

    Args:
        unlabelled: Cosines of unlabelled pairs, in any order.

    Note:
        Cosines of 1, which copies in the data have, are reduced to 0.999999.

    Example:
        >>> z = 0.2 * torch.erfinv(torch.linspace(-0.999, 0.999, 1000)) * 2**0.5  # Normal, deviation 0.2.
        >>> found = mixture(torch.tanh(torch.cat([z.repeat(4), z + 1])))
        >>> round(found.tau_plus, 2), round(found.upper_mean, 2)
        (0.2, 1.0)
    """
    z = _fisher(sorted_cosines("unlabelled", unlabelled))
    check_spread(z)
    middle, deviation = float(z.mean()), float(z.std(correction=0))
    values, weights = _cells(z - middle)  # Around 0, so that squares keep their digits.
    fits = [_maximise(values, weights, start, NARROWEST * deviation) for start in STARTS]
    share, (low, low_variance), (high, high_variance) = max(fits, key=lambda fit: fit[0])[1]
    return Mixture(
        tau_plus=share,
        lower_mean=middle + low,
        lower_deviation=math.sqrt(low_variance),
        upper_mean=middle + high,
        upper_deviation=math.sqrt(high_variance),
    )


_Normal = tuple[float, float]  # Mean and variance.


def _maximise(
    values: Tensor, weights: Tensor, start: float, narrowest: float
) -> tuple[float, tuple[float, _Normal, _Normal]]:
    """EM, with this share of the most similar as the first upper component: log-likelihood, and the parameters."""
    powers = torch.stack([torch.ones_like(values), values, values**2])  # EM needs weighted sums of these alone.
    weighted = powers * weights
    whole = weighted.sum(1).tolist()
    responsible = (weights.cumsum(0) > 1 - start).double()
    share = -1.0
    for _ in range(ITERATIONS):
        sums = (weighted @ responsible).tolist()
        before, share = share, min(max(sums[0], 1e-12), 1 - 1e-12)  # A component may vanish.
        upper = _normal(sums, narrowest)
        lower = _normal([total - part for total, part in zip(whole, sums, strict=True)], narrowest)
        if abs(share - before) < TOLERANCE:
            break
        coefficients = torch.tensor(_log_odds(share, lower, upper), dtype=torch.float64)
        responsible = torch.sigmoid(coefficients @ powers)
    if lower[0] > upper[0]:  # They may have changed sides.
        share, lower, upper = 1 - share, upper, lower
    likelihood = torch.logaddexp(
        math.log(1 - share) + _log_normal(values, lower), math.log(share) + _log_normal(values, upper)
    )
    return float(weights @ likelihood), (share, lower, upper)


def _normal(sums: Sequence[float], narrowest: float) -> _Normal:
    """Mean and variance from the weighted sums of 1, z and z squared."""
    total = max(sums[0], 1e-12)
    mean = sums[1] / total
    return mean, max(sums[2] / total - mean**2, narrowest**2)


def _log_odds(share: float, lower: _Normal, upper: _Normal) -> tuple[float, float, float]:
    """The coefficients a, b and k of log(w p_1(z) / ((1 - w) p_0(z))) = a + b z + k z^2."""
    (low, low_variance), (high, high_variance) = lower, upper
    prior = math.log(share) - math.log(1 - share)
    constant = prior + (math.log(low_variance / high_variance) + low**2 / low_variance - high**2 / high_variance) / 2
    return constant, high / high_variance - low / low_variance, (1 / low_variance - 1 / high_variance) / 2


def _log_normal(values: Tensor, normal: _Normal) -> Tensor:
    mean, variance = normal
    return -((values - mean) ** 2 / variance + math.log(2 * math.pi * variance)) / 2


def _cells(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Values and weights of numbers in rising order. More than `CELLS` numbers are replaced by the means of cells."""
    if len(ordered) <= CELLS:
        return ordered, torch.full_like(ordered, 1 / len(ordered))
    low, high = ordered[0], ordered[-1]
    cell = ((ordered - low) / (high - low) * CELLS).long().clamp_max(CELLS - 1)
    counts = torch.bincount(cell, minlength=CELLS).double()
    sums = torch.bincount(cell, ordered, minlength=CELLS)
    full = counts > 0
    return sums[full] / counts[full], counts[full] / len(ordered)


def _fisher(similarities: Tensor) -> Tensor:
    return torch.atanh(similarities.clamp(-LARGEST, LARGEST))
