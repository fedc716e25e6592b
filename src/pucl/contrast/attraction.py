r"""False negatives attracted: losses that know the classes, SINCERE and SupCon.

An anchor's positives are its given ones and its *mates*, the unlabelled samples of its own class. Let P be the logits
of all positives, and :math:`u_k` the logits of samples of other classes,

.. math:: \text{SINCERE:}\ \mathrm{mean}_{p \in P} -\log \frac{e^p}{e^p + \sum_k e^{u_k}}, \qquad
          \text{SupCon:}\ \mathrm{mean}_{p \in P} -\log \frac{e^p}{\sum_{q \in P} e^q + \sum_k e^{u_k}}.

In SupCon the positives of an anchor push each other away; in SINCERE they do not. The Jensen-Shannon form is
:math:`\mathrm{mean}_{p \in P}\, \mathrm{softplus}(-p) + \mathrm{mean}_k\, \mathrm{softplus}(u_k)`.

Nothing is estimated here, so there is no floor, and groups of anchors have no estimate to share.
"""

from dataclasses import dataclass

import torch

from pucl.contrast.averages import weighted
from pucl.contrast.pairs import Classes, Comparison
from pucl.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class Classified:
    """Logits of pairs whose classes are known.

    Args:
        given: Logits of the given positives.
        given_mask: True where one of them counts. None: everywhere.
        logits: Logits of the unlabelled samples.
        mask: True where one of them counts. None: everywhere.
        mates: True for samples of the anchor's class that count.
        others: True for samples of other classes that count.
        positives: Number of positives of each anchor, mates included.
    """

    given: Float[Tensor, "anchor given"]
    given_mask: Bool[Tensor, "anchor given"] | None
    logits: Float[Tensor, "anchor unlabelled"]
    mask: Bool[Tensor, "anchor unlabelled"] | None
    mates: Bool[Tensor, "anchor unlabelled"]
    others: Bool[Tensor, "anchor unlabelled"]
    positives: Int[Tensor, " anchor"]

    @classmethod
    def of(cls, comparison: Comparison, classes: Classes) -> "Classified":
        """The logits of a comparison, by class."""
        given, given_mask, mask = comparison.positive, comparison.positive_mask, comparison.mask
        same = classes.query[:, None] == classes.key
        mates, others = (same, ~same) if mask is None else (same & mask, ~same & mask)
        positives = mates.sum(dim=1) + (given.shape[1] if given_mask is None else given_mask.sum(dim=1))
        return cls(
            given=given,
            given_mask=given_mask,
            logits=comparison.unlabelled,
            mask=mask,
            mates=mates,
            others=others,
            positives=positives,
        )

    def over_positives(
        self, of_given: Float[Tensor, "anchor given"], of_mates: Float[Tensor, "anchor unlabelled"]
    ) -> Float[Tensor, " anchor"]:
        """The mean over all positives of an anchor, from values of the given ones and of the unlabelled samples."""
        total = weighted(of_given, self.given_mask).sum(dim=1) + weighted(of_mates, self.mates).sum(dim=1)
        return total / self.positives.clamp_min(1)

    def mean_over_others(self, values: Float[Tensor, "anchor unlabelled"]) -> Float[Tensor, " anchor"]:
        """The mean over the samples of other classes; 0 if there are none."""
        return weighted(values, self.others).sum(dim=1) / self.others.sum(dim=1).clamp_min(1)

    def log_sum_of_others(self) -> tuple[Float[Tensor, "anchor 1"], Bool[Tensor, " anchor"]]:
        """Log of the sum of exp(logit) over the samples of other classes, and whether there are any.

        An anchor without them has no negative term. Its row is zero so that nothing is NaN.
        """
        some = self.others.any(dim=1)
        negatives = self.logits.masked_fill(~self.others, -torch.inf).masked_fill(~some[:, None], 0.0)
        return torch.logsumexp(negatives, dim=1, keepdim=True), some

    def log_sum_of_all(self) -> Float[Tensor, " anchor"]:
        """Log of the sum of exp(logit) over all positives and all unlabelled samples."""
        every = self.logits if self.mask is None else self.logits.masked_fill(~self.mask, -torch.inf)
        given = self.given if self.given_mask is None else self.given.masked_fill(~self.given_mask, -torch.inf)
        every = torch.cat([given, every], dim=1).masked_fill((self.positives == 0)[:, None], 0.0)
        return torch.logsumexp(every, dim=1)
