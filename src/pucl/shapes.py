"""Shapes as types: ``Float[Tensor, "anchor dim"]``.

The tests check them with jaxtyping. Otherwise jaxtyping is not imported, and ``Float[Tensor, "..."]`` is ``Tensor``.
"""

import sys
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, UInt8
else:

    class _Unchecked:
        """Takes the place of jaxtyping's types."""

        def __class_getitem__(cls, array_and_axes: tuple[Any, str]) -> Any:
            return array_and_axes[0]

    Bool = Float = Int = UInt8 = _Unchecked

__all__ = ["Bool", "Float", "Int", "Tensor", "UInt8"]
