r"""What false negatives cost a loss: the share of its gradient that pushes them away.

With :math:`s_{ij}` the cosine of anchor i and unlabelled sample j, the gradient of InfoNCE with respect to the logit
:math:`s_{ij} / t` is a factor of the anchor times :math:`e^{s_{ij} / t}`. So sample j takes the share

.. math:: p_{ij} = \frac{e^{s_{ij} / t}}{\sum_{k \ne i} e^{s_{ik} / t}}, \qquad
          \text{cost} = \frac{1}{n} \sum_i \sum_j r_{ij}\, p_{ij}

of the push of anchor i, with :math:`r_{ij}` the probability that the pair is a false negative. The lower the
temperature, the more of the push goes to the most similar samples, of which more are false negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pucl.contrast.loss import outcome_of
from pucl.contrast.pairing import pair_up
from pucl.corrections import Debiased
from pucl.corrections.clusters import share_together
from pucl.shapes import Float, Int, Tensor

ANCHORS = 1_000  # Anchors whose push is measured. The standard error of the mean is then below a hundredth.


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What false negatives cost at one temperature.

    Args:
        temperature: Cosines are divided by it.
        share: Share of the gradient on unlabelled samples that pushes false negatives; None without an estimate of r.
        least: The smallest share by a single partition, or `share` if that is smaller: it is a mean of squares.
        most: The largest.
        truth: The share by the labels; None without labels.
        floored: Share of anchors that DEB and PUCL would have at the floor, if tau' is the estimated share; None
            without views, or without an estimate.
    """

    temperature: float
    share: float | None
    least: float | None
    most: float | None
    truth: float | None
    floored: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Samples that are compared with each other.

    Args:
        anchors: One vector of length 1 for each sample.
        keys: What anchors are compared with: the second view of each sample, or the anchors themselves.
        groups: The groups of each sample, in each partition; no columns without an estimate.
        labels: Their classes; None if unknown.
        views: Whether the keys are second views, so that an anchor's own key is its positive.
    """

    anchors: Float[Tensor, "sample dim"]
    keys: Float[Tensor, "sample dim"]
    groups: Int[Tensor, "sample partition"]
    labels: Int[Tensor, " sample"] | None
    views: bool


def measure_costs(sample: Sample, temperatures: Sequence[float], tau_plus: float | None) -> tuple[Cost, ...]:
    """What false negatives cost at each temperature.

    Args:
        sample: The samples, at least two. Up to `ANCHORS` of them, evenly spaced, are anchors.
        temperatures: Temperatures of the loss.
        tau_plus: The estimated share of false negatives; None without an estimate.
    """
    rows = anchor_rows(len(sample.anchors))
    cosines = sample.anchors[rows] @ sample.keys.T
    cosines[torch.arange(len(rows)), rows] = -torch.inf
    pushes = [torch.softmax(cosines / temperature, dim=1) for temperature in temperatures]
    by_partition = [[_mean_push(push, column[rows, None] == column) for push in pushes] for column in sample.groups.T]
    by_r = by_label = None
    if sample.groups.shape[1]:
        r = share_together(sample.groups[rows], sample.groups, cosines.dtype).square_()
        by_r = [_mean_push(push, r) for push in pushes]
    if sample.labels is not None:
        same = sample.labels[rows, None] == sample.labels
        by_label = [_mean_push(push, same) for push in pushes]
    return tuple(
        Cost(
            temperature=temperature,
            share=None if by_r is None else by_r[index],
            least=None if by_r is None else min(by_r[index], *(each[index] for each in by_partition)),
            most=None if by_r is None else max(by_r[index], *(each[index] for each in by_partition)),
            truth=None if by_label is None else by_label[index],
            floored=_floored(sample, rows, temperature, tau_plus),
        )
        for index, temperature in enumerate(temperatures)
    )


def anchor_rows(count: int) -> Int[Tensor, " anchor"]:
    """Up to `ANCHORS` of so many samples, evenly spaced."""
    return torch.linspace(0, count - 1, min(ANCHORS, count), dtype=torch.float64).round().long()


def _mean_push(push: Float[Tensor, "anchor unlabelled"], hidden: Tensor) -> float:
    """The mean over the anchors of the push that goes to false negatives."""
    return float((push * hidden).sum(dim=1).mean())


@torch.no_grad()
def _floored(sample: Sample, rows: Int[Tensor, " anchor"], temperature: float, tau_plus: float | None) -> float | None:
    """The share of anchors whose estimate over negatives DEB replaces by its floor."""
    if not sample.views or tau_plus is None or tau_plus >= 1:
        return None
    pairs = pair_up(
        sample.anchors[rows],
        sample.keys[rows],
        sample.keys,
        temperature=temperature,
        query_ids=rows,
        unlabelled_ids=torch.arange(len(sample.keys)),
    )
    return float(outcome_of(pairs, Debiased(tau_plus=tau_plus)).floored)
