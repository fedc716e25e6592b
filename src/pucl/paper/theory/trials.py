"""All losses on the same anchors, so that nothing else differs between them."""

from dataclasses import dataclass, replace

import torch

from pucl.contrast.loss import outcome_of
from pucl.contrast.objective import softplus
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Plain
from pucl.functional import pair_up
from pucl.paper.theory.world import World
from pucl.shapes import Float, Tensor


@dataclass(frozen=True, kw_only=True)
class Anchors:
    """Anchors with all samples that the losses of all rows need. All rows and losses share them."""

    anchor: Float[Tensor, "anchor 3"]
    positive: Float[Tensor, "anchor positive 3"]
    negative: Float[Tensor, "anchor unlabelled 3"]  # As many per anchor as the largest N.
    hidden: Float[Tensor, "anchor unlabelled 3"]  # Positives, in place of negatives where a positive is hidden.
    lot: Float[Tensor, "anchor unlabelled"]  # Uniform. A sample is a hidden positive if its number is below tau'.

    @classmethod
    def draw(cls, world: World, count: int, *, positives: int, most: int, generator: torch.Generator) -> "Anchors":
        """Draw anchors, each with the given numbers of positives and of unlabelled samples."""
        return cls(
            anchor=world.sample_positives(count, generator=generator),
            positive=world.sample_positives(count, positives, generator=generator),
            negative=world.sample_negatives(count, most, generator=generator),
            hidden=world.sample_positives(count, most, generator=generator),
            lot=torch.rand(count, most, dtype=torch.float64, generator=generator),
        )

    def unlabelled(self, count: int, tau_plus: float) -> Float[Tensor, "anchor count 3"]:
        """Samples of p^u. A share tau' of them is positive."""
        is_hidden = self.lot[:, :count, None] < tau_plus
        return torch.where(is_hidden, self.hidden[:, :count], self.negative[:, :count])


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The losses of one row, for each anchor. Controls are functions of the samples whose expectation is zero."""

    losses: Float[Tensor, "anchor 5"]  # Ideal, standard, exact, corrected with one positive and with several.
    controls: Float[Tensor, "anchor control"]  # Of positives and negatives.
    unlabelled_controls: Float[Tensor, "anchor unlabelled_control"]
    floored: Float[Tensor, "anchor 2"]  # Share with one positive and with several, the same for each anchor.


def run_trials(anchors: Anchors, world: World, correction: PUCL, unlabelled: int, temperature: float) -> Trials:
    """All losses of one row on these anchors, and controls that remove most of their noise.

    A sum of h over N samples varies around an expectation that is known here. To first order, a loss varies with this
    sum. After this part is removed, the remaining noise is of order 1/N, like the biases themselves.
    """
    mean_positive, mean_negative = world.mean_h(anchors.anchor, temperature)
    tau_plus = correction.tau_plus
    mean_unlabelled = (1 - tau_plus) * mean_negative + tau_plus * mean_positive

    def pairs(samples: Float[Tensor, "anchor sample 3"]) -> Pairs:
        return pair_up(anchors.anchor, anchors.positive, samples, temperature=temperature, normalize=False)

    negatives = pairs(anchors.negative[:, :unlabelled])
    several = pairs(anchors.unlabelled(unlabelled, tau_plus))
    one = replace(several, positive=several.positive[:, :1])
    ideal = outcome_of(negatives, Plain(), streaming=False)
    standard = outcome_of(several, Plain(), streaming=False)
    corrected_several = outcome_of(several, correction, floor="temperature", streaming=False)
    corrected_one = outcome_of(one, correction, floor="temperature", streaming=False)

    log_sum = (unlabelled * mean_negative).log()[:, None]
    exact_of_each = softplus(log_sum - several.positive)
    exact = exact_of_each.mean(dim=1)
    # The corrected loss with one positive is compared with the exact loss of that positive. The expectation of the
    # exact loss is the same for all positives.
    corrected_one_loss = corrected_one.loss - exact_of_each[:, 0] + exact

    # The derivative of the loss with respect to the logarithm of the sum.
    slope = torch.sigmoid(log_sum - several.positive).mean(dim=1)
    h_positive = several.positive.exp()
    excess_one, excess_several = h_positive[:, 0] - mean_positive, h_positive.mean(dim=1) - mean_positive
    excess_negative, excess_unlabelled = _mean_h(negatives) - mean_negative, _mean_h(several) - mean_unlabelled
    controls = [
        slope * excess_negative / mean_negative,
        excess_one / mean_positive,
        excess_one / mean_negative,
        excess_several / mean_positive,
        excess_several / mean_negative,
    ]
    unlabelled_controls = [slope * excess_unlabelled / mean_unlabelled, slope * excess_unlabelled / mean_negative]
    losses = [ideal.loss, standard.loss, exact, corrected_one_loss, corrected_several.loss]
    return Trials(
        losses=torch.stack(losses, dim=1),
        controls=torch.stack(controls, dim=1),
        unlabelled_controls=torch.stack(unlabelled_controls, dim=1),
        floored=torch.stack([corrected_one.floored, corrected_several.floored]).expand(len(exact), 2),
    )


def _mean_h(pairs: Pairs) -> Float[Tensor, " anchor"]:
    return pairs.comparison().unlabelled.exp().mean(dim=1)
