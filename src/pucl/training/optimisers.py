"""Adam, SGD and LARS by name, and their step size as a function of the position alone."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from pucl.texts import did_you_mean

Schedule = Literal["cosine", "constant", "step"]

SCHEDULES: tuple[Schedule, ...] = ("cosine", "constant", "step")
MILESTONES = (1 / 2, 2 / 3, 5 / 6)  # CMC's: epochs 120, 160 and 200 of 240.
DECAY = 0.1


class LARS(Optimizer):
    r"""Stochastic gradient descent whose step in each layer is a fixed share of that layer's weights.

    With gradient g, weights w and velocity v of one parameter,

    .. math::
        u = g + \lambda w, \quad
        r = \eta\, \lVert w \rVert / \lVert u \rVert, \quad
        v \leftarrow m v + \gamma\, r\, u, \quad
        w \leftarrow w - v.

    The trust ratio r is 1 where either norm is zero. Biases and the parameters of norms, which is to say those with
    at most one axis, have neither weight decay nor trust ratio: :math:`u = g` and :math:`r = 1`.

    Args:
        parameters: What is trained.
        lr: :math:`\gamma > 0`. The step size goes into the velocity, as in the reference: after a change of it, what
            the velocity holds keeps its old size. (In `torch.optim.SGD` it changes size as well.)
        momentum: m, the share of the velocity that stays, 0 <= m < 1.
        weight_decay: :math:`\lambda \ge 0`.
        trust: :math:`\eta > 0`.

    Reference:
        You et al., Large Batch Training of Convolutional Networks, 2017, as in google-research/simclr
        (`lars_optimizer.py`: classic momentum, no Nesterov).
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 1e-6,
        trust: float = 1e-3,
    ) -> None:
        _check(lr, momentum, weight_decay)
        if not trust > 0:
            raise ValueError(f"trust is the share of a layer's weights that a step may be: expected > 0, got {trust}")
        everything = list(parameters)
        groups = [
            {"params": [p for p in everything if p.ndim > 1], "weight_decay": weight_decay, "adapt": True},
            {"params": [p for p in everything if p.ndim <= 1], "weight_decay": 0.0, "adapt": False},
        ]
        defaults = {"lr": lr, "momentum": momentum, "trust": trust}
        super().__init__([group for group in groups if group["params"]], defaults)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._move(weights, group)
        return loss

    def _move(self, weights: nn.Parameter, group: dict[str, Any]) -> None:
        assert weights.grad is not None  # noqa: S101 - for the type checker: the caller has looked.
        update = weights.grad
        if group["weight_decay"]:
            update = update.add(weights, alpha=group["weight_decay"])
        if group["adapt"]:
            # On the device throughout: asking a GPU for the norms would wait for it, layer by layer.
            size, length = torch.linalg.vector_norm(weights), torch.linalg.vector_norm(update)
            ratio = torch.where((size > 0) & (length > 0), group["trust"] * size / length, 1.0)
            update = update * ratio
        state = self.state[weights]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(weights)
        velocity = state["velocity"].mul_(group["momentum"]).add_(update, alpha=group["lr"])
        weights.sub_(velocity)


def _adam(parameters: list[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> Optimizer:
    # Fused is one pass over the weights where torch's default is a dozen.
    return Adam(parameters, lr=lr, betas=(momentum, 0.999), weight_decay=weight_decay, fused=True)


def _sgd(parameters: list[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> Optimizer:
    # Not fused: that form leaves its momentum unset where a gradient scaler skips the first step.
    return SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)


OPTIMISERS: dict[str, Callable[[list[nn.Parameter], float, float, float], Optimizer]] = {
    "adam": _adam,
    "sgd": _sgd,
    "lars": LARS,
}


def make_optimiser(
    name: str,
    parameters: Iterable[nn.Parameter],
    lr: float,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
) -> Optimizer:
    r"""The optimiser of this name.

    Args:
        name: adam, sgd or lars.
        parameters: What is trained; those that need no gradient are left out.
        lr: The step size at its largest, > 0. `schedule` says which share of it holds at a step.
        momentum: The share of the running mean of gradients that stays, 0 <= momentum < 1; Adam's :math:`\beta_1`.
        weight_decay: :math:`\lambda \ge 0`; the gradient becomes :math:`g + \lambda w`. Adam and SGD decay every
            parameter, as the references do, LARS only those with more than one axis.

    Note:
        The references: SimCLR with Adam 1e-3 and weight decay 1e-6, or LARS 1.0 and 1e-6; MoCo with SGD .06 at
        batch 512 and 5e-4; CMC with SGD .03 and 1e-4.
    """
    check_optimiser(name, lr, momentum, weight_decay)
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        raise ValueError("parameters are what is trained: expected at least one that needs a gradient, got none")
    return OPTIMISERS[name](trained, lr, momentum, weight_decay)


def schedule(
    step: int,
    total_steps: int,
    warmup_steps: int = 0,
    kind: Schedule = "cosine",
    *,
    milestones: tuple[float, ...] = MILESTONES,
    decay: float = DECAY,
) -> float:
    r"""The share of the full step size that holds at a step: a function of the position, so there is nothing to save.

    With s the step from 0, T the total and W the steps of warm-up, it is :math:`(s + 1) / W` while s < W, and then

    .. math::
        \text{cosine: } \tfrac12 \Bigl(1 + \cos \pi \frac{s - W}{T - W}\Bigr), \quad
        \text{constant: } 1, \quad
        \text{step: } d^{\,\#\{\text{milestones} \le s / T\}}.

    Args:
        step: s, the steps made so far, 0 <= s <= T.
        total_steps: T, of the whole training.
        warmup_steps: W, 0 <= W <= T.
        kind: cosine, constant or step.
        milestones: Where the step size falls, as shares of the training; only for `step`.
        decay: d, what it falls to each time, as a share; only for `step`.

    Example:
        >>> [round(schedule(s, 10, warmup_steps=2), 3) for s in (0, 1, 2, 6, 10)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    if kind not in SCHEDULES:
        raise ValueError(f"kind is how the step size changes: expected one of {', '.join(SCHEDULES)}, got {kind}")
    if total_steps < 1 or not 0 <= warmup_steps <= total_steps:
        raise ValueError(
            f"warmup_steps are the first of total_steps: expected at least 1 in total and 0 to that many of warm-up, "
            f"got {total_steps} and {warmup_steps}"
        )
    if not 0 <= step <= total_steps:
        raise ValueError(f"step is a position in the training: expected 0 to {total_steps}, got {step}")
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if kind == "cosine":
        # A training that is all warm-up ends where it began to fall.
        progress = (step - warmup_steps) / max(total_steps - warmup_steps, 1)
        return (1 + math.cos(math.pi * progress)) / 2
    if kind == "step":
        return float(decay ** sum(step >= milestone * total_steps for milestone in milestones))
    return 1.0


def check_optimiser(name: str, lr: float, momentum: float, weight_decay: float) -> None:
    """Refuse what `make_optimiser` cannot make."""
    if name not in OPTIMISERS:
        raise ValueError(
            f"optimiser names a rule of descent: expected one of {', '.join(OPTIMISERS)}, got {name}."
            f"{did_you_mean(name, OPTIMISERS)}"
        )
    _check(lr, momentum, weight_decay)


def _check(lr: float, momentum: float, weight_decay: float) -> None:
    if not 0 < lr < math.inf:
        raise ValueError(f"lr is the step size: expected a finite lr > 0, got {lr}")
    if not 0 <= momentum < 1:
        raise ValueError(
            f"momentum is the share of past gradients that stays: expected 0 <= momentum < 1, got {momentum}"
        )
    if not 0 <= weight_decay < math.inf:
        raise ValueError(
            f"weight_decay is how hard weights are drawn to zero: expected a finite weight_decay >= 0, "
            f"got {weight_decay}"
        )
