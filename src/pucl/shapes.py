"""Shapes as types: ``Float[Tensor, "anchor dim"]``.

They are checked while the tests run, by jaxtyping's import hook, and cost nothing otherwise: a plain
``import pucl`` needs neither jaxtyping nor the time to load it.
"""

import sys
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, UInt8
else:

    class _Unchecked:
        """Stands in for jaxtyping: ``Float[Tensor, "..."]`` is then simply ``Tensor``."""

        def __class_getitem__(cls, array_and_axes: tuple[Any, str]) -> Any:
            return array_and_axes[0]

    Bool = Float = Int = UInt8 = _Unchecked

__all__ = ["Bool", "Float", "Int", "Tensor", "UInt8"]
