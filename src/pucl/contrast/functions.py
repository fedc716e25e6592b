"""Small things that functions on tensors share."""

import contextlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])


def signed(forward: _Function) -> _Function:
    """Keep the signature of a function with it.

    torch asks for that of ``forward`` whenever a function that has a ``setup_context`` is called; finding it out takes
    as long as ten small operations.
    """
    setattr(forward, "__signature__", inspect.signature(forward))  # noqa: B010 (functions have no such attribute)
    return forward


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Keep torch.autocast from halving the precision, for the span of a `with`; nothing, where it is off."""
    if not torch.is_autocast_enabled(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
