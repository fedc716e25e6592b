"""Hard negative sampling (HCL)."""

from dataclasses import dataclass

from pucl.contrast.correction import check_range
from pucl.corrections.debiased import Debiased
from pucl.settings import setting

STEEPEST = 1e6
WEAKEST = 1e-30  # A smaller beta changes no float32 number, and its products would be denormal.


@dataclass(frozen=True, kw_only=True)
class Hard(Debiased):
    r"""Debiased, with more weight on samples close to the anchor.

    .. math:: w_i \propto e^{\beta u_i}, \qquad \omega = \frac{\tau^+}{1 - \tau^+}.

    The gradient flows through the weights too. ``beta = 0`` is `Debiased`.

    Scores without bound, such as InfoGraph's inner products, are divided by half of the largest absolute one of the
    step, as HCL's authors do for graphs: :math:`w_i \propto e^{2 \beta u_i / \max |u|}`. They would otherwise give all
    weight to a single sample.

    Reference:
        Robinson et al., "Contrastive Learning with Hard Negative Samples", ICLR 2021.
    """

    beta: float = setting(1.0, "concentration on hard samples, >= 0; 0 weights all samples alike")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_beta(self.beta)

    @property
    def tilt(self) -> float:
        """Beta; 0 if it is too small to make a difference."""
        return self.beta if self.beta > WEAKEST else 0.0


def check_beta(beta: float) -> None:
    """Raise for a concentration below 0, or too large for float32 logits."""
    allowed = f"0 <= beta <= {STEEPEST:g}"
    check_range("beta", "the concentration on hard samples", beta, allowed, 0 <= beta <= STEEPEST)
