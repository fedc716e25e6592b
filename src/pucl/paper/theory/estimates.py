"""Means of random quantities, with their errors."""

import math
from dataclasses import dataclass

import torch

from pucl.shapes import Float, Tensor

SURPRISE = 4.0  # Standard errors that contradict a formula: by chance, this happens once in 16,000 times.


@dataclass(frozen=True)
class Estimate:
    """A mean over trials and its standard error."""

    value: float
    error: float


def mean_of(values: Float[Tensor, " draw"]) -> Estimate:
    """The mean of independent values."""
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)))


def controlled_means(
    values: Float[Tensor, "trial value"], controls: Float[Tensor, "trial control"]
) -> tuple[Float[Tensor, " value"], Float[Tensor, " value"]]:
    r"""Means and standard errors of values, with noise removed by controls whose expectation is zero.

    The result is the intercept of the regression of the values on the controls: a mean :math:`\sum_a w_a y_a` whose
    weights sum to one and give each control the mean zero. The standard errors are correct for trials with different
    amounts of noise.

    The regression uses the same trials, which adds a bias of order 1 / trials, far below the standard error.
    """
    size = torch.linalg.vector_norm(controls, dim=0)
    design = torch.cat(
        [torch.ones_like(controls[:, :1]), controls / size.clamp_min(1e-300) * len(values) ** 0.5], dim=1
    )
    # Controls can be equal (with c = 1 nothing is hidden), so a pseudo-inverse is used.
    inverse = torch.linalg.pinv(design, rtol=1e-10)
    residual = values - design @ (inverse @ values)
    freedom = len(values) / (len(values) - design.shape[1])
    error = ((inverse[0, :, None] * residual) ** 2).sum(dim=0).mul(freedom).sqrt()
    return inverse[0] @ values, error
