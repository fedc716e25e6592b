"""Whether the losses do here what they should."""

import warnings
from collections.abc import Callable, Sequence

import torch

from pucl.doctor.finding import Finding, fault
from pucl.losses import ContrastiveLoss, DebiasedLoss, FlooredWarning, HardLoss, NTXentLoss, PUCLLoss, RingLoss
from pucl.shapes import Float, Tensor

EXACT = 1e-10  # Relative difference of float64 numbers that should be equal.


def check_dense_equals_streaming() -> Finding:
    """The two ways to compute a loss give one result, over several tiles."""
    views = _two_views(300)
    makers: tuple[Callable[..., ContrastiveLoss], ...] = (NTXentLoss, HardLoss, RingLoss, PUCLLoss)
    differences = [_difference(make(streaming=True), make(streaming=False), views) for make in makers]
    return _equal("dense = streaming", max(differences))


def check_pucl_equals_debiased() -> Finding:
    """PUCL is DEB at tau', and with a tilt it is Hard at tau'."""
    views, pucl_loss, tilted = _two_views(40), PUCLLoss(alpha=0.12, c=0.1), PUCLLoss(alpha=0.12, c=0.1, beta=0.5)
    tau = pucl_loss.tau_plus
    differences = [
        _difference(pucl_loss, DebiasedLoss(tau_plus=tau), views),
        _difference(tilted, HardLoss(tau_plus=tau, beta=0.5), views),
    ]
    return _equal("PUCL = DEB at tau'", max(differences))


def check_alpha_zero_equals_plain() -> Finding:
    """Without positives in the data there is nothing to correct."""
    return _equal("alpha 0 = no correction", _difference(PUCLLoss(alpha=0.0), NTXentLoss(), _two_views(40)))


def check_gradients_are_finite() -> Finding:
    """At a temperature at which plain exponentials overflow, every gradient is a number."""
    name, views = "gradients at t = 0.01", [view.float() for view in _two_views(40)]
    wrong = []
    for loss in (NTXentLoss, DebiasedLoss, HardLoss, RingLoss, PUCLLoss):
        for streaming in (False, True):
            value, gradient = _value_and_gradient(loss(temperature=0.01, streaming=streaming), views)
            if not (value.isfinite().all() and gradient.isfinite().all()):
                wrong.append(loss.__name__)
    if wrong:
        return fault(name, f"not finite for {', '.join(dict.fromkeys(wrong))}")
    return Finding(name=name, value="finite for every loss")


def _two_views(batch: int) -> list[Float[Tensor, "batch dim"]]:
    generator = torch.Generator().manual_seed(0)
    sample, *noise = (torch.randn(batch, 16, dtype=torch.float64, generator=generator) for _ in range(3))
    return [sample + part for part in noise]


def _value_and_gradient(
    loss: ContrastiveLoss, views: Sequence[Float[Tensor, "batch dim"]]
) -> tuple[Float[Tensor, ""], Float[Tensor, "view batch dim"]]:
    leaves = [view.clone().requires_grad_() for view in views]
    with warnings.catch_warnings():  # At low temperatures most anchors are floored, and are meant to be.
        warnings.simplefilter("ignore", FlooredWarning)
        value: Tensor = loss(*leaves)
    return value.detach(), torch.stack(torch.autograd.grad(value, leaves))


def _difference(one: ContrastiveLoss, other: ContrastiveLoss, views: Sequence[Float[Tensor, "batch dim"]]) -> float:
    """The largest difference of loss or gradient, relative to its size; infinite if the correction was not at work."""
    (value, gradient), (other_value, other_gradient) = (_value_and_gradient(loss, views) for loss in (one, other))
    if one.last is None or one.last.floored > 0.5:
        return float("inf")
    of_value = (value - other_value).abs() / other_value.abs()
    of_gradient = (gradient - other_gradient).abs().max() / other_gradient.abs().max()
    difference = float(torch.maximum(of_value, of_gradient))
    return difference if difference < float("inf") else float("inf")


def _equal(name: str, difference: float) -> Finding:
    if difference <= EXACT:
        return Finding(name=name, value=f"relative difference {difference:.0e}")
    return fault(name, f"relative difference {difference:.1e}, more than {EXACT:.0e}")
