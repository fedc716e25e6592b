"""Means of random quantities, with their errors."""

import math
from dataclasses import dataclass

import torch

from pucl.shapes import Float, Tensor

SURPRISE = 4.0  # Standard errors from which a sample speaks against a formula: by chance, once in 16,000 times.


@dataclass(frozen=True)
class Estimate:
    """A mean over trials and its standard error."""

    value: float
    error: float


def mean_of(values: Float[Tensor, " draw"]) -> Estimate:
    """The plain mean."""
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)))


def controlled_means(
    values: Float[Tensor, "trial value"], controls: Float[Tensor, "trial control"]
) -> tuple[Float[Tensor, " value"], Float[Tensor, " value"]]:
    r"""Means and standard errors of values, less what controls of known mean zero explain of their noise.

    This is the intercept of the regression of the values on the controls: a mean :math:`\sum_a w_a y_a` with weights
    that sum to one and give every control the mean zero that it should have. The errors allow for trials that are
    not equally noisy.

    The coefficients come from the same trials, which costs a bias of order 1 / trials, far below the error.
    """
    size = torch.linalg.vector_norm(controls, dim=0)
    design = torch.cat(
        [torch.ones_like(controls[:, :1]), controls / size.clamp_min(1e-300) * len(values) ** 0.5], dim=1
    )
    # Controls may coincide (with c = 1 nothing is hidden); the pseudo-inverse does not mind.
    inverse = torch.linalg.pinv(design, rtol=1e-10)
    residual = values - design @ (inverse @ values)
    freedom = len(values) / (len(values) - design.shape[1])
    error = ((inverse[0, :, None] * residual) ** 2).sum(dim=0).mul(freedom).sqrt()
    return inverse[0] @ values, error
