"""Batch norm of rows that stand for several."""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pucl.encoders.running import remember
from pucl.shapes import Float, Tensor


class CountedBatchNorm(nn.BatchNorm1d):
    r"""Batch norm in which a row may count as several equal ones.

    With :math:`w_i` the number of rows that row i stands for, and n their sum,

    .. math::
        y_i = \gamma\, \hat x_i + \beta, \quad
        \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}}, \quad
        \mu = \frac{1}{n} \sum_i w_i x_i, \quad
        \sigma^2 = \frac{1}{n} \sum_i w_i (x_i - \mu)^2,

    which is torch's batch norm of all n rows. In evaluation, and without numbers, it is torch's own.
    """

    def forward(  # noqa: D102 (the class says it)
        self,
        input: Float[Tensor, "row channel"],  # noqa: A002 (torch's name)
        copies: Float[Tensor, " row"] | None = None,
    ) -> Float[Tensor, "row channel"]:
        if copies is None or not self.training:
            return super().forward(input)
        count = float(copies.sum())
        y: Tensor
        y, mean, variance = _CountedNorm.apply(  # type: ignore[no-untyped-call]
            input, copies.to(input.dtype), self.weight, self.bias, count, self.eps
        )
        remember(self, mean, variance, count)
        return y


class _CountedNorm(torch.autograd.Function):
    r"""The normalised rows, with the mean and the variance, which have no gradient of their own.

    With g the gradient of y, that of x is

    .. math:: \frac{\gamma}{\sqrt{\sigma^2 + \epsilon}}
        \Bigl(g_i - \frac{w_i}{n} \bigl(\textstyle\sum_j g_j + \hat x_i \sum_j g_j \hat x_j\bigr)\Bigr).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, copies: Tensor, weight: Tensor, bias: Tensor, count: float, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean = copies @ x / count
        normal = x - mean
        variance = copies @ normal.square() / count
        scale = (variance + eps).rsqrt()
        normal.mul_(scale)
        ctx.save_for_backward(normal, copies, weight, scale)
        ctx.count = count
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias, normal, weight), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        normal, copies, weight, scale = ctx.saved_tensors
        g = gradients[0]
        of_bias, of_weight = g.sum(0), (g * normal).sum(0)
        shared = torch.addcmul(of_bias, normal, of_weight).mul_((copies / ctx.count)[:, None])
        return (g - shared).mul_(weight * scale), None, of_weight, of_bias, None, None
