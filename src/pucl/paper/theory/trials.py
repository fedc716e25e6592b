"""All losses on the same anchors, so that they differ in nothing but themselves."""

from dataclasses import dataclass, replace

import torch

from pucl.contrast.compare import compare
from pucl.contrast.objectives import softplus
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Plain
from pucl.functional import pair_up
from pucl.paper.theory.world import World
from pucl.shapes import Float, Tensor


@dataclass(frozen=True, kw_only=True)
class Anchors:
    """Some anchors with all that any loss of any row needs, so that rows and losses differ in nothing but themselves.

    Args:
        anchor: x, of the anchor's class.
        positive: M+ positives each.
        negative: As many true negatives each as the largest N.
        hidden: Positives that take the place of a negative where the unlabelled sample is a hidden positive.
        lot: Uniform numbers; the sample is a hidden positive where they are below tau'.
    """

    anchor: Float[Tensor, "anchor 3"]
    positive: Float[Tensor, "anchor positive 3"]
    negative: Float[Tensor, "anchor unlabelled 3"]
    hidden: Float[Tensor, "anchor unlabelled 3"]
    lot: Float[Tensor, "anchor unlabelled"]

    def unlabelled(self, count: int, tau_plus: float) -> Float[Tensor, "anchor count 3"]:
        """Samples of p^u, of which a share tau' is positive."""
        is_hidden = self.lot[:, :count, None] < tau_plus
        return torch.where(is_hidden, self.hidden[:, :count], self.negative[:, :count])


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The losses of one row, anchor by anchor.

    Args:
        losses: Ideal, standard, exact, corrected with one positive, corrected with several.
        controls: Quantities of the positives and negatives whose expectation is known to be zero.
        unlabelled_controls: The same of the unlabelled samples.
        floored: The share of anchors at the floor, with one positive and with several, for each anchor.
    """

    losses: Float[Tensor, "anchor 5"]
    controls: Float[Tensor, "anchor control"]
    unlabelled_controls: Float[Tensor, "anchor unlabelled_control"]
    floored: Float[Tensor, "anchor 2"]


def run_trials(anchors: Anchors, world: World, correction: PUCL, unlabelled: int, temperature: float) -> Trials:
    """All losses of one row on these anchors, and the controls that take most of the noise out of them.

    A sum of h over N samples wavers about an expectation that is known here, and to first order a loss wavers with
    it. What is left when that part is removed is of order 1/N, like the biases that are to be seen.
    """
    mean_positive, mean_negative = world.mean_h(anchors.anchor, temperature)
    tau_plus = correction.tau_plus
    mean_unlabelled = (1 - tau_plus) * mean_negative + tau_plus * mean_positive

    def pairs(samples: Float[Tensor, "anchor sample 3"]) -> Pairs:
        return pair_up(anchors.anchor, anchors.positive, samples, temperature=temperature, normalize=False)

    negatives = pairs(anchors.negative[:, :unlabelled])
    several = pairs(anchors.unlabelled(unlabelled, tau_plus))
    one = replace(several, positive=several.positive[:, :1])
    ideal = compare(negatives, Plain(), streaming=False)
    standard = compare(several, Plain(), streaming=False)
    corrected_several = compare(several, correction, floor="temperature", streaming=False)
    corrected_one = compare(one, correction, floor="temperature", streaming=False)

    log_sum = (unlabelled * mean_negative).log()[:, None]
    exact_of_each = softplus(log_sum - several.positive)
    exact = exact_of_each.mean(dim=1)
    # The corrected loss with one positive is measured against the exact one with that positive; in expectation the
    # exact loss is the same for all positives.
    corrected_one_loss = corrected_one.loss - exact_of_each[:, 0] + exact

    # How much of log(h+ + sum) is the sum's: the slope with which a loss follows it.
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
