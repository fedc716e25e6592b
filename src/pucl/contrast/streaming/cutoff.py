"""Softplus and related functions that avoid denormal numbers.

Logits without bound lead to denormal numbers, with which processors take up to 200 times as long. So exponents are
clamped first, and results below the limit are set to 0, the value of excluded pairs. (torch's own softplus is slow from
-29 on: it uses log1p, and the third power of the exponential is denormal.)
"""

import math

import torch

from pucl.shapes import Tensor


def softplus(logits: Tensor, *, out: Tensor, spare: Tensor) -> Tensor:
    r"""`objectives.softplus`, cut off at -85 in float32.

    max(x, 0) + log u + (e - (u - 1)), with e = exp(-\|x\|) and u = 1 + e; the last term is the rounding error of u.
    """
    most = limit(logits, 0.98)
    torch.clamp(logits, -most, most, out=spare).abs_().neg_().exp_()
    torch.add(spare, 1.0, out=out)
    spare.sub_(out - 1.0)
    out.log_().add_(spare)
    torch.threshold_(out, 2 * math.exp(-most), 0.0)
    return out.add_(torch.clamp(logits, min=0.0, out=spare))


def sigmoid(logits: Tensor, *, out: Tensor) -> Tensor:
    """The slope of softplus, cut off at -57 in float32, since it is multiplied by other small numbers."""
    most = limit(logits, 0.65)
    torch.sigmoid(torch.clamp(logits, -most, most, out=out), out=out)
    return torch.threshold_(out, 2 * math.exp(-most), 0.0)


def weights(exponents: Tensor) -> Tensor:
    """Exponentials, in place, of numbers whose maximum is about 0, cut off at -28 in float32."""
    most = limit(exponents, 0.32)
    return torch.threshold_(exponents.clamp_min_(-most).exp_(), 2 * math.exp(-most), 0.0)


def limit(logits: Tensor, share: float) -> float:
    """This share of the largest negative exponent that gives a normal number, as a positive number."""
    return -share * math.log(torch.finfo(logits.dtype).tiny)
