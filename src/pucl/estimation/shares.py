r"""tau' from labels, PUCL's parameters from tau', and the checks that all estimates share.

A corrected loss needs to know :math:`\tau'`, the share of hidden positives among the unlabelled. `bbe` and `mixture`
estimate it without labels. `collision` computes it from labels. `alpha_and_c` converts it to PUCL's parameters.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from pucl.shapes import Tensor

Numbers = Tensor | NDArray[Any] | Sequence[float] | Sequence[int]

FEWEST = 20  # Fewest similarities for an estimate.
ROUNDING = 1e-4  # By how much rounding may make a cosine larger than 1, also in half precision.


def collision(labels: Numbers) -> float:
    """The probability that two samples, drawn with replacement, have the same class: the sum of squared class shares.

    Example:
        >>> collision([0, 0, 1, 1])
        0.5
    """
    values = as_tensor(labels)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"labels are the classes of samples: expected one label or more in a row, got the shape "
            f"{list(values.shape)}"
        )
    if values.isnan().any():
        raise ValueError("labels are the classes of samples: expected a number for each, got NaN")
    shares = values.unique(return_counts=True)[1].double() / len(values)
    return float((shares**2).sum())


def alpha_and_c(tau_plus: float, positives: float, unlabelled: float) -> tuple[float, float]:
    r"""PUCL's two parameters, by counting: known positives are :math:`M^+` of :math:`M^+ + N` samples.

    .. math:: \alpha c = \frac{M^+}{M^+ + N}, \qquad \tau' = \frac{\alpha (1 - c)}{1 - \alpha c}
              \quad\Rightarrow\quad \alpha = \alpha c + (1 - \alpha c)\, \tau', \qquad c = \frac{\alpha c}{\alpha}

    Args:
        tau_plus: Share of hidden positives among the unlabelled.
        positives: Number of known positives of an anchor, :math:`M^+`.
        unlabelled: Number of its unlabelled samples, N.

    Returns:
        alpha, the share of positives among all samples that an anchor meets; c, the share of these that are known.

    Example:
        >>> alpha, c = alpha_and_c(0.1, positives=1, unlabelled=510)
        >>> round(alpha, 4), round(c, 4)
        (0.1018, 0.0192)
    """
    if not 0 <= tau_plus <= 1:
        raise ValueError(
            f"tau_plus is the share of hidden positives among the unlabelled: expected 0 to 1, got {tau_plus}"
        )
    if not (0 < positives < math.inf and 0 < unlabelled < math.inf):
        raise ValueError(
            f"positives and unlabelled are how many of each an anchor has: expected more than 0 of both, got "
            f"{positives} and {unlabelled}"
        )
    known = positives / (positives + unlabelled)
    alpha = known + (1 - known) * tau_plus
    return alpha, known / alpha


def as_tensor(numbers: Numbers) -> Tensor:
    """A copy in double precision on the CPU, without gradient."""
    if isinstance(numbers, Tensor):
        return numbers.detach().cpu().double()
    return torch.tensor(numbers, dtype=torch.float64)


def sorted_cosines(name: str, numbers: Numbers) -> Tensor:
    """Cosines in rising order, so that their order does not change an estimate by a single bit."""
    values = as_tensor(numbers).flatten()
    if len(values) < FEWEST:
        raise ValueError(
            f"{name} are similarities of pairs: expected at least {FEWEST} of them to estimate from, got {len(values)}"
        )
    wrong = ~(values.abs() <= 1 + ROUNDING)  # NaN is wrong too.
    if wrong.any():
        raise ValueError(
            f"{name} are cosines of pairs: expected numbers from -1 to 1, got {float(values[wrong][0]):g} "
            f"(and {int(wrong.sum()) - 1} more outside of that range)"
        )
    return values.clamp(-1, 1).sort().values


def check_spread(ordered: Tensor) -> None:
    """Raise if all similarities are the same."""
    if ordered[-1] - ordered[0] < 1e-9:
        raise ValueError(
            "unlabelled are similarities of different pairs: expected some that differ, got the same for all; "
            "embeddings may have collapsed into one point"
        )
