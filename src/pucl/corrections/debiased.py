"""Debiased contrastive learning (DEB)."""

from dataclasses import dataclass

from pucl.contrast.correction import Correction, check_range


@dataclass(frozen=True, kw_only=True)
class Debiased(Correction):
    r"""Take off the positives that a random sample contains.

    If unlabelled samples are drawn from the whole population, a share :math:`\tau^+` of them is positive and

    .. math:: p^- = \frac{p - \tau^+ p^+}{1 - \tau^+}, \qquad \omega = \frac{\tau^+}{1 - \tau^+}.

    Args:
        tau_plus: Share of hidden positives among the unlabelled, 0 <= tau_plus < 1. About 1/classes when
            classes are balanced.

    Reference:
        Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020.

    Example:
        >>> round(Debiased(tau_plus=0.1).odds, 4)
        0.1111
    """

    tau_plus: float = 0.1

    def __post_init__(self) -> None:
        check_range(
            "tau_plus",
            "the share of hidden positives among the unlabelled",
            self.tau_plus,
            "0 <= tau_plus < 1",
            0 <= self.tau_plus < 1,
        )

    @property
    def odds(self) -> float:
        """tau+ / (1 - tau+)."""
        return self.tau_plus / (1 - self.tau_plus)
