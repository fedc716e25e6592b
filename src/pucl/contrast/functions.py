"""What functions with gradients of their own share."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_signature(forward: _Function) -> _Function:
    """Keep the signature of a function with it.

    torch asks for that of ``forward`` whenever a function that has a ``setup_context`` is called; finding it out takes
    as long as ten small operations.
    """
    setattr(forward, "__signature__", inspect.signature(forward))  # noqa: B010 (functions have no such attribute)
    return forward
