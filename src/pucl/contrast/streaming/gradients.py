"""What the backward passes share: the inputs they find again, and room for the gradients of queries and keys.

Passes over the logits are operators of their own, so that torch.compile leaves them whole. The way back takes the
inputs of the way forth, what it needs of the outputs, their gradients, and whether queries and keys want theirs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from pucl.shapes import Tensor


def room(query: Tensor, key: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    """Room for both gradients, none for one that is not wanted: the last two settings say it.

    It is also all that a compiler needs to know of a backward pass.
    """
    of_query, of_key = settings[-2:]
    return (
        torch.empty_like(query) if of_query else query.new_empty(0),
        torch.empty_like(key) if of_key else key.new_empty(0),
    )


def remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor | tuple[Tensor, ...]) -> None:
    """Keep inputs and outputs for `go_back`; tensors where autograd looks after them."""
    outputs = (output,) if isinstance(output, torch.Tensor) else output
    ctx.save_for_backward(*(value if isinstance(value, torch.Tensor) else None for value in inputs), *outputs)
    ctx.settings = [None if isinstance(value, torch.Tensor) else value for value in inputs]


def go_back(
    backward: Callable[..., tuple[Tensor, Tensor]], ctx: Any, *gradients: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs: queries and keys come first, and no others have one."""
    tensors, outputs = ctx.saved_tensors[: len(ctx.settings)], ctx.saved_tensors[len(ctx.settings) :]
    inputs = [setting if tensor is None else tensor for tensor, setting in zip(tensors, ctx.settings, strict=True)]
    of_query, of_key = ctx.needs_input_grad[:2]
    query_gradient, key_gradient = backward(*inputs, *outputs, *gradients, of_query, of_key)
    others = [None] * (len(ctx.needs_input_grad) - 2)
    return query_gradient if of_query else None, key_gradient if of_key else None, *others


def connect(operator: Any, backward: Any) -> None:
    """Make the one operator the way back of the other."""
    backward.register_fake(room)
    operator.register_autograd(partial(go_back, backward), setup_context=remember)
