"""Bayesian weights of unlabelled samples (BCL)."""

from dataclasses import dataclass

import torch

from pucl.contrast.correction import Correction, check_range
from pucl.contrast.pairs import Comparison
from pucl.settings import setting
from pucl.shapes import Float, Tensor

SMOOTHING = 1e-3  # The published program adds it to a, and to the divisor of the hard true negatives.
ROUNDING = 16  # Logits that differ by this many rounding errors are equal.


@dataclass(frozen=True, kw_only=True)
class BCL(Correction):
    r"""Weigh each sample by the posterior, given its rank, that it is a true negative, and a hard one.

    Let :math:`\hat F` be the share of the anchor's N samples that are not more similar than sample i (itself included).
    A share :math:`\tau^+` of the samples is positive, :math:`\tau^- = 1 - \tau^+`, and :math:`\alpha` is the
    probability that a positive is ranked above a negative. The distribution F of similarities solves

    .. math:: a F^2 + b F = \hat F, \qquad
              a = (1 - 2\alpha)(\tau^- - \tau^+), \qquad b = 2\,(\alpha \tau^- + (1 - \alpha)\, \tau^+).

    With :math:`\varphi_1 = 2 (1 - F)` and :math:`\varphi_2 = 2 F` the weight of the sample is

    .. math:: w_i = \frac{\alpha (1 - \beta)\, \varphi_1 + (1 - \alpha)\, \beta\, \varphi_2}
                         {\alpha (1 - \beta) + (1 - \alpha)\, \beta} \Big/
              \big[\tau^- (\alpha \varphi_1 + (1 - \alpha)\, \varphi_2)
                 + \tau^+ ((1 - \alpha)\, \varphi_1 + \alpha \varphi_2)\big].

    The sum over negatives is :math:`\sum_i w_i e^{u_i}`: N in the loss is the sum of the weights, which is close to the
    number of samples. Odds 0, so there is no floor. The weights have no gradient.

    The settings have names of their own: `auc` is :math:`\alpha` and `hardness` is :math:`\beta` of the reference,
    which mean something else in PUCL and Hard. ``BCL(auc=0.5, hardness=0.5)`` weighs all samples alike, as `Plain`
    does; N is then 0.2 % smaller, since the published program smooths its divisor.

    Reference:
        Liu and Wang, "Bayesian Self-Supervised Contrastive Learning", 2023.
    """

    counts_weights = True
    tau_plus: float = setting(0.1, "share of hidden positives among the unlabelled, 0 <= tau_plus < 1")
    auc: float = setting(
        0.9, "probability that the encoder ranks a positive above a negative, 0.5 <= auc <= 1; alpha of the reference"
    )
    hardness: float = setting(
        0.9, "how far weights move to the most similar true negatives, 0.5 <= hardness < 1; beta of the reference"
    )

    def __post_init__(self) -> None:
        share, auc, hardness = self.tau_plus, self.auc, self.hardness
        meaning = "the share of hidden positives among the unlabelled"
        check_range("tau_plus", meaning, share, "0 <= tau_plus < 1", 0 <= share < 1)
        meaning = "the probability that a positive is ranked above a negative"
        check_range("auc", meaning, auc, "0.5 <= auc <= 1", 0.5 <= auc <= 1)
        meaning = "the concentration on hard true negatives"
        check_range("hardness", meaning, hardness, "0.5 <= hardness < 1", 0.5 <= hardness < 1)

    @torch.no_grad()
    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """Log of the weights, from the ranks."""
        alpha, beta, positive, negative = self.auc, self.hardness, self.tau_plus, 1 - self.tau_plus
        a = (1 - 2 * alpha) * (negative - positive) + SMOOTHING
        b = 2 * (alpha * negative + (1 - alpha) * positive)
        share = _share_not_above(comparison)
        # Not (-b + root) / 2a, which loses all digits where a is close to 0.
        f = 2 * share / (b + (b * b + 4 * a * share).clamp_min(0).sqrt())
        low, high = 2 * (1 - f), 2 * f
        hard, easy = (1 - alpha) * beta, alpha * (1 - beta)
        hard_negative = (easy * low + hard * high) / (easy + hard + SMOOTHING)
        unlabelled = negative * (alpha * low + (1 - alpha) * high) + positive * ((1 - alpha) * low + alpha * high)
        return hard_negative.log() - unlabelled.log()


def _share_not_above(comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
    """For each sample, the share of the anchor's samples that are not more similar, itself included."""
    logits = comparison.visible.detach().contiguous()
    rising = logits.sort(dim=1).values
    masked = logits.shape[1] - comparison.count[:, None]  # Masked samples are -inf, so they come first.
    # Equal samples may have logits that differ by rounding, and must have the same rank.
    highest = comparison.unlabelled.detach().abs().amax(dim=1, keepdim=True)
    rounded = logits + ROUNDING * torch.finfo(logits.dtype).eps * highest
    not_above = torch.searchsorted(rising, rounded, right=True).to(logits.dtype) - masked
    return not_above.clamp_min(1) / comparison.count[:, None].clamp_min(1)
