r"""The probability that a pair of similarity s is a hidden positive, from two histograms.

.. math:: r(s) = \tau' \frac{f^+(s)}{f^u(s)}

with the densities :math:`f^+` of known positives and :math:`f^u` of unlabelled pairs. It assumes SCAR: known positives
are distributed like hidden ones. Two views of one sample are more similar than two samples of one class; then r is too
low for middle similarities and too high for the highest.
"""

import torch

from pucl.shapes import Float, Tensor


def posterior(
    positive: Float[Tensor, " bin"], unlabelled: Float[Tensor, " bin"], tau_plus: float
) -> Float[Tensor, " bin"]:
    r"""The r of each bin, made monotone and clipped to 0 to 1.

    The probability should not fall with the similarity. So the ratio is replaced by the closest one that never falls:
    isotonic regression, each bin weighted by its unlabelled pairs. Neighbouring bins that are out of order are
    pooled, :math:`\sum f^+ / \sum f^u`. A bin without any pair gets the value of the bin below it.

    Args:
        positive: Known positives in each bin of similarity, in rising order of the similarity.
        unlabelled: Unlabelled pairs in each bin.
        tau_plus: tau', the share of hidden positives among the unlabelled, 0 to 1.

    Example:
        >>> posterior(torch.tensor([0.0, 2, 1, 7]), torch.tensor([50.0, 30, 15, 5]), tau_plus=0.1).tolist()
        [0.0, 0.06666666666666667, 0.06666666666666667, 1.0]
    """
    if not 0 <= tau_plus <= 1:
        raise ValueError(
            f"tau_plus is the share of hidden positives among the unlabelled: expected 0 to 1, got {tau_plus}"
        )
    known, others = positive.double().cpu(), unlabelled.double().cpu()
    if not (float(known.sum()) > 0 and float(others.sum()) > 0):
        raise ValueError("histograms count known positives and unlabelled pairs: expected some of both, got none")
    expected = (tau_plus * known / known.sum()).tolist()  # Hidden positives in each bin, as a share of all pairs.
    return _rising_ratio(expected, (others / others.sum()).tolist()).clamp(0, 1)


def _rising_ratio(above: list[float], below: list[float]) -> Float[Tensor, " bin"]:
    """The closest non-decreasing ratio above / below, weighted by `below`: pool adjacent violators."""
    pools: list[tuple[float, float, int]] = []  # Sum above, sum below, number of bins.
    for top, bottom in zip(above, below, strict=True):
        pool = top, bottom, 1
        # Products, since the ratio of a pool without unlabelled pairs is infinite. An empty bin joins the last pool.
        while pools and pools[-1][0] * pool[1] >= pool[0] * pools[-1][1]:
            last = pools.pop()
            pool = last[0] + pool[0], last[1] + pool[1], last[2] + pool[2]
        pools.append(pool)
    values = [(top / bottom if bottom > 0 else float(top > 0), count) for top, bottom, count in pools]
    return torch.tensor([value for value, count in values for _ in range(count)], dtype=torch.float64)
