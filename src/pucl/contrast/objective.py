"""What an objective is: a function g of a logit, its average over the unlabelled samples, and the loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F

from pucl.contrast.attraction import Classified
from pucl.contrast.averages import Averages
from pucl.contrast.correction import Correction
from pucl.contrast.pairs import AttractingForm, Comparison, Pairs
from pucl.shapes import Bool, Float, Tensor

Floor = Literal["auto", "temperature", "paper"] | float
"""The lower limit of the estimate over negatives.

- ``"temperature"``: the least possible value of g, g(lowest logit); exp(-1/t) for cosines.
- ``"paper"``: exp(-1), as printed in the paper, which has no temperature.
- a number 0 < rho < 1: that share of the average over the unlabelled samples. An anchor at this floor still pushes its
  unlabelled samples away.
- ``"auto"``: ``"temperature"``, but for InfoNCE below a temperature of 0.25 the share 0.1; see `Objective.auto_floor`.
"""


class TileSums(NamedTuple):
    """Averages over the unlabelled samples, from logits that were summed tile by tile and not kept.

    Args:
        average: The average of g over the unlabelled samples of each anchor; for InfoNCE its logarithm.
        met: Number of unlabelled samples of each anchor.
        logit_sum: Sum of the logits of all pairs.
        positive: Logits of the positives, if they were among the tiles; None if they are not computed yet.
        weighed: As `met`, but 0 for an anchor whose weights are all zero; None if that cannot be.
    """

    average: Float[Tensor, " anchor"]
    met: Float[Tensor, " anchor"]
    logit_sum: Float[Tensor, ""]
    positive: Float[Tensor, "anchor positive"] | None = None
    weighed: Float[Tensor, " anchor"] | None = None


@dataclass(frozen=True)
class Tiling:
    """A way to sum tile by tile; `pucl.contrast.streaming` has one a file.

    Args:
        sums: Returns the sums, from pairs and a correction.
        pays_from: Number of logits from which it is faster than a matrix; see `python -m benchmarks loss`.
    """

    sums: Callable[[Pairs, Correction], TileSums]
    pays_from: int


@runtime_checkable
class Objective(Protocol):
    """How the loss is computed from logits. `pucl.contrast.objectives` has the table of them."""

    floors: tuple[str, ...]
    """The floors that it has, beside a share of the unlabelled mean."""

    relative: bool
    """Whether a number that is added to all logits changes nothing."""

    forms: tuple[AttractingForm, ...]
    """The losses that it has for known classes; see `pucl.contrast.attraction`."""

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """The weighted mean of g(logit), or its logarithm. The weights of an anchor sum to one."""
        ...

    def tiling(self, pairs: Pairs, correction: Correction) -> Tiling | None:
        """How these pairs are summed tile by tile; None if they cannot be."""
        ...

    def losses(
        self,
        averages: Averages,
        odds: float | Float[Tensor, " row"],
        floor: Floor,
        *,
        stop_gradient: bool = False,
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """Loss of every anchor, and whether its estimate over negatives is at the floor.

        Args:
            averages: Positive logits, and averages over the unlabelled samples. If anchors stand for groups, both have
                a row for each member, and are averaged here.
            odds: Hidden positives per true negative.
            floor: Any floor, after `auto_floor` was asked what ``"auto"`` means.
            stop_gradient: Whether the subtracted mean over positives is a constant for the gradient.
        """
        ...

    def auto_floor(self, averages: Averages) -> Floor:
        """The floor that ``"auto"`` means here."""
        ...

    def attracted(self, known: Classified, form: AttractingForm) -> Float[Tensor, " anchor"]:
        """Loss of every anchor if the classes are known; see `pucl.contrast.attraction`."""
        ...


def average_unlabelled(comparison: Comparison, correction: Correction, objective: Objective) -> Averages:
    """Average the unlabelled samples of each anchor, with the weights of the correction."""
    log_weights, met = correction.normalised_log_weights(comparison)
    average = objective.average(comparison.visible, log_weights)
    similarity = comparison.unlabelled.detach()
    mask, positive, weight = comparison.mask, comparison.positive, comparison.positive_mask
    if mask is None:
        similarity = similarity.mean()
    else:
        similarity = similarity.masked_fill(~mask, 0.0).sum() / comparison.count.sum().clamp_min(1)
    if mask is not None or not correction.is_tilted:  # An anchor without samples has an average of 0.
        average = torch.where(met > 0, average, 0.0)
    if (extra := correction.extra_positives(comparison)) is not None:
        extra_weight = extra.weight.detach().to(positive.dtype)
        if mask is not None:
            extra_weight = extra_weight * mask.gather(1, extra.indices)
        given = torch.ones_like(positive) if weight is None else weight.to(positive.dtype)
        weight = torch.cat([given, extra_weight], dim=1)
        positive = torch.cat([positive, comparison.unlabelled.gather(1, extra.indices)], dim=1)
    return Averages(
        positive=positive,
        positive_weight=weight,
        unlabelled=average,
        count=correction.count(met, comparison.drawn),
        lowest=comparison.lowest,
        temperature=comparison.temperature,
        unlabelled_similarity=similarity * comparison.temperature,
    )


def softplus(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log(1 + exp(x)). torch's own is linear above 20, which is too early for float64."""
    return F.softplus(x, threshold=40.0)
