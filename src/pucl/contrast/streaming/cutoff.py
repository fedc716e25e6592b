"""Softplus and what goes with it, cut off in time.

Logits without bound lead to numbers that processors and their libraries are slow with: what is too small to be an
ordinary number, and what is made from it, takes up to 200 times as long. So exponents are cut off before, and what is
left then is 0, as it is of pairs that do not count. (torch's own softplus is slow from -29 on, when the third power
of an exponential is no ordinary number: it goes through log1p.)
"""

import math

import torch

from pucl.shapes import Tensor


def softplus(logits: Tensor, *, out: Tensor, spare: Tensor) -> Tensor:
    r"""`objectives.softplus`, cut off at -85 in float32.

    max(x, 0) + log u + (e - (u - 1)), with e = exp(-\|x\|) and u = 1 + e; the last term is what was rounded off in u.
    """
    most = limit(logits, 0.98)
    torch.clamp(logits, -most, most, out=spare).abs_().neg_().exp_()
    torch.add(spare, 1.0, out=out)
    spare.sub_(out - 1.0)
    out.log_().add_(spare)
    torch.threshold_(out, 2 * math.exp(-most), 0.0)
    return out.add_(torch.clamp(logits, min=0.0, out=spare))


def sigmoid(logits: Tensor, *, out: Tensor) -> Tensor:
    """The slope of softplus, cut off at -57 in float32: it is multiplied with other small numbers."""
    most = limit(logits, 0.65)
    torch.sigmoid(torch.clamp(logits, -most, most, out=out), out=out)
    return torch.threshold_(out, 2 * math.exp(-most), 0.0)


def weights(exponents: Tensor) -> Tensor:
    """The exponentials of numbers of which the largest is about 0, in their place, cut off at -28 in float32."""
    most = limit(exponents, 0.32)
    return torch.threshold_(exponents.clamp_min_(-most).exp_(), 2 * math.exp(-most), 0.0)


def limit(logits: Tensor, share: float) -> float:
    """The size of an exponent that uses up this share of all there are below 0."""
    return -share * math.log(torch.finfo(logits.dtype).tiny)
