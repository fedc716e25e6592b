r"""False negatives attracted: losses that know the classes, SINCERE and SupCon.

An anchor's positives are its given ones and its *mates*, the unlabelled samples of its own class. With P for the logits
of them all and :math:`u_k` for those of the samples of other classes,

.. math:: \text{SINCERE:}\ \mathrm{mean}_{p \in P} -\log \frac{e^p}{e^p + \sum_k e^{u_k}}, \qquad
          \text{SupCon:}\ \mathrm{mean}_{p \in P} -\log \frac{e^p}{\sum_{q \in P} e^q + \sum_k e^{u_k}}.

In SupCon the positives of an anchor push each other away; in SINCERE they do not. The Jensen-Shannon form is
:math:`\mathrm{mean}_{p \in P}\, \mathrm{softplus}(-p) + \mathrm{mean}_k\, \mathrm{softplus}(u_k)`.

Nothing is estimated here, so there is no floor, and groups of anchors have no estimate to share.
"""

import torch

from pucl.contrast.averages import weighted
from pucl.contrast.objectives import JensenShannon, Objective, softplus
from pucl.contrast.pairs import Classes, Pairs
from pucl.contrast.streaming.blocks import Results, in_blocks
from pucl.shapes import Float, Tensor


def attracted_losses(
    pairs: Pairs, classes: Classes, objective: Objective, *, streaming: bool
) -> tuple[Float[Tensor, " anchor"], Float[Tensor, ""]]:
    """The loss of each anchor, and the mean similarity of the unlabelled pairs.

    Args:
        pairs: Anchors, given positives and unlabelled samples.
        classes: Classes of anchors and unlabelled samples.
        objective: InfoNCE or Jensen-Shannon.
        streaming: Compute by blocks of anchors, in memory linear in their number.
    """
    if streaming:
        losses, logit_sum, count = in_blocks(pairs, lambda block: _attract(block, block.classes or classes, objective))
    else:
        (losses,), (logit_sum, count) = _attract(pairs, classes, objective)
    return losses, logit_sum.sum() / count.sum().clamp_min(1) * pairs.temperature


def _attract(pairs: Pairs, classes: Classes, objective: Objective) -> Results:
    """The losses of these anchors; the sum of each anchor's unlabelled logits, and their number."""
    comparison = pairs.comparison()
    given, logits, mask = comparison.positive, comparison.unlabelled, comparison.mask
    same = classes.query[:, None] == classes.key
    mates, others = (same, ~same) if mask is None else (same & mask, ~same & mask)
    known = pairs.positive_mask
    positives = mates.sum(dim=1) + (given.shape[1] if known is None else known.sum(dim=1))
    some = others.any(dim=1)

    def over_positives(of_given: Tensor, of_mates: Tensor) -> Tensor:
        total = weighted(of_given, known).sum(dim=1) + of_mates.masked_fill(~mates, 0.0).sum(dim=1)
        return total / positives.clamp_min(1)

    if isinstance(objective, JensenShannon):
        negative = softplus(logits).masked_fill(~others, 0.0).sum(dim=1) / others.sum(dim=1).clamp_min(1)
        losses = over_positives(softplus(-given), softplus(-logits)) + negative
    elif classes.form == "supcon":
        every = logits if mask is None else logits.masked_fill(~mask, -torch.inf)
        all_given = given if known is None else given.masked_fill(~known, -torch.inf)
        every = torch.cat([all_given, every], dim=1).masked_fill((positives == 0)[:, None], 0.0)
        losses = torch.logsumexp(every, dim=1) - over_positives(given, logits)
    else:
        # An anchor without samples of other classes has no negative term. Its row is zero so that nothing is NaN.
        negatives = logits.masked_fill(~others, -torch.inf).masked_fill(~some[:, None], 0.0)
        log_sum = torch.logsumexp(negatives, dim=1, keepdim=True)
        losses = torch.where(some, over_positives(softplus(log_sum - given), softplus(log_sum - logits)), 0.0)
    shown = logits.detach() if mask is None else logits.detach().masked_fill(~mask, 0.0)
    return (torch.where(positives > 0, losses, 0.0),), (shown.sum(dim=1), comparison.count)
