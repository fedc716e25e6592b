"""Pairs in, losses out: `outcome_of` is the one function that every loss of pucl calls.

The unlabelled samples of each anchor are averaged, from a matrix of all logits or by `streaming`. The objective then
corrects the averages, applies the floor and takes the loss.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch

from pucl.contrast.attraction import Classified
from pucl.contrast.averages import Averages, pool, weighted
from pucl.contrast.brief import brief_repr
from pucl.contrast.correction import Correction, StateReport
from pucl.contrast.knowledge import check_form
from pucl.contrast.objective import Floor, Objective, average_unlabelled
from pucl.contrast.objectives import OBJECTIVES, check_floor
from pucl.contrast.pairs import Classes, Pairs
from pucl.contrast.streaming import BLOCKS_PAY_FROM, pair_counts, stream, streaming_pays
from pucl.contrast.streaming.blocks import BlockResults, in_blocks
from pucl.precision import full_precision
from pucl.shapes import Float, Tensor

ObjectiveName = Literal["infonce", "jensen_shannon"]
Reduction = Literal["mean", "sum", "none"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome:
    """The losses of all anchors, and numbers to judge them by.

    Args:
        loss: One value per anchor.
        floored: Share of the anchors whose estimate over negatives is at the floor. With an absolute floor, these
            anchors learn nothing from their negatives.
        tau_plus: tau', the share of hidden positives that the correction assumes among the unlabelled. A tensor (the
            mean over the anchors) if the correction assumes another share for each anchor.
        positive_similarity: Mean similarity of the positive pairs.
        unlabelled_similarity: Mean similarity of the unlabelled pairs.
        floor: The floor that was used. It is still ``"auto"`` if the temperature is a tensor, whose value is not read.
        report: What a correction that learns reported at the end of the last epoch; None before.
    """

    loss: Float[Tensor, " anchor"]
    floored: Float[Tensor, ""]
    tau_plus: float | Float[Tensor, ""]
    positive_similarity: Float[Tensor, ""]
    unlabelled_similarity: Float[Tensor, ""]
    floor: Floor
    report: StateReport | None = None

    def __repr__(self) -> str:
        return brief_repr(self)


def outcome_of(
    pairs: Pairs,
    correction: Correction,
    *,
    objective: ObjectiveName = "infonce",
    floor: Floor = "auto",
    streaming: bool | None = None,
    expected: int | None = None,
) -> Outcome:
    """Average the unlabelled samples under a correction, and compute the loss of every anchor.

    The arguments are those of `pucl.functional.corrected_loss`, which also warns if most anchors are at the floor.
    """
    check_settings(correction, objective, floor)
    if correction.learns:
        raise ValueError(
            f"{type(correction).__name__} learns: expected the correction that its state returns for these pairs, got "
            f"its settings; use a ContrastiveLoss, or start(samples).read(pairs)"
        )
    form = OBJECTIVES[objective]
    if pairs.classes is not None:
        check_form(pairs.classes.form, objective)
        return _attract(pairs, pairs.classes, correction, form, floor, streaming)
    needs_enough_samples = type(correction).check_samples is not Correction.check_samples
    if needs_enough_samples and pairs.query.device.type == "cpu" and not torch.compiler.is_compiling():
        correction.check_samples(int(pair_counts(pairs).max()) if expected is None else expected)
    with full_precision(pairs.query.device):  # Under autocast, matrix products would use half precision.
        pairs = pairs.measured() if correction.tilt or correction.measures else pairs
        if streaming_pays(pairs, correction, form) if streaming is None else streaming:
            averages = stream(pairs, correction, form)
        else:
            averages = average_unlabelled(pairs.comparison(), correction, form)
        if pairs.group is not None:
            pooled, weight = pool(averages, pairs.group, pairs.copies)
            outcome = conclude(pooled, correction, form, floor)
            return replace(outcome, loss=outcome.loss * weight)
        if pairs.copies is None:
            return conclude(averages, correction, form, floor)
        copies = pairs.copies.to(averages.positive.dtype)
        outcome = conclude(replace(averages, copies=copies), correction, form, floor)
        return replace(outcome, loss=outcome.loss * (copies * (len(copies) / copies.sum())))


def _attract(
    pairs: Pairs,
    classes: Classes,
    correction: Correction,
    objective: Objective,
    floor: Floor,
    streaming: bool | None,
) -> Outcome:
    """The outcome of pairs that know their classes; see `pucl.contrast.attraction`."""
    if not correction.is_tilted or correction.tilt or isinstance(correction.odds, Tensor) or correction.odds:
        raise ValueError(
            f"pairs that know their classes need no correction: expected Plain, got {type(correction).__name__}"
        )

    def attract(block: Pairs) -> BlockResults:
        """The losses of these anchors; the sum of each anchor's unlabelled logits, and their number."""
        comparison, of_block = block.comparison(), block.classes or classes
        known = Classified.of(comparison, of_block)
        losses = torch.where(known.positives > 0, objective.attracted(known, of_block.form), 0.0)
        shown = weighted(known.logits.detach(), known.mask)
        return (losses,), (shown.sum(dim=1), comparison.count)

    anchors, unlabelled = pairs.shape
    with full_precision(pairs.query.device):
        if anchors * unlabelled >= BLOCKS_PAY_FROM if streaming is None else streaming:
            losses, logit_sum, count = in_blocks(pairs, attract)
        else:
            (losses,), (logit_sum, count) = attract(pairs)
    positive = pairs.positives().detach()
    if pairs.positive_mask is not None:
        positive = positive[pairs.positive_mask]
    if pairs.copies is not None:
        copies = pairs.copies.to(losses.dtype)
        losses = losses * (copies * (len(copies) / copies.sum()))
    return Outcome(
        loss=losses,
        floored=losses.new_zeros(()),
        tau_plus=0.0,
        positive_similarity=positive.mean() * pairs.temperature,
        unlabelled_similarity=logit_sum.sum() / count.sum().clamp_min(1) * pairs.temperature,
        floor=floor,
    )


def conclude(averages: Averages, correction: Correction, objective: Objective, floor: Floor = "auto") -> Outcome:
    """Correct the averages, apply the floor and compute the loss."""
    floor = objective.auto_floor(averages) if floor == "auto" else floor
    odds = correction.odds.detach() if isinstance(correction.odds, Tensor) else correction.odds
    losses, floored = objective.losses(averages, odds, floor, stop_gradient=correction.stop_gradient)
    # A group counts as one anchor in the floored share, whatever its size.
    weight = None if averages.member is not None else averages.copies
    if averages.positive_weight is not None or averages.present is not None or averages.mates is not None:
        learns = averages.positives() > 0  # An anchor without a positive has no loss.
        losses = torch.where(learns, losses, 0.0)
        weight = torch.where(learns, 1.0 if weight is None else weight, 0.0)
    if weight is None:
        share_floored = floored.mean(dtype=losses.dtype)
    else:
        share_floored = (floored * weight).sum() / weight.sum().clamp_min(1)
    return Outcome(
        loss=losses,
        floored=share_floored,
        tau_plus=correction.tau_plus,
        positive_similarity=averages.mean_positive() * averages.temperature,
        unlabelled_similarity=averages.unlabelled_similarity,
        floor=floor,
    )


def reduce(losses: Float[Tensor, " anchor"], reduction: Reduction) -> Float[Tensor, "*shape"]:
    """Mean, sum, or one value per anchor."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"reduction combines the anchors' losses: expected 'mean', 'sum' or 'none', got {reduction!r}")


def check_settings(correction: object, objective: str, floor: object) -> None:
    """Raise for anything but an instance of a correction, an unknown objective, or a floor that it does not have."""
    if not isinstance(correction, Correction):
        raise TypeError(
            f"correction says how to treat unlabelled samples: expected a Correction, got {correction!r}; "
            f"pucl.corrections has them"
        )
    if objective not in OBJECTIVES:
        raise ValueError(f"objective is the form of the loss: expected one of {sorted(OBJECTIVES)}, got {objective!r}")
    check_floor(floor, objective)
