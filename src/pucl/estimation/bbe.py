"""Best bin estimation of the share of hidden positives, from similarities of known positives and unlabelled pairs."""

import math
from dataclasses import dataclass

import torch

from pucl.estimation.shares import Numbers, check_spread, sorted_cosines
from pucl.shapes import Float, Tensor

DELTA = 0.1  # Probability with which the bound may fail.
GAMMA = 0.01  # How much more the error of few samples counts than the bound asks for.


@dataclass(frozen=True, kw_only=True)
class BestBin:
    """The result of `bbe`.

    Args:
        tau_plus: Share of hidden positives among the unlabelled.
        threshold: The similarity from which on positives and unlabelled were counted.
        slack: Largest error that is due to few samples. It does not bound any other error.
    """

    tau_plus: float
    threshold: float
    slack: float


def bbe(positive: Numbers, unlabelled: Numbers) -> BestBin:
    r"""Best bin estimation: the largest share of the unlabelled that can be distributed like the positives.

    With :math:`q_p(z)` and :math:`q_u(z)` the shares of positives and unlabelled that are at least as similar as z,
    the ratio :math:`q_u(z) / q_p(z)` is at least that share for every z. The estimate is the ratio at the z where

    .. math:: \frac{q_u(z)}{q_p(z)} + \frac{1 + \gamma}{q_p(z)}
              \left( \sqrt{\frac{\log(4/\delta)}{2 n_u}} + \sqrt{\frac{\log(4/\delta)}{2 n_p}} \right)

    is least: the ratio is small there, and not by chance.

    Args:
        positive: Similarities of known positives.
        unlabelled: Similarities of unlabelled pairs.

    Note:
        This is tau' if known positives are a fair sample of all positives, and if the highest cosines are those of
        positives alone. If known positives are more similar than hidden ones, as two views of one sample are, the
        estimate is too low. If true negatives have the highest cosines too, it is too high.

    Reference:
        Garg et al., "Mixture Proportion Estimation and PU Learning: A Modern Approach", NeurIPS 2021.

    Example:
        >>> known = torch.linspace(0.5, 0.9, 400)
        >>> hidden, others = torch.linspace(0.5, 0.9, 500), torch.linspace(-0.5, 0.4, 1500)
        >>> round(bbe(known, torch.cat([hidden, others])).tau_plus, 2)
        0.25
    """
    known, others = sorted_cosines("positive", positive), sorted_cosines("unlabelled", unlabelled)
    check_spread(others)
    return best_bin(known, others)


def best_bin(
    positive: Float[Tensor, " positive"],
    unlabelled: Float[Tensor, " unlabelled"],
    *,
    delta: float = DELTA,
    gamma: float = GAMMA,
) -> BestBin:
    """`bbe` for scores of any kind, without checks: a higher score is more positive."""
    known, others = positive.sort().values, unlabelled.sort().values
    # Between two positives q_p is constant and q_u falls, so the best z is one of the positives.
    above = 1 - torch.searchsorted(known, known).double() / len(known)
    of_others = 1 - torch.searchsorted(others, known).double() / len(others)
    return _least_bound(known, above, of_others, (len(known), len(others)), delta, gamma)


def bbe_of_histograms(positive: Float[Tensor, " bin"], unlabelled: Float[Tensor, " bin"]) -> BestBin:
    """`bbe` from histograms over equal bins of similarity from -1 to 1. The thresholds are the lower ends of the bins.

    Args:
        positive: Known positives in each bin; may be fractions, such as decayed counts.
        unlabelled: Unlabelled pairs in each bin.

    Example:
        >>> bbe_of_histograms(torch.tensor([0.0, 0, 50, 50]), torch.tensor([500.0, 300, 100, 100])).tau_plus
        0.2
    """
    known, others = positive.double().cpu(), unlabelled.double().cpu()
    if not (float(known.sum()) > 0 and float(others.sum()) > 0):
        raise ValueError("histograms count known positives and unlabelled pairs: expected some of both, got none")
    above, of_others = (each.flip(0).cumsum(0).flip(0) / each.sum() for each in (known, others))
    some = above > 0
    ends = torch.linspace(-1, 1, len(known) + 1, dtype=torch.float64)[:-1]
    counts = float(known.sum()), float(others.sum())
    return _least_bound(ends[some], above[some], of_others[some], counts, DELTA, GAMMA)


def _least_bound(
    thresholds: Tensor, above: Tensor, of_others: Tensor, counts: tuple[float, float], delta: float, gamma: float
) -> BestBin:
    """The ratio of the shares at the threshold where the bound is least."""
    chance = sum(math.sqrt(math.log(4 / delta) / (2 * count)) for count in counts)
    best = int(((of_others + (1 + gamma) * chance) / above).argmin())
    return BestBin(
        tau_plus=min(1.0, float(of_others[best] / above[best])),
        threshold=float(thresholds[best]),
        slack=(1 + gamma) * chance / float(above[best]),
    )
