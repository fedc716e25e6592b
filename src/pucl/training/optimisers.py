"""Optimisers by name (Adam, SGD, LARS), and the schedule of the learning rate."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from pucl.texts import did_you_mean

Schedule = Literal["cosine", "constant", "step"]

SCHEDULES: tuple[Schedule, ...] = ("cosine", "constant", "step")
MILESTONES = (1 / 2, 2 / 3, 5 / 6)  # Where "step" divides the learning rate by 10: CMC's epochs 120, 160, 200 of 240.
TRUST = 1e-3  # LARS: the share of a layer's weights that a step may be.


class LARS(Optimizer):
    r"""Stochastic gradient descent whose step in each layer is a fixed share of that layer's weights.

    With gradient g, weights w and velocity v of one parameter,

    .. math::
        u = g + \lambda w, \quad
        r = \eta\, \lVert w \rVert / \lVert u \rVert, \quad
        v \leftarrow m v + \gamma\, r\, u, \quad
        w \leftarrow w - v, \quad \eta = 0.001.

    The trust ratio r is 1 where either norm is zero. Parameters with at most one axis (biases, and the parameters of
    norms) have neither weight decay nor trust ratio: :math:`u = g` and :math:`r = 1`.

    Args:
        parameters: The parameters to train.
        lr: :math:`\gamma > 0`. It scales the updates that enter the velocity, as in the reference. So a change of the
            learning rate does not change the size of the velocity; in `torch.optim.SGD` it does.
        momentum: m, 0 <= m < 1.
        weight_decay: :math:`\lambda \ge 0`.

    Reference:
        You et al., Large Batch Training of Convolutional Networks, 2017, as in google-research/simclr
        (`lars_optimizer.py`: classic momentum, no Nesterov).
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.9, weight_decay: float = 1e-6
    ) -> None:
        everything = list(parameters)
        groups = [
            {"params": [p for p in everything if p.ndim > 1], "weight_decay": weight_decay, "adapt": True},
            {"params": [p for p in everything if p.ndim <= 1], "weight_decay": 0.0, "adapt": False},
        ]
        super().__init__([group for group in groups if group["params"]], {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._update(weights, weights.grad, group)
        return loss

    def _update(self, weights: nn.Parameter, update: torch.Tensor, group: dict[str, Any]) -> None:
        if group["weight_decay"]:
            update = update.add(weights, alpha=group["weight_decay"])
        if group["adapt"]:
            # The norms stay on the device: reading their values would wait for a GPU, layer by layer.
            size, length = torch.linalg.vector_norm(weights), torch.linalg.vector_norm(update)
            update = update * torch.where((size > 0) & (length > 0), TRUST * size / length, 1.0)
        state = self.state[weights]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(weights)
        weights.sub_(state["velocity"].mul_(group["momentum"]).add_(update, alpha=group["lr"]))


def _adam(parameters: list[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> Optimizer:
    # Fused: one pass over the weights, where torch's default makes a dozen.
    return Adam(parameters, lr=lr, betas=(momentum, 0.999), weight_decay=weight_decay, fused=True)


def _sgd(parameters: list[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> Optimizer:
    # Not fused: fused SGD leaves its momentum unset if a gradient scaler skips the first step.
    return SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)


OPTIMISERS: dict[str, Callable[[list[nn.Parameter], float, float, float], Optimizer]] = {
    "adam": _adam,
    "sgd": _sgd,
    "lars": LARS,
}


def make_optimiser(
    name: str, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.9, weight_decay: float = 0.0
) -> Optimizer:
    r"""The optimiser of this name.

    Args:
        name: adam, sgd or lars.
        parameters: The parameters; those that need no gradient are left out.
        lr: The highest learning rate, > 0; see `schedule`.
        momentum: 0 <= momentum < 1; Adam's :math:`\beta_1`.
        weight_decay: :math:`\lambda \ge 0`; the gradient becomes :math:`g + \lambda w`. Adam and SGD decay all
            parameters, as the references do; LARS only those with more than one axis.

    Note:
        The references: SimCLR with Adam 1e-3 and weight decay 1e-6, or LARS 1.0 and 1e-6; MoCo with SGD .06 at
        batch 512 and 5e-4; CMC with SGD .03 and 1e-4.
    """
    check_optimiser(name, lr, momentum, weight_decay)
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        raise ValueError("parameters are trained: expected at least one that needs a gradient, got none")
    return OPTIMISERS[name](trained, lr, momentum, weight_decay)


def schedule(step: int, total_steps: int, warmup_steps: int = 0, form: Schedule = "cosine") -> float:
    r"""The learning rate of a step, as a share of the highest. It depends on the step alone: there is no state to save.

    With s the step from 0, T the total and W the steps of warm-up, it is :math:`(s + 1) / W` while s < W, and then

    .. math::
        \text{cosine: } \tfrac12 \Bigl(1 + \cos \pi \frac{s - W}{T - W}\Bigr), \quad
        \text{constant: } 1, \quad
        \text{step: } 10^{-\#\{\text{milestones} \le s / T\}}.

    The milestones are 1/2, 2/3 and 5/6.

    Args:
        step: s, the steps made so far, 0 <= s <= T.
        total_steps: T, of the whole training.
        warmup_steps: W, 0 <= W <= T.
        form: cosine, constant or step.

    Example:
        >>> [round(schedule(s, 10, warmup_steps=2), 3) for s in (0, 1, 2, 6, 10)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    if form not in SCHEDULES:
        raise ValueError(
            f"form is the shape of the learning rate over the steps: expected one of {', '.join(SCHEDULES)}, got {form}"
        )
    if total_steps < 1 or not 0 <= warmup_steps <= total_steps:
        raise ValueError(
            f"warmup_steps are the first of total_steps: expected at least 1 in total and 0 to that many of warm-up, "
            f"got {total_steps} and {warmup_steps}"
        )
    if not 0 <= step <= total_steps:
        raise ValueError(f"step is a position in the training: expected 0 to {total_steps}, got {step}")
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if form == "cosine":
        # max: a training may consist of warm-up alone.
        progress = (step - warmup_steps) / max(total_steps - warmup_steps, 1)
        return (1 + math.cos(math.pi * progress)) / 2
    if form == "step":
        return float(0.1 ** sum(step >= milestone * total_steps for milestone in MILESTONES))
    return 1.0


def check_optimiser(name: str, lr: float, momentum: float, weight_decay: float) -> None:
    """Refuse impossible settings of `make_optimiser`."""
    if name not in OPTIMISERS:
        raise ValueError(
            f"optimiser is the name of an optimiser: expected one of {', '.join(OPTIMISERS)}, got {name}."
            f"{did_you_mean(name, OPTIMISERS)}"
        )
    if not 0 < lr < math.inf:
        raise ValueError(f"lr is the learning rate: expected a finite lr > 0, got {lr}")
    if not 0 <= momentum < 1:
        raise ValueError(
            f"momentum is the share of past gradients that is kept: expected 0 <= momentum < 1, got {momentum}"
        )
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay is the L2 penalty: expected a finite weight_decay >= 0, got {weight_decay}")
