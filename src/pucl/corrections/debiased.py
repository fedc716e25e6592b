"""Debiased contrastive learning (DEB)."""

from dataclasses import dataclass

from pucl.contrast.correction import Correction, check_range
from pucl.settings import setting


@dataclass(frozen=True, kw_only=True)
class Debiased(Correction):
    r"""Subtract the hidden positives that a random sample contains.

    If unlabelled samples are drawn from the whole population, a share :math:`\tau^+` of them is positive and

    .. math:: p^- = \frac{p - \tau^+ p^+}{1 - \tau^+}, \qquad \omega = \frac{\tau^+}{1 - \tau^+}.

    Reference:
        Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020.

    Example:
        >>> round(Debiased(tau_plus=0.1).odds, 4)
        0.1111
    """

    tau_plus: float = setting(
        0.1, "share of hidden positives among the unlabelled, 0 <= tau_plus < 1; about 1/classes if balanced"
    )

    def __post_init__(self) -> None:
        meaning, share = "the share of hidden positives among the unlabelled", self.tau_plus
        check_range("tau_plus", meaning, share, "0 <= tau_plus < 1", 0 <= share < 1)

    @property
    def odds(self) -> float:
        """tau+ / (1 - tau+)."""
        return self.tau_plus / (1 - self.tau_plus)
