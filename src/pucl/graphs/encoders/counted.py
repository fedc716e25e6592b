"""Batch norm in which a row counts as several equal rows."""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pucl.batch_norm import remember
from pucl.shapes import Float, Tensor


class Counts(NamedTuple):
    """How many rows each row counts as. It is computed once for all layers.

    Args:
        share: The share of each row in the total.
        total: Number of rows that all rows count as together.
    """

    share: Float[Tensor, " row"]
    total: float

    @classmethod
    def of(cls, copies: Float[Tensor, " row"], dtype: torch.dtype) -> "Counts":
        """From the number of rows that each row counts as."""
        total = float(copies.sum())
        return cls(copies.to(dtype) / total, total)


class CountedBatchNorm(nn.BatchNorm1d):
    r"""Batch norm in which a row may count as several equal rows.

    With :math:`w_i` the number of rows that row i counts as, and n their sum,

    .. math::
        y_i = \gamma\, \hat x_i + \beta, \quad
        \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}}, \quad
        \mu = \frac{1}{n} \sum_i w_i x_i, \quad
        \sigma^2 = \frac{1}{n} \sum_i w_i (x_i - \mu)^2,

    This equals torch's batch norm of all n rows. Without counts, and in evaluation, torch's own is used.
    """

    def forward(  # noqa: D102 (the class explains it)
        self,
        input: Float[Tensor, "row channel"],  # noqa: A002 (torch's name)
        counts: Counts | None = None,
    ) -> Float[Tensor, "row channel"]:
        if counts is None or not self.training:
            return super().forward(input)
        y: Tensor
        y, mean, variance = _CountedNorm.apply(  # type: ignore[no-untyped-call]
            input, counts.share, self.weight, self.bias, self.eps
        )
        remember(self, mean, variance, counts.total)
        return y


class _CountedNorm(torch.autograd.Function):
    r"""The normalised rows, their mean and their variance. Mean and variance have no gradient.

    With g the gradient of y and :math:`s_i = w_i / n` the share of a row, the gradient of x is

    .. math:: \frac{\gamma}{\sqrt{\sigma^2 + \epsilon}}
        \Bigl(g_i - s_i \bigl(\textstyle\sum_j g_j + \hat x_i \sum_j g_j \hat x_j\bigr)\Bigr).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, share: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean = share @ x
        centred = x - mean
        variance = share @ centred.square()
        scale = (variance + eps).rsqrt_()
        slope = weight * scale
        ctx.save_for_backward(centred, share, scale, slope)
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias, centred, slope), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        centred, share, scale, slope = ctx.saved_tensors
        g = gradients[0]
        of_bias, of_weight = g.sum(0), (g * centred).sum(0).mul_(scale)
        shared = torch.addcmul(of_bias, centred, of_weight * scale).mul_(share[:, None])
        return torch.sub(g, shared, out=shared).mul_(slope), None, of_weight, of_bias, None
