"""From averaged unlabelled samples to a loss: InfoNCE and Jensen-Shannon."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F

from pucl.contrast.comparison import Comparison
from pucl.contrast.correction import Correction
from pucl.contrast.measure import corrected_log_mean, corrected_mean
from pucl.shapes import Bool, Float, Int, Tensor

Floor = Literal["temperature", "paper"] | float
"""Below what an estimate over negatives cannot fall.

- ``"temperature"``: the least value of g that any pair can have, g(lowest logit); exp(-1/t) for cosines.
- ``"paper"``: exp(-1), as the paper prints it (it has no temperature).
- a number 0 < rho < 1: that share of the average over the unlabelled, so that an anchor at the floor still
  pushes its unlabelled samples away.
"""

Reduction = Literal["mean", "sum", "none"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is left of a comparison once the unlabelled samples are averaged: a few numbers per anchor.

    Args:
        positive: Logits of the positives.
        positive_mask: True where a positive counts; None if all do.
        unlabelled: The weighted average of g over the unlabelled samples, in the objective's own scale
            (InfoNCE: its logarithm).
        count: N, for how many samples that average stands; 0 where an anchor has none.
        lowest: The least value that a logit can take.
        temperature: What similarities were divided by.
        unlabelled_similarity: Mean similarity of the unlabelled pairs.
    """

    positive: Float[Tensor, "anchor positive"]
    positive_mask: Bool[Tensor, "anchor positive"] | None = None
    unlabelled: Float[Tensor, " anchor"]
    count: Float[Tensor, " anchor"]
    lowest: float | Float[Tensor, ""]
    temperature: float | Float[Tensor, ""]
    unlabelled_similarity: Float[Tensor, ""]

    def over_positives(self, values: Float[Tensor, "anchor positive"]) -> Float[Tensor, " anchor"]:
        """The mean over each anchor's positives; 0 for an anchor that has none."""
        if self.positive_mask is None:
            return values.mean(dim=1)
        present = self.positive_mask
        return values.masked_fill(~present, 0.0).sum(dim=1) / present.sum(dim=1).clamp_min(1)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a comparison came to.

    Args:
        loss: One value per anchor.
        floored: Share of the anchors whose estimate over negatives stands at the floor. Those learn
            nothing from their negatives (unless the floor is relative).
        tau_plus: tau', the share of hidden positives that the correction assumes among the unlabelled.
        positive_similarity: Mean similarity of the positive pairs.
        unlabelled_similarity: Mean similarity of the unlabelled pairs.
    """

    loss: Float[Tensor, " anchor"]
    floored: Float[Tensor, ""]
    tau_plus: float
    positive_similarity: Float[Tensor, ""]
    unlabelled_similarity: Float[Tensor, ""]


@runtime_checkable
class Objective(Protocol):
    """A function g of a logit, and a loss built on its expectation over true negatives."""

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """The weighted average of g, in the scale that `losses` takes."""
        ...

    def pool(
        self, averages: Float[Tensor, " anchor"], group: Int[Tensor, " anchor"], sizes: Float[Tensor, " group"]
    ) -> Float[Tensor, " group"]:
        """The mean of what `average` gave over the members of each group, in the same scale."""
        ...

    def losses(
        self, summary: Summary, odds: float, floor: Floor
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """Loss of every anchor, and whether its estimate over negatives stands at the floor."""
        ...


class InfoNCE:
    r"""g = exp, in log space: :math:`-\log \frac{e^p}{e^p + N \mu}` with :math:`\mu = \max(E^-[\exp], \text{floor})`.

    With several positives, :math:`\mu` uses the mean of them all and the loss is averaged over them.
    """

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """Log of the weighted mean of exp(logit)."""
        return torch.logsumexp(logits + log_weights, dim=1)

    def pool(
        self, averages: Float[Tensor, " anchor"], group: Int[Tensor, " anchor"], sizes: Float[Tensor, " group"]
    ) -> Float[Tensor, " group"]:
        """Log of the mean of exp(average), around the largest of each group."""
        largest = torch.full_like(sizes, -math.inf).scatter_reduce(0, group, averages.detach(), "amax")
        largest = torch.where(largest.isfinite(), largest, 0.0)
        total = torch.zeros_like(sizes).index_add(0, group, (averages - largest[group]).exp())
        return largest + (total / sizes.clamp_min(1)).log()

    def losses(
        self, summary: Summary, odds: float, floor: Floor
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """InfoNCE with the corrected mean in place of the mean over true negatives."""
        if floor == "temperature":
            log_floor = torch.as_tensor(summary.lowest, dtype=summary.positive.dtype, device=summary.positive.device)
        elif floor == "paper":
            log_floor = summary.positive.new_tensor(-1.0)
        else:
            log_floor = summary.unlabelled + math.log(floor)
        log_mean, floored = corrected_log_mean(
            summary.unlabelled, self._log_mean_positive(summary), odds, log_floor.reshape(-1)
        )
        some = summary.count > 0
        log_negatives = (torch.where(some, summary.count, 1.0).log() + log_mean)[:, None]
        # -log(e^p / (e^p + e^n)) = softplus(n - p): exact at both ends, where the quotient is not.
        losses = summary.over_positives(softplus(log_negatives - summary.positive))
        return torch.where(some, losses, 0.0), floored & some

    @staticmethod
    def _log_mean_positive(summary: Summary) -> Float[Tensor, " anchor"]:
        if summary.positive_mask is None:
            return torch.logsumexp(summary.positive, dim=1) - math.log(summary.positive.shape[1])
        present = summary.positive_mask.sum(dim=1)
        hidden = summary.positive.masked_fill(~summary.positive_mask, -math.inf)
        hidden = hidden.masked_fill((present == 0)[:, None], 0.0)
        return torch.logsumexp(hidden, dim=1) - present.clamp_min(1).to(hidden.dtype).log()


class JensenShannon:
    r"""g = softplus: :math:`\mathrm{mean}_j\, \mathrm{softplus}(-p_j) + \max(E^-[\mathrm{softplus}], \text{floor})`.

    InfoGraph's own objective. Its floor is the least value of softplus, 0 for scores without bound;
    without it the loss could be driven to minus infinity.
    """

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """Weighted mean of softplus(logit)."""
        return (softplus(logits) * log_weights.exp()).sum(dim=1)

    def pool(
        self, averages: Float[Tensor, " anchor"], group: Int[Tensor, " anchor"], sizes: Float[Tensor, " group"]
    ) -> Float[Tensor, " group"]:
        """The mean of the averages."""
        return torch.zeros_like(sizes).index_add(0, group, averages) / sizes.clamp_min(1)

    def losses(
        self, summary: Summary, odds: float, floor: Floor
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """The Jensen-Shannon bound with the corrected mean in place of the mean over true negatives."""
        if isinstance(floor, str):  # The paper prints a floor for exp alone; softplus has its own.
            lowest = torch.as_tensor(summary.lowest, dtype=summary.positive.dtype, device=summary.positive.device)
            least = softplus(lowest)
        else:
            least = floor * summary.unlabelled
        positive = summary.over_positives(softplus(summary.positive))
        negatives, floored = corrected_mean(summary.unlabelled, positive, odds, least.reshape(-1))
        some = summary.count > 0
        losses = summary.over_positives(softplus(-summary.positive)) + torch.where(some, negatives, 0.0)
        return losses, floored & some


def softplus(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log(1 + exp(x)); torch's own turns linear at 20, where float64 still sees the difference."""
    return F.softplus(x, threshold=40.0)


OBJECTIVES: dict[str, Objective] = {"infonce": InfoNCE(), "jensen_shannon": JensenShannon()}


def summarise(comparison: Comparison, correction: Correction, objective: Objective) -> Summary:
    """Average the unlabelled samples of a comparison that is held in memory."""
    average = objective.average(comparison.visible, correction.log_weights(comparison))
    if comparison.mask is not None:  # Whatever stands there for an anchor that meets nobody, streams say 0.
        average = torch.where(comparison.count > 0, average, 0.0)
    return Summary(
        positive=comparison.positive,
        positive_mask=comparison.positive_mask,
        unlabelled=average,
        count=correction.count(comparison.count, comparison.drawn),
        lowest=comparison.lowest,
        temperature=comparison.temperature,
        unlabelled_similarity=comparison.unlabelled_similarity(),
    )


def conclude(summary: Summary, correction: Correction, objective: Objective, floor: Floor = "temperature") -> Outcome:
    """The last step, shared by every way of averaging: correct, floor, and take the loss."""
    check_floor(floor)
    losses, floored = objective.losses(summary, correction.odds, floor)
    positive, share = summary.positive.detach(), floored.to(losses.dtype).mean()
    if summary.positive_mask is None:
        similarity = positive.mean()
    else:  # Without a positive there is nothing to learn for an anchor, and nothing to report of it.
        present, learns = summary.positive_mask, summary.positive_mask.any(dim=1)
        losses = torch.where(learns, losses, 0.0)
        share = (floored & learns).sum().to(losses.dtype) / learns.sum().clamp_min(1)
        similarity = positive.masked_fill(~present, 0.0).sum() / present.sum().clamp_min(1)
    return Outcome(
        loss=losses,
        floored=share,
        tau_plus=correction.tau_plus,
        positive_similarity=similarity * summary.temperature,
        unlabelled_similarity=summary.unlabelled_similarity,
    )


def check_floor(floor: Floor) -> None:
    """Refuse what is no floor."""
    fits = floor in ("temperature", "paper") if isinstance(floor, str) else 0 < floor < 1
    if not fits:
        raise ValueError(
            f"floor is below what an estimate over negatives cannot fall: expected 'temperature', 'paper', or a "
            f"share of the unlabelled mean between 0 and 1, got {floor!r}"
        )


def reduce(losses: Float[Tensor, " anchor"], reduction: Reduction) -> Float[Tensor, "*shape"]:
    """Mean, sum, or one value per anchor."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(
        f"reduction says what becomes of the anchors' losses: expected 'mean', 'sum' or 'none', got {reduction!r}"
    )
