"""Hard negative sampling (HCL)."""

from dataclasses import dataclass

from pucl.contrast.correction import Anneal, check_range, ends, settled
from pucl.corrections.debiased import Debiased

STEEPEST = 1e6
WEAKEST = 1e-30


@dataclass(frozen=True, kw_only=True)
class Hard(Debiased):
    r"""Debiased, with samples close to the anchor counting for more.

    .. math:: w_i \propto e^{\beta u_i}, \qquad \omega = \frac{\tau^+}{1 - \tau^+}.

    The gradient flows through the weights too. ``beta = 0`` is `Debiased`.

    Args:
        tau_plus: Share of hidden positives among the unlabelled, 0 <= tau_plus < 1.
        beta: Concentration on hard samples, >= 0; an `Anneal` lets it move while training goes on.

    Reference:
        Robinson et al., "Contrastive Learning with Hard Negative Samples", ICLR 2021.
    """

    beta: float | Anneal = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_beta(self.beta)

    @property
    def tilt(self) -> float:
        """Beta."""
        return tilt_of(self.beta)


def check_beta(beta: float | Anneal) -> None:
    """Refuse a concentration that would favour easy samples, or that no float32 logit can be multiplied by."""
    fits = all(0 <= end <= STEEPEST for end in ends(beta))
    check_range("beta", "the concentration on hard samples", beta, f"0 <= beta <= {STEEPEST:g}", fits)


def tilt_of(beta: float | Anneal) -> float:
    """The tilt at use; one too weak for any number to show it is none."""
    tilt = settled("beta", beta)
    return tilt if tilt > WEAKEST else 0.0
