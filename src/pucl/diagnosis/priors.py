r"""How many positives hide among unlabelled samples, estimated from similarities alone.

All that a corrected loss needs to know is :math:`\tau'`, the share of hidden positives among the unlabelled. Two
estimates of it rest on different assumptions. Neither is a bound, and nothing but labels can check them:

- `bbe` finds the largest weight with which the law of the *known* positives fits into that of the unlabelled. It is
  too low where known positives are more alike than hidden ones, as two views of one sample mostly are. It is too high
  where true negatives are as alike as known positives, since these fill the same room; where an encoder does not
  separate the two, it is near 1 and says nothing.
- `mixture` looks at the unlabelled alone, as two Gaussians, and takes the upper one for the hidden positives. It is too
  high where the cosines have another hump or tail, and too low where hidden positives lie among the rest.

`collision` is the truth that labels tell, and `alpha_and_c` gives the two parameters of PUCL that :math:`\tau'` stands
for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from pucl.shapes import Float, Tensor

Numbers = Tensor | NDArray[Any] | Sequence[float] | Sequence[int]

FEWEST = 20  # Similarities from which something can be said.
ROUNDING = 1e-4  # How far beyond 1 a cosine of float32, or of half precision that was converted, may come out.
LARGEST = 1 - 1e-6  # Cosines are taken for no larger: atanh(1) is infinite, and two equal samples have it.

CELLS = 4096  # Into so many cells many numbers are sorted: a thousandth of a deviation changes nothing, and EM is fast.
STARTS = (0.02, 0.1, 0.3, 0.5)  # Weights of the upper component from which EM begins; the likeliest end is kept.
APART = 1.5  # Standard deviations between the two components, from which their weights can be trusted.
NARROWEST = (
    0.1  # Least deviation of a component, in deviations of the whole. A spike would be chance, a point infinite.
)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate of tau'.

    Args:
        tau_plus: Share of hidden positives among the unlabelled.
    """

    tau_plus: float


@dataclass(frozen=True, kw_only=True)
class BestBin(Estimate):
    """What `bbe` finds.

    Args:
        tau_plus: Share of hidden positives among the unlabelled.
        threshold: From which similarity on positives and unlabelled were counted.
        slack: By how much the estimate may be off by the chance of few samples alone: it bounds no other error.
    """

    threshold: float
    slack: float


@dataclass(frozen=True, kw_only=True)
class Mixture(Estimate):
    r"""Two Gaussians on Fisher's :math:`z = \mathrm{atanh}(s)`: pairs of different kinds, and hidden positives above.

    Args:
        tau_plus: Weight of the upper one, w.
        lower_mean: Of the lower one, on z.
        lower_deviation: Its standard deviation.
        upper_mean: Of the upper one, on z.
        upper_deviation: Its standard deviation.
    """

    lower_mean: float
    lower_deviation: float
    upper_mean: float
    upper_deviation: float

    @property
    def separation(self) -> float:
        """How far apart the two are, in standard deviations; below `APART` their weights are little but a guess."""
        spread = math.sqrt((self.lower_deviation**2 + self.upper_deviation**2) / 2)
        return (self.upper_mean - self.lower_mean) / spread

    def posterior(self, similarities: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""The chance by the fit that a pair so similar belongs to the upper Gaussian; it never falls as that rises.

        It is the chance of a hidden positive only where the two Gaussians are what they are taken for.

        .. math:: r(s) = \sigma(\ell(z)), \qquad \ell(z) = \log \frac{w\, p_1(z)}{(1 - w)\, p_0(z)} = a + b z + k z^2

        Where one Gaussian is wider, :math:`\ell` turns around at :math:`z^* = -b / 2k`: far above, a wide lower
        component overtakes the upper one, far below, a wide upper component overtakes the lower one. Neither means
        anything, so from there on :math:`\ell(z^*)` stays.
        """
        exact = similarities if similarities.dtype == torch.float64 else similarities.float()
        z = _fisher(exact)
        a, b, k = self._log_odds()
        if k < 0:
            z = z.clamp_max(-b / (2 * k))
        elif k > 0:
            z = z.clamp_min(-b / (2 * k))
        return torch.sigmoid(a + b * z + k * z**2).to(similarities.dtype)

    def densities(
        self, similarities: Float[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        r"""The lower and the upper component as densities of s, each with its weight: together they are the mixture.

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

    def _log_odds(self) -> tuple[float, float, float]:
        """The numbers a, b and k of the posterior."""
        return _log_odds(
            self.tau_plus, (self.lower_mean, self.lower_deviation**2), (self.upper_mean, self.upper_deviation**2)
        )


def bbe(positive: Numbers, unlabelled: Numbers, *, delta: float = 0.1, gamma: float = 0.01) -> BestBin:
    r"""Best bin estimation: the largest weight of the positives' law that the unlabelled law has room for.

    With :math:`q_p(z)` and :math:`q_u(z)` the shares of positives and unlabelled that are at least as similar as z,
    the ratio :math:`q_u(z) / q_p(z)` is at least that weight for every z. The estimate is the ratio at the z where

    .. math:: \frac{q_u(z)}{q_p(z)} + \frac{1 + \gamma}{q_p(z)}
              \left( \sqrt{\frac{\log(4/\delta)}{2 n_u}} + \sqrt{\frac{\log(4/\delta)}{2 n_p}} \right)

    is least: where the ratio is small, but not by the chance of few samples.

    Args:
        positive: Similarities of known positives.
        unlabelled: Similarities of unlabelled pairs.
        delta: Chance with which the bound may fail.
        gamma: By how much the chance of few samples counts more than the bound asks for.

    Note:
        This is tau' where known positives are a fair sample of all positives and some cosines are those of positives
        alone. Where known positives are more alike than hidden ones, as two views of one sample are, it is lower;
        where true negatives reach the highest cosines too, it is higher.

    Reference:
        Garg et al., "Mixture Proportion Estimation and PU Learning: A Modern Approach", NeurIPS 2021.

    Example:
        >>> known = torch.linspace(0.5, 0.9, 400)
        >>> hidden, others = torch.linspace(0.5, 0.9, 500), torch.linspace(-0.5, 0.4, 1500)
        >>> round(bbe(known, torch.cat([hidden, others])).tau_plus, 2)
        0.25
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is the chance with which the bound may fail: expected 0 < delta < 1, got {delta}")
    if gamma < 0:
        raise ValueError(f"gamma is what the chance of few samples counts more: expected 0 or more, got {gamma}")
    known, others = _similarities("positive", positive), _similarities("unlabelled", unlabelled)
    _check_spread(others)
    # Between two positives q_p stays and q_u falls, so the best z is one of the positives.
    above = 1 - torch.searchsorted(known, known).double() / len(known)
    of_others = 1 - torch.searchsorted(others, known).double() / len(others)
    chance = sum(math.sqrt(math.log(4 / delta) / (2 * count)) for count in (len(known), len(others)))
    best = int(((of_others + (1 + gamma) * chance) / above).argmin())
    return BestBin(
        tau_plus=min(1.0, float(of_others[best] / above[best])),
        threshold=float(known[best]),
        slack=(1 + gamma) * chance / float(above[best]),
    )


def mixture(unlabelled: Numbers, *, iterations: int = 2000, tolerance: float = 1e-6) -> Mixture:
    r"""Expectation-maximisation with two Gaussians on Fisher's :math:`z = \mathrm{atanh}(s)` of unlabelled cosines.

    In turn, with :math:`r_i` the chance that pair i belongs to the upper component,

    .. math:: r_i = \frac{w\, p_1(z_i)}{w\, p_1(z_i) + (1 - w)\, p_0(z_i)}, \qquad w = \frac{1}{n} \sum_i r_i,

    and mean and variance of :math:`p_1` are those of the :math:`z_i` weighted by :math:`r_i`, of :math:`p_0` by
    :math:`1 - r_i`. Nothing is drawn at random: it begins several times, with different shares of the most similar
    pairs as the upper component, and keeps the likeliest end.

    Args:
        unlabelled: Cosines of unlabelled pairs, in any order.
        iterations: Rounds of each beginning at most.
        tolerance: Ends when w moves by less than this in a round.

    Note:
        Cosines of 1, as copies in the data have them, are taken for 0.999999.

    Example:
        >>> z = 0.2 * torch.erfinv(torch.linspace(-0.999, 0.999, 1000)) * 2**0.5  # Normal, deviation 0.2.
        >>> found = mixture(torch.tanh(torch.cat([z.repeat(4), z + 1])))
        >>> round(found.tau_plus, 2), round(found.upper_mean, 2)
        (0.2, 1.0)
    """
    if iterations < 1 or tolerance < 0:
        raise ValueError(
            f"iterations and tolerance say when to end: expected at least 1 round and 0 or more, got {iterations} and "
            f"{tolerance}"
        )
    z = _fisher(_similarities("unlabelled", unlabelled))
    _check_spread(z)
    middle, deviation = float(z.mean()), float(z.std(correction=0))
    places, weights = _cells(z - middle)  # Around 0, where squares keep their digits.
    ends = [_maximise(places, weights, start, NARROWEST * deviation, iterations, tolerance) for start in STARTS]
    share, (low, low_variance), (high, high_variance) = max(ends, key=lambda end: end[0])[1]
    return Mixture(
        tau_plus=share,
        lower_mean=middle + low,
        lower_deviation=math.sqrt(low_variance),
        upper_mean=middle + high,
        upper_deviation=math.sqrt(high_variance),
    )


def collision(labels: Numbers) -> Estimate:
    """The chance that two samples, drawn with replacement, are of one class: the sum of squared class shares.

    Example:
        >>> collision([0, 0, 1, 1]).tau_plus
        0.5
    """
    values = _as_tensor(labels)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"labels are the classes of samples: expected one label or more in a row, got the shape "
            f"{list(values.shape)}"
        )
    if values.isnan().any():
        raise ValueError("labels are the classes of samples: expected a number for each, got NaN")
    shares = values.unique(return_counts=True)[1].double() / len(values)
    return Estimate(tau_plus=float((shares**2).sum()))


def alpha_and_c(tau_plus: float, positives: float, unlabelled: float) -> tuple[float, float]:
    r"""PUCL's two parameters, by counting: known positives are :math:`M^+` of :math:`M^+ + N` samples.

    .. math:: \alpha c = \frac{M^+}{M^+ + N}, \qquad \tau' = \frac{\alpha (1 - c)}{1 - \alpha c}
              \quad\Rightarrow\quad \alpha = \alpha c + (1 - \alpha c)\, \tau', \qquad c = \frac{\alpha c}{\alpha}

    Args:
        tau_plus: Share of hidden positives among the unlabelled.
        positives: How many known positives an anchor has, :math:`M^+`.
        unlabelled: How many unlabelled samples it has, N.

    Returns:
        alpha, the share of positives among all that an anchor meets, and c, the share of those that is known.

    Example:
        >>> alpha, c = alpha_and_c(0.1, positives=1, unlabelled=510)
        >>> round(alpha, 4), round(c, 4)
        (0.1018, 0.0192)
    """
    if not 0 <= tau_plus <= 1:
        raise ValueError(
            f"tau_plus is the share of hidden positives among the unlabelled: expected 0 to 1, got {tau_plus}"
        )
    if not (0 < positives < math.inf and 0 < unlabelled < math.inf):
        raise ValueError(
            f"positives and unlabelled are how many of each an anchor has: expected more than 0 of both, got "
            f"{positives} and {unlabelled}"
        )
    known = positives / (positives + unlabelled)
    alpha = known + (1 - known) * tau_plus
    return alpha, known / alpha


_Normal = tuple[float, float]  # Mean and variance.


def _maximise(
    places: Tensor, weights: Tensor, start: float, narrowest: float, iterations: int, tolerance: float
) -> tuple[float, tuple[float, _Normal, _Normal]]:
    """EM from where the upper component is so large a share of the most similar: log-likelihood, and the parameters."""
    powers = torch.stack([torch.ones_like(places), places, places**2])  # All that EM asks for are sums of these.
    weighted = powers * weights
    whole = weighted.sum(1).tolist()
    responsible = (weights.cumsum(0) > 1 - start).double()
    share = -1.0
    for _ in range(iterations):
        sums = (weighted @ responsible).tolist()
        before, share = share, min(max(sums[0], 1e-12), 1 - 1e-12)  # A component may die out.
        upper = _normal(sums, narrowest)
        lower = _normal([all_of_it - part for all_of_it, part in zip(whole, sums, strict=True)], narrowest)
        if abs(share - before) < tolerance:
            break
        coefficients = torch.tensor(_log_odds(share, lower, upper), dtype=torch.float64)
        responsible = torch.sigmoid(coefficients @ powers)
    if lower[0] > upper[0]:  # They may have passed each other.
        share, lower, upper = 1 - share, upper, lower
    likelihood = torch.logaddexp(
        math.log(1 - share) + _log_normal(places, lower), math.log(share) + _log_normal(places, upper)
    )
    return float(weights @ likelihood), (share, lower, upper)


def _normal(sums: Sequence[float], narrowest: float) -> _Normal:
    """Mean and variance from the weighted sums of 1, z and z squared."""
    total = max(sums[0], 1e-12)
    mean = sums[1] / total
    return mean, max(sums[2] / total - mean**2, narrowest**2)


def _log_odds(share: float, lower: _Normal, upper: _Normal) -> tuple[float, float, float]:
    """Log of w p_1(z) / ((1 - w) p_0(z)) as the coefficients of 1, z and z squared."""
    (low, low_variance), (high, high_variance) = lower, upper
    prior = math.log(share) - math.log(1 - share)
    constant = prior + (math.log(low_variance / high_variance) + low**2 / low_variance - high**2 / high_variance) / 2
    return constant, high / high_variance - low / low_variance, (1 / low_variance - 1 / high_variance) / 2


def _log_normal(places: Tensor, normal: _Normal) -> Tensor:
    mean, variance = normal
    return -((places - mean) ** 2 / variance + math.log(2 * math.pi * variance)) / 2


def _cells(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers in rising order as places and weights; many numbers as the means of narrow cells."""
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


def _as_tensor(numbers: Numbers) -> Tensor:
    """A copy in double precision, away from any graph and device."""
    if isinstance(numbers, Tensor):
        return numbers.detach().cpu().double()
    return torch.tensor(numbers, dtype=torch.float64)


def _similarities(name: str, numbers: Numbers) -> Tensor:
    """Cosines in rising order, so that the same ones in another order give the same bits."""
    values = _as_tensor(numbers).flatten()
    if len(values) < FEWEST:
        raise ValueError(
            f"{name} are similarities of pairs: expected at least {FEWEST} of them to estimate from, got {len(values)}"
        )
    wrong = ~(values.abs() <= 1 + ROUNDING)  # NaN is wrong too.
    if wrong.any():
        raise ValueError(
            f"{name} are cosines of pairs: expected numbers from -1 to 1, got {float(values[wrong][0]):g} "
            f"(and {int(wrong.sum()) - 1} more that are none)"
        )
    return values.clamp(-1, 1).sort().values


def _check_spread(ordered: Tensor) -> None:
    if ordered[-1] - ordered[0] < 1e-9:
        raise ValueError(
            "unlabelled are similarities of different pairs: expected some that differ, got the same for all; "
            "embeddings may have collapsed into one point"
        )
