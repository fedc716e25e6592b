"""What the backward passes share: stored inputs, and memory for the gradients of queries and keys.

Passes over the logits are custom operators, so that torch.compile leaves them whole. A backward operator takes the
inputs of the forward one, some of its outputs, their gradients, and whether queries and keys need a gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from pucl.shapes import Tensor


def zero_gradients(query: Tensor, key: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    """Zeros for both gradients. The last two settings say which are needed; the other gets no elements.

    As a "fake" implementation, this is also all that a compiler needs to know of a backward pass.
    """
    of_query, of_key = settings[-2:]
    return (
        torch.zeros_like(query) if of_query else query.new_empty(0),
        torch.zeros_like(key) if of_key else key.new_empty(0),
    )


def add_gradients(
    gradients: tuple[Tensor, Tensor],
    slopes: Tensor,
    query: Tensor,
    key: Tensor,
    rows: slice,
    columns: slice,
    *,
    mirrored: bool = False,
) -> None:
    """Add the part of one tile to the gradients from `zero_gradients`, given the slopes of its logits.

    With `mirrored` queries and keys are the same, and only tiles on and above the diagonal are computed. The gradient
    of the queries then holds both.
    """
    of_query, of_key = gradients
    if len(of_query):
        of_query[rows].addmm_(slopes, key[columns])
        if mirrored and rows != columns:
            of_query[columns].addmm_(slopes.T, query[rows])
    if len(of_key):
        of_key[columns].addmm_(slopes.T, query[rows])


def save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor | tuple[Tensor, ...]) -> None:
    """Store inputs and outputs for `run_backward`; tensors through autograd."""
    outputs = (output,) if isinstance(output, torch.Tensor) else output
    ctx.save_for_backward(*(value if isinstance(value, torch.Tensor) else None for value in inputs), *outputs)
    ctx.settings = [None if isinstance(value, torch.Tensor) else value for value in inputs]


def run_backward(
    backward: Callable[..., tuple[Tensor, Tensor]], ctx: Any, *gradients: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs. The first two are queries and keys; the others have none."""
    tensors, outputs = ctx.saved_tensors[: len(ctx.settings)], ctx.saved_tensors[len(ctx.settings) :]
    inputs = [setting if tensor is None else tensor for tensor, setting in zip(tensors, ctx.settings, strict=True)]
    of_query, of_key = ctx.needs_input_grad[:2]
    query_gradient, key_gradient = backward(*inputs, *outputs, *gradients, of_query, of_key)
    others = [None] * (len(ctx.needs_input_grad) - 2)
    return query_gradient if of_query else None, key_gradient if of_key else None, *others


def connect(operator: Any, backward: Any) -> None:
    """Register `backward` as the gradient of `operator`."""
    backward.register_fake(zero_gradients)
    operator.register_autograd(partial(run_backward, backward), setup_context=save_inputs)
