"""Positive-unlabelled correction (PUCL)."""

from dataclasses import dataclass

from pucl.contrast.correction import Correction, check_range
from pucl.corrections.hard import WEAKEST, check_beta
from pucl.settings import setting


@dataclass(frozen=True, kw_only=True)
class PUCL(Correction):
    r"""Treat samples as unlabelled, not as negative, and subtract the hidden positives among them.

    A share :math:`\alpha` of the data is positive, and a share c of the positives was labelled (by
    augmentation) and removed before the rest was sampled. True negatives then follow (Lemma 1)

    .. math:: p^- = (1 + \omega)\, p^u - \omega\, p^+, \qquad \omega = \frac{\alpha (1 - c)}{1 - \alpha}.

    With ``stop_gradient`` the subtracted term :math:`\omega\, \mathrm{mean}_j\, g(p_j)` is a constant for the gradient.
    The loss has the same value. As printed, the gradient goes through this term as well. It then pulls on the positive,
    by up to N omega near the floor, where plain InfoNCE pulls by at most 1. The pull is strongest on pairs that are
    close already, and hidden positives have no part in it.

    Note:
        The loss depends on ``odds`` alone: ``PUCL(alpha, c)`` equals ``Debiased(tau)`` at
        ``tau = alpha * (1 - c) / (1 - alpha * c)``, which is the property ``tau_plus``.

    Reference:
        Wang et al., "Contrastive Learning with Negative Sampling Correction", arXiv 2401.08690.

    Example:
        >>> PUCL(alpha=0.2, c=0.5).odds
        0.125
        >>> round(PUCL(alpha=0.12, c=0.1).tau_plus, 4)
        0.1093
    """

    alpha: float = setting(0.12, "share of positives in the data, 0 <= alpha < 1; about 1/classes if balanced")
    c: float = setting(0.1, "share of the positives that is labelled, 0 <= c <= 1")
    beta: float = setting(0.0, "concentration on hard samples, >= 0; 0 weights all samples alike")

    stop_gradient: bool = setting(
        default=False, meaning="let no gradient flow through the subtracted positives; off, as in the paper"
    )

    def __post_init__(self) -> None:
        check_range("alpha", "the share of positives in the data", self.alpha, "0 <= alpha < 1", 0 <= self.alpha < 1)
        check_range("c", "the share of positives that is labelled", self.c, "0 <= c <= 1", 0 <= self.c <= 1)
        check_beta(self.beta)

    @property
    def odds(self) -> float:
        """Alpha (1 - c) / (1 - alpha)."""
        return self.alpha * (1 - self.c) / (1 - self.alpha)

    @property
    def tau_plus(self) -> float:
        """tau': the share at which `Debiased` gives the same loss."""
        return self.odds / (1 + self.odds)

    @property
    def tilt(self) -> float:
        """Beta; 0 if it is too small to make a difference."""
        return self.beta if self.beta > WEAKEST else 0.0
