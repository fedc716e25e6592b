"""InfoNCE and Jensen-Shannon, the two objectives. `pucl.contrast.objective` says what an objective is."""

import math
from numbers import Real
from typing import Any

import torch

from pucl.contrast.attraction import Classified
from pucl.contrast.averages import Averages, sum_groups, times
from pucl.contrast.correction import Correction
from pucl.contrast.embeddings import with_signature
from pucl.contrast.objective import Floor, Objective, Tiling, softplus
from pucl.contrast.pairs import AttractingForm, Pairs, without_bound
from pucl.contrast.streaming import exponentials, rows, tabled
from pucl.contrast.streaming import softplus as softplus_tiles
from pucl.shapes import Bool, Float, Tensor

LOW_TEMPERATURE = 0.25  # Below it, exp(-1/t) is less than 1/50 of a usual mean, and a floored anchor stops learning.
LOG_HALF = -math.log(2.0)
LOW_SHARE = 0.1  # About the ratio of exp(-1/t) to the unlabelled mean at the usual temperature of 0.5.


class InfoNCE:
    r"""g = exp, in log space: :math:`-\log \frac{e^p}{e^p + N \mu}` with :math:`\mu = \max(E^-[\exp], \text{floor})`.

    With several positives, :math:`\mu` uses the mean of them all and the loss is averaged over them.
    """

    relative = True
    floors: tuple[str, ...] = ("auto", "temperature", "paper")
    forms: tuple[AttractingForm, ...] = ("sincere", "supcon")

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """Log of the weighted mean of exp(logit)."""
        return torch.logsumexp(logits + log_weights, dim=1)

    def tiling(self, pairs: Pairs, correction: Correction) -> Tiling | None:
        """Sums of exponentials, if the weights are exponentials too or a table over similarities."""
        if correction.is_tilted and pairs.shared:
            return exponentials.TILING
        return tabled.TILING if correction.weight_table is not None and tabled.fit(pairs) else None

    def losses(
        self,
        averages: Averages,
        odds: float | Float[Tensor, " row"],
        floor: Floor,
        *,
        stop_gradient: bool = False,
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """Loss of every anchor, and whether its estimate over negatives is at the floor; see `Objective.losses`."""
        log_average = averages.log_mean_unlabelled()
        log_floor = self._log_floor(averages, log_average, floor).reshape(-1)
        known = averages.without_gradient_of_positives() if stop_gradient else averages
        if isinstance(odds, Tensor):
            log_added, log_taken = averages.log_mean_unlabelled(odds.log1p()), known.log_mean_positive(odds.log())
            log_mean, floored = corrected_log_mean(log_added, log_taken, log_floor, averages.any_row(odds > 0))
        elif odds:
            log_added, log_taken = math.log1p(odds) + log_average, math.log(odds) + known.log_mean_positive()
            log_mean, floored = corrected_log_mean(log_added, log_taken, log_floor)
        else:  # Nothing is subtracted, so no floor is needed.
            log_mean, floored = log_average, torch.zeros_like(log_average, dtype=torch.bool)
        some = averages.count > 0
        log_negatives = averages.for_rows(torch.where(some, averages.count, 1.0).log() + log_mean)
        # -log(e^p / (e^p + e^n)) = softplus(n - p): exact at both ends, where the quotient is not.
        losses = averages.over_positives(lambda positive, negatives: softplus(negatives - positive), log_negatives)
        return torch.where(some, losses, 0.0), floored & some

    @staticmethod
    def _log_floor(
        averages: Averages, log_average: Float[Tensor, " anchor"], floor: Floor
    ) -> Float[Tensor, ""] | Float[Tensor, " anchor"]:
        if floor == "paper":
            return log_average.new_tensor(-1.0)
        lowest = torch.as_tensor(averages.lowest, dtype=log_average.dtype, device=log_average.device)
        if floor == "temperature":
            return lowest
        if floor == "auto":  # The temperature is a tensor: the device decides, without a synchronisation.
            low = torch.as_tensor(averages.temperature, device=log_average.device) < LOW_TEMPERATURE
            return torch.where(low, log_average + math.log(LOW_SHARE), lowest)
        return log_average + math.log(floor)

    def auto_floor(self, averages: Averages) -> Floor:
        """``"temperature"``; at a low temperature, and for scores without a lowest value, a share of the mean.

        Loss and gradient of an anchor at the floor shrink by a factor of about exp(-1/t). That is harmless at a
        temperature of 0.5, but at 0.05 nothing is left. The result is ``"auto"`` if the temperature is a tensor, whose
        value is not read: `losses` decides then.
        """
        if without_bound(averages.lowest):
            return LOW_SHARE
        if isinstance(averages.temperature, Tensor):
            return "auto"
        return LOW_SHARE if averages.temperature < LOW_TEMPERATURE else "temperature"

    def attracted(self, known: Classified, form: AttractingForm) -> Float[Tensor, " anchor"]:
        """SINCERE or SupCon."""
        given, logits = known.given, known.logits
        if form == "supcon":
            return known.log_sum_of_all() - known.over_positives(given, logits)
        log_sum, some = known.log_sum_of_others()
        losses = known.over_positives(softplus(log_sum - given), softplus(log_sum - logits))
        return torch.where(some, losses, 0.0)


class JensenShannon:
    r"""g = softplus: :math:`\mathrm{mean}_j\, \mathrm{softplus}(-p_j) + \max(E^-[\mathrm{softplus}], \text{floor})`.

    InfoGraph's objective. Its floor is the least value of softplus, which is 0 for scores without bound. Without a
    floor the loss could fall to minus infinity.
    """

    relative = False
    floors: tuple[str, ...] = ("auto", "temperature")
    forms: tuple[AttractingForm, ...] = ("sincere",)

    def average(
        self, logits: Float[Tensor, "anchor unlabelled"], log_weights: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """Weighted mean of softplus(logit)."""
        return (softplus(logits) * log_weights.exp()).sum(dim=1)

    def tiling(self, pairs: Pairs, correction: Correction) -> Tiling | None:
        """Sums of softplus, if the weights are exponentials."""
        if not (correction.is_tilted and pairs.shared):
            return None
        return rows.TILING if rows.fit(pairs) else softplus_tiles.TILING

    def losses(
        self,
        averages: Averages,
        odds: float | Float[Tensor, " row"],
        floor: Floor,
        *,
        stop_gradient: bool = False,
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """Loss of every anchor, and whether its estimate over negatives is at the floor; see `Objective.losses`."""
        lowest, mask, counts = averages.lowest, averages.positive_weight, None
        least = softplus(lowest) if isinstance(lowest, Tensor) else math.log1p(math.exp(lowest))
        share = None if isinstance(floor, str) else floor
        soft = mask is not None and mask.dtype != torch.bool
        if isinstance(odds, Tensor) or soft or averages.mates is not None or (stop_gradient and odds):
            return self._weighted_losses(averages, odds, least, share, stop_gradient=stop_gradient)
        if mask is not None:
            positives = averages.positives()
            sizes = torch.ones_like(positives) if averages.sizes is None else averages.sizes
            counts = torch.stack([sizes, positives, positives], dim=1).clamp_min_(1)
        elif averages.sizes is not None:
            counts = (averages.sizes if averages.present is None else averages.sizes.clamp_min(1))[:, None]
        losses: Tensor
        floored: Tensor
        losses, floored, _ = _JensenShannonLosses.apply(  # type: ignore[no-untyped-call]
            averages.unlabelled,
            averages.positive,
            least,
            mask,
            averages.member,
            averages.copies,
            counts,
            averages.count > 0,
            odds,
            share,
        )
        return losses, floored

    @staticmethod
    def _weighted_losses(
        averages: Averages,
        odds: float | Float[Tensor, " row"],
        least: float | Float[Tensor, ""],
        share: float | None,
        *,
        stop_gradient: bool,
    ) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
        """The same for odds that differ between rows, weighted positives, mates, or a stopped gradient."""
        odds = torch.as_tensor(odds, dtype=averages.positive.dtype, device=averages.positive.device)
        odds = odds.expand(len(averages.positive))
        added = averages.over_rows((1 + odds) * averages.unlabelled)
        known = averages.without_gradient_of_positives() if stop_gradient else averages
        taken = known.over_positives(lambda positive, odds: odds * softplus(positive), odds)
        floor = least if share is None else share * averages.over_rows(averages.unlabelled)
        negatives, floored = corrected_mean(added, taken, floor)
        corrects, some = averages.any_row(odds > 0), averages.count > 0
        negatives = torch.where(some, torch.where(corrects, negatives, added), 0.0)
        attracted = averages.over_positives(lambda positive: softplus(-positive))
        return attracted + negatives, floored & some & corrects

    def auto_floor(self, averages: Averages) -> Floor:  # noqa: ARG002 (the same for all)
        """``"temperature"``: an anchor at the floor still learns from its positives."""
        return "temperature"

    def attracted(self, known: Classified, form: AttractingForm) -> Float[Tensor, " anchor"]:  # noqa: ARG002 (one form)
        """Softplus of all positives and of the samples of other classes."""
        negative = known.mean_over_others(softplus(known.logits))
        return known.over_positives(softplus(-known.given), softplus(-known.logits)) + negative


class _JensenShannonLosses(torch.autograd.Function):
    r"""The loss of each anchor, whether it is at the floor, and whether it learns from its negatives.

    Let A, P and Q be the means over an anchor's rows of the averages, of softplus(p) and of softplus(-p). The loss is
    :math:`Q + \max((1 + \omega) A - \omega P, \text{floor})`.

    The gradient is written by hand: for a small batch of graphs, the many small operations of autograd would take most
    of the time.
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
        """The floor is `least`, or the `share` of A. The sums for A, P and Q are divided by `counts`.

        Without a mask the positives of a row are averaged first, and `counts` are numbers of rows. The last output,
        whether an anchor learns from its negatives, is for the backward pass alone.
        """
        both = softplus(torch.stack([positive, -positive]))
        both = both.mean(dim=2) if mask is None else both.masked_fill(~mask, 0.0).sum(dim=2)
        rows = torch.cat([unlabelled[None], both]).T
        if member is not None:
            rows = sum_groups(times(rows, copies), member, len(some))
        average, above, below = (rows if counts is None else rows / counts).unbind(1)
        if odds == 0:  # Nothing is subtracted, so no floor is needed.
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


OBJECTIVES: dict[str, Objective] = {"infonce": InfoNCE(), "jensen_shannon": JensenShannon()}


def check_floor(floor: object, objective: str = "infonce") -> None:
    """Raise for a floor that does not exist, or not for this objective."""
    if floor == "paper" and floor not in OBJECTIVES[objective].floors:
        raise ValueError(
            f"floor 'paper' is exp(-1), the paper's floor for InfoNCE: expected objective 'infonce', got {objective!r}"
        )
    if isinstance(floor, str):
        fits = floor in ("auto", "temperature", "paper")
    else:
        fits = isinstance(floor, Real) and 0 < float(floor) < 1
    if not fits:
        raise ValueError(
            f"floor is the lower limit of the estimate over negatives: expected 'auto', 'temperature', 'paper', or "
            f"a share of the unlabelled mean between 0 and 1, got {floor!r}"
        )


def corrected_log_mean(
    log_added: Float[Tensor, " anchor"],
    log_taken: Float[Tensor, " anchor"],
    log_floor: Float[Tensor, "#anchor"],
    corrects: Bool[Tensor, " anchor"] | None = None,
) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
    r"""Log E^-[g] from the logarithms of its two terms.

    With :math:`x = \log \frac{\omega P}{(1 + \omega) A}`,
    :math:`\log E^- = \log\big((1 + \omega) A\big) + \log(1 - e^x)`, which exists only for x < 0.

    Args:
        log_added: Log of (1 + omega) A.
        log_taken: Log of omega P; ignored where omega is 0.
        log_floor: Log of the floor.
        corrects: True where omega is not 0, so that the floor can apply. None: everywhere.
    """
    x = log_taken - log_added
    # Anchors at the floor get a harmless x before the logarithm. A `where` after it would multiply their zero gradient
    # by an infinite slope and give NaN.
    with torch.no_grad():
        above = (x < 0) & (log_added + _log1mexp(x.clamp_max(-torch.finfo(x.dtype).tiny)) > log_floor)
        # NaN is not above the floor either, but it must stay visible in the loss.
        floored = ~above & ~x.isnan()
        if corrects is not None:
            floored &= corrects
    if corrects is None:
        log_mean = log_added + _log1mexp(torch.where(floored, -1.0, x))
    else:
        log_share = _log1mexp(torch.where(floored | ~corrects, -1.0, x))
        log_mean = log_added + torch.where(corrects, log_share, 0.0)
    return torch.where(floored, log_floor, log_mean), floored


def corrected_mean(
    added: Float[Tensor, " anchor"],
    taken: Float[Tensor, " anchor"],
    floor: float | Float[Tensor, "#anchor"],
) -> tuple[Float[Tensor, " anchor"], Bool[Tensor, " anchor"]]:
    """E^-[g] from its two terms (1 + omega) A and omega P, for functions g that need no log space."""
    mean = added - taken
    floored = mean <= floor
    return torch.where(floored, floor, mean), floored


def _log1mexp(x: Float[Tensor, " anchor"]) -> Float[Tensor, " anchor"]:
    """log(1 - exp(x)) for x < 0, exact at both ends."""
    near_zero = x > LOG_HALF
    # Each branch gets only arguments at which its slope is finite.
    small = torch.log(-torch.expm1(torch.where(near_zero, x, LOG_HALF)))
    large = torch.log1p(-torch.exp(torch.where(near_zero, LOG_HALF, x)))
    return torch.where(near_zero, small, large)
