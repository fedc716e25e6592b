"""Positive-unlabelled correction (PUCL)."""

from dataclasses import dataclass

from pucl.contrast.correction import Correction, check_range
from pucl.corrections.hard import WEAKEST, check_beta


@dataclass(frozen=True, kw_only=True)
class PUCL(Correction):
    r"""Read sampled negatives as what labelled positives left behind, and take the hidden ones off.

    A share :math:`\alpha` of the data is positive, and a share c of the positives was labelled (by
    augmentation) and removed before the rest was sampled. True negatives then follow (Lemma 1)

    .. math:: p^- = (1 + \omega)\, p^u - \omega\, p^+, \qquad \omega = \frac{\alpha (1 - c)}{1 - \alpha}.

    Args:
        alpha: Share of positives in the data, 0 <= alpha < 1. About 1/classes when classes are balanced.
        c: Share of the positives that is labelled, 0 <= c <= 1.
        beta: Hard's concentration on hard samples, >= 0; 0 is the paper's uniform weight.

    Note:
        The loss sees ``odds`` alone: ``PUCL(alpha, c)`` equals ``Debiased(tau)`` at
        ``tau = alpha * (1 - c) / (1 - alpha * c)``, which is what ``tau_plus`` gives.

    Reference:
        Wang et al., "Contrastive Learning with Negative Sampling Correction", arXiv 2401.08690.

    Example:
        >>> PUCL(alpha=0.2, c=0.5).odds
        0.125
        >>> round(PUCL(alpha=0.12, c=0.1).tau_plus, 4)
        0.1093
    """

    alpha: float = 0.12
    c: float = 0.1
    beta: float = 0.0

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
        """The share at which `Debiased` is the same."""
        return self.odds / (1 + self.odds)

    @property
    def tilt(self) -> float:
        """Beta; 0 if it is too small to make a difference."""
        return self.beta if self.beta > WEAKEST else 0.0
