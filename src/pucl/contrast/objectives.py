"""From averaged unlabelled samples to a loss: InfoNCE and Jensen-Shannon."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F

from pucl.contrast.brief import brief_repr
from pucl.contrast.comparison import Comparison
from pucl.contrast.correction import Correction, ExtraPositives, normalised_log_weights
from pucl.contrast.functions import with_signature
from pucl.contrast.measure import corrected_log_mean, corrected_mean
from pucl.contrast.summary import Summary, sum_groups, times, weighted
from pucl.shapes import Bool, Float, Tensor

Floor = Literal["auto", "temperature", "paper"] | float
"""Below what an estimate over negatives cannot fall.

- ``"temperature"``: the least value of g that any pair can have, g(lowest logit); exp(-1/t) for cosines.
- ``"paper"``: exp(-1), as the paper prints it (it has no temperature).
- a number 0 < rho < 1: that share of the average over the unlabelled, so that an anchor at the floor still
  pushes its unlabelled samples away.
- ``"auto"``: ``"temperature"``, but for InfoNCE below a temperature of 0.25 the share 0.1; see `resolve_floor`.
"""

LOW_TEMPERATURE = (
    0.25  # Below it exp(-1/t) is less than a fiftieth of any usual mean, and a floored anchor stops learning.
)
LOW_SHARE = 0.1  # About what exp(-1/t) is of the unlabelled mean at the usual temperature of 0.5.

Reduction = Literal["mean", "sum", "none"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome:
    """The result of a comparison.

    Args:
        loss: One value per anchor.
        floored: Share of the anchors whose estimate over negatives stands at the floor. Those learn
            nothing from their negatives (unless the floor is relative).
        tau_plus: tau', the share of hidden positives that the correction assumes among the unlabelled. A tensor if the
            correction assumes another share for each anchor: the mean of them.
        positive_similarity: Mean similarity of the positive pairs.
        unlabelled_similarity: Mean similarity of the unlabelled pairs.
        floor: The floor that held. ``"auto"`` stays only where the temperature is a tensor, which nobody reads here.
    """

    loss: Float[Tensor, " anchor"]
    floored: Float[Tensor, ""]
    tau_plus: float | Float[Tensor, ""]
    positive_similarity: Float[Tensor, ""]
    unlabelled_similarity: Float[Tensor, ""]
    floor: Floor

    def __repr__(self) -> str:
        return brief_repr(self)


@runtime_checkable
class Objective(Protocol):
    """A function g of a logit, and a loss built on its expectation over true negatives."""

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """The weighted average of g, in the scale that `losses` takes."""
        ...

    def losses(
        self, summary: Summary, odds: float | Float[Tensor, " row"], floor: Floor
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """Loss of every anchor, and whether its estimate over negatives stands at the floor.

        The floor has gone through `resolve_floor`.

        Where an anchor stands for a group, `Summary.unlabelled` and `Summary.positive` have a row for each member, and
        are averaged here: what is averaged, g or its logarithm, is the objective's affair.
        """
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

    def losses(
        self, summary: Summary, odds: float | Float[Tensor, " row"], floor: Floor
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """InfoNCE with the corrected mean in place of the mean over true negatives."""
        log_average = summary.log_mean_unlabelled()
        log_floor = self._log_floor(summary, log_average, floor).reshape(-1)
        if isinstance(odds, Tensor):
            log_added, log_taken = summary.log_mean_unlabelled(odds.log1p()), summary.log_mean_positive(odds.log())
            log_mean, floored = corrected_log_mean(log_added, log_taken, log_floor, summary.any_row(odds > 0))
        elif odds:
            log_added, log_taken = math.log1p(odds) + log_average, math.log(odds) + summary.log_mean_positive()
            log_mean, floored = corrected_log_mean(log_added, log_taken, log_floor)
        else:  # Nothing is taken off, so nothing needs a floor.
            log_mean, floored = log_average, torch.zeros_like(log_average, dtype=torch.bool)
        some = summary.count > 0
        log_negatives = summary.for_rows(torch.where(some, summary.count, 1.0).log() + log_mean)
        # -log(e^p / (e^p + e^n)) = softplus(n - p): exact at both ends, where the quotient is not.
        losses = summary.over_positives(softplus(log_negatives - summary.positive))
        return torch.where(some, losses, 0.0), floored & some

    @staticmethod
    def _log_floor(
        summary: Summary, log_average: Float[Tensor, " anchor"], floor: Floor
    ) -> Float[Tensor, ""] | Float[Tensor, " anchor"]:
        if floor == "paper":
            return log_average.new_tensor(-1.0)
        lowest = torch.as_tensor(summary.lowest, dtype=log_average.dtype, device=log_average.device)
        if floor == "temperature":
            return lowest
        if floor == "auto":  # The temperature is a tensor: its device decides, and nobody waits for it.
            low = torch.as_tensor(summary.temperature, device=log_average.device) < LOW_TEMPERATURE
            return torch.where(low, log_average + math.log(LOW_SHARE), lowest)
        return log_average + math.log(floor)


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

    def losses(
        self, summary: Summary, odds: float | Float[Tensor, " row"], floor: Floor
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """The Jensen-Shannon bound with the corrected mean in place of the mean over true negatives."""
        least, counts = _least_softplus(summary.lowest), None
        mask = summary.positive_weight
        if isinstance(odds, Tensor) or (mask is not None and mask.dtype != torch.bool):
            return self._weighted_losses(summary, odds, least, None if isinstance(floor, str) else floor)
        if mask is not None:
            positives = summary.positives()
            sizes = torch.ones_like(positives) if summary.sizes is None else summary.sizes
            counts = torch.stack([sizes, positives, positives], dim=1).clamp_min_(1)
        elif summary.sizes is not None:
            counts = (summary.sizes if summary.present is None else summary.sizes.clamp_min(1))[:, None]
        losses: Tensor
        floored: Tensor
        losses, floored, _ = _JensenShannonLosses.apply(  # type: ignore[no-untyped-call]
            summary.unlabelled,
            summary.positive,
            least,
            mask,
            summary.member,
            summary.copies,
            counts,
            summary.count > 0,
            odds,
            None if isinstance(floor, str) else floor,
        )
        return losses, floored

    @staticmethod
    def _weighted_losses(
        summary: Summary, odds: float | Float[Tensor, " row"], least: float | Float[Tensor, ""], share: float | None
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """The same for odds that differ from row to row, or positives that count differently."""
        odds = torch.as_tensor(odds, dtype=summary.positive.dtype, device=summary.positive.device)
        odds = odds.expand(len(summary.positive))
        added = summary.over_rows((1 + odds) * summary.unlabelled)
        taken = summary.over_positives(odds[:, None] * softplus(summary.positive))
        floor = least if share is None else share * summary.over_rows(summary.unlabelled)
        negatives, floored = corrected_mean(added, taken, floor)
        corrects, some = summary.any_row(odds > 0), summary.count > 0
        negatives = torch.where(some, torch.where(corrects, negatives, added), 0.0)
        return summary.over_positives(softplus(-summary.positive)) + negatives, floored & some & corrects


class _JensenShannonLosses(torch.autograd.Function):
    r"""The loss of each anchor, whether it stands at the floor, and whether it learns from its negatives.

    With A, P and Q the means over an anchor's rows, of the averages and of softplus(p) and softplus(-p), it is
    :math:`Q + \max((1 + \omega) A - \omega P, \text{floor})`.

    The gradient is written out: in a small batch of graphs, the many steps of an automatic one take longer than what
    they compute.
    """

    @staticmethod
    @with_signature
    def forward(
        unlabelled: Tensor,
        positive: Tensor,
        least: float | Tensor,
        mask: Tensor | None,
        member: Tensor | None,
        copies: Tensor | None,
        counts: Tensor | None,
        some: Tensor,
        odds: float,
        share: float | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The floor is `least`, or this share of A; `counts` are what the sums for A, P and Q are divided by.

        Without a mask the positives of a row are averaged before, and counts are of rows. Who learns from its negatives
        is for the way back alone.
        """
        both = softplus(torch.stack([positive, -positive]))
        both = _mean_last(both) if mask is None else both.masked_fill(~mask, 0.0).sum(dim=2)
        rows = torch.cat([unlabelled[None], both]).T
        if member is not None:
            rows = sum_groups(times(rows, copies), member, len(some))
        average, above, below = (rows if counts is None else rows / counts).unbind(1)
        if odds == 0:  # Nothing is taken off, so nothing needs a floor.
            negatives, floored = average, torch.zeros_like(some)
        else:
            floor = least if share is None else share * average
            negatives, floored = corrected_mean((1 + odds) * average, odds * above, floor)
            floored = floored & some
        return below + torch.where(some, negatives, 0.0), floored, some ^ floored

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, positive, _, mask, member, copies, counts, _, ctx.odds, ctx.share = inputs
        ctx.save_for_backward(positive, mask, member, copies, counts, *output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        positive, mask, member, copies, counts, floored, learns = ctx.saved_tensors
        g = gradients[0]
        of_negatives = g * learns
        of_average = of_negatives * (1 + ctx.odds)
        if ctx.share is not None:
            of_average = of_average + g * floored * ctx.share
        rows = torch.stack([of_average, of_negatives * -ctx.odds, g], dim=1)
        rows = rows if counts is None else rows / counts
        if member is not None:
            rows = times(rows.index_select(0, member), copies)
        slopes = rows[:, 1:2] * torch.sigmoid(positive) - rows[:, 2:] * torch.sigmoid(-positive)
        if mask is not None:
            slopes = slopes.masked_fill(~mask, 0.0)
        elif positive.shape[1] > 1:
            slopes = slopes / positive.shape[1]
        of_least = (g * floored).sum() if ctx.needs_input_grad[2] and ctx.share is None else None
        return rows[:, 0], slopes, of_least, *[None] * 7


def _mean_last(values: Float[Tensor, "*shape column"]) -> Float[Tensor, "*shape"]:
    """The mean over the last axis, which of one column is that column."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values.mean(dim=-1)


def _least_softplus(lowest: float | Float[Tensor, ""]) -> float | Float[Tensor, ""]:
    """Softplus of the least logit."""
    return softplus(lowest) if isinstance(lowest, torch.Tensor) else math.log1p(math.exp(lowest))


def softplus(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log(1 + exp(x)); torch's own turns linear at 20, where float64 still sees the difference."""
    return F.softplus(x, threshold=40.0)


OBJECTIVES: dict[str, Objective] = {"infonce": InfoNCE(), "jensen_shannon": JensenShannon()}


def summarise(comparison: Comparison, correction: Correction, objective: Objective) -> Summary:
    """Average the unlabelled samples of a comparison that is held in memory."""
    log_weights, met = normalised_log_weights(correction, comparison)
    average = objective.average(comparison.visible, log_weights)
    if comparison.mask is not None or not correction.is_tilted:  # An anchor that meets nobody has an average of 0.
        average = torch.where(met > 0, average, 0.0)
    positive, weight = comparison.positive, comparison.positive_mask
    if (extra := correction.extra_positives(comparison)) is not None:
        positive, weight = with_extra_positives(
            positive, weight, comparison.unlabelled.gather(1, extra.place), _counting_weight(extra, comparison)
        )
    return Summary(
        positive=positive,
        positive_weight=weight,
        unlabelled=average,
        count=correction.count(met, comparison.drawn),
        lowest=comparison.lowest,
        temperature=comparison.temperature,
        unlabelled_similarity=comparison.unlabelled_similarity(),
    )


def with_extra_positives(
    positive: Float[Tensor, "anchor positive"],
    positive_mask: Bool[Tensor, "anchor positive"] | None,
    extra: Float[Tensor, "anchor extra"],
    extra_weight: Float[Tensor, "anchor extra"],
) -> tuple[Float[Tensor, "anchor all"], Float[Tensor, "anchor all"]]:
    """Logits and weights of the given positives, which count 1 each, and of the extra ones."""
    given = torch.ones_like(positive) if positive_mask is None else positive_mask.to(positive.dtype)
    return torch.cat([positive, extra], dim=1), torch.cat([given, extra_weight], dim=1)


def _counting_weight(extra: ExtraPositives, comparison: Comparison) -> Float[Tensor, "anchor extra"]:
    """The weights of extra positives, 0 where the comparison leaves a pair out."""
    weight = extra.weight.detach().to(comparison.positive.dtype)
    return weight if comparison.mask is None else weight * comparison.mask.gather(1, extra.place)


def as_similarity(logit: Float[Tensor, ""], temperature: float | Float[Tensor, ""]) -> Float[Tensor, ""]:
    """What was divided by the temperature."""
    return logit if isinstance(temperature, float) and temperature == 1 else logit * temperature


def conclude(summary: Summary, correction: Correction, objective: Objective, floor: Floor = "auto") -> Outcome:
    """The last step, shared by every way of averaging: correct, floor, and take the loss."""
    floor = resolve_floor(floor, summary, objective)
    odds = correction.odds.detach() if isinstance(correction.odds, Tensor) else correction.odds
    losses, floored = objective.losses(summary, odds, floor)
    positive = summary.positive.detach()
    # A group is one anchor, however many stand for others in it.
    weight = None if summary.member is not None else summary.copies
    if summary.positive_weight is None:
        similarity = positive.mean()
    else:
        present = summary.positive_weight.sum()
        similarity = weighted(positive, summary.positive_weight).sum() / torch.where(present > 0, present, 1)
    if summary.positive_weight is not None or summary.present is not None:
        learns = summary.positives() > 0  # Without a positive an anchor has nothing to learn, and nothing to report.
        losses = torch.where(learns, losses, 0.0)
        weight = torch.where(learns, 1.0 if weight is None else weight, 0.0)
    if weight is None:
        at_floor = floored.mean(dtype=losses.dtype)
    else:
        at_floor = (floored * weight).sum() / weight.sum().clamp_min(1)
    return Outcome(
        loss=losses,
        floored=at_floor,
        tau_plus=correction.tau_plus,
        positive_similarity=as_similarity(similarity, summary.temperature),
        unlabelled_similarity=summary.unlabelled_similarity,
        floor=floor,
    )


def resolve_floor(floor: Floor, summary: Summary, objective: Objective) -> Floor:
    """The floor that ``"auto"`` means here; any other floor is returned as it is.

    With InfoNCE an anchor at the floor loses its loss and its gradient by a factor of about exp(-1/t). That is harmless
    at a temperature of 0.5 and total at 0.05. Below `LOW_TEMPERATURE`, and for scores without a lowest value, the floor
    is therefore a share of the unlabelled mean. Jensen-Shannon keeps learning from positives at its floor.
    """
    if floor != "auto":
        return floor
    if not isinstance(objective, InfoNCE):
        return "temperature"
    if isinstance(summary.temperature, torch.Tensor):
        return "auto"
    return LOW_SHARE if summary.temperature < LOW_TEMPERATURE or summary.lowest == -math.inf else "temperature"


def check_floor(floor: object, objective: str = "infonce") -> None:
    """Refuse what is no floor, or none of this objective."""
    if floor == "paper" and objective != "infonce":
        raise ValueError(f"floor 'paper' is exp(-1), which the paper has for InfoNCE alone, got it for {objective}")
    if isinstance(floor, str):
        fits = floor in ("auto", "temperature", "paper")
    else:
        fits = isinstance(floor, Real) and 0 < float(floor) < 1
    if not fits:
        raise ValueError(
            f"floor is below what an estimate over negatives cannot fall: expected 'auto', 'temperature', 'paper', or "
            f"a share of the unlabelled mean between 0 and 1, got {floor!r}"
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
