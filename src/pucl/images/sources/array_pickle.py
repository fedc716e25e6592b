"""Read a pickle that holds arrays, bytes, text, numbers, lists and dicts, and refuse every other.

A pickle is a program: reading one can run anything. The official CIFAR files are pickles, so they are read by a machine
from which all but three constructors have been taken away. Even these are replaced by our own, which only write down
what they are given: numpy's own would take a damaged type at its word, and crash.
"""

import io
import math
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError, reason_of

NUMBERS = ("u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f4", "f8")
"""Types of numbers that an array may have, without the order of their bytes."""


class _ArrayKind:
    """Stands for the class ``numpy.ndarray``, so that a pickle can name it but not call it."""


class _Type:
    """A type of numbers, as a pickle describes it: made from its name, then told the order of bytes."""

    def __init__(self, name: Any, _align: object = False, _copy: object = True) -> None:
        text = name.decode("ascii") if isinstance(name, bytes) else name
        if text not in NUMBERS:
            raise pickle.UnpicklingError(f"arrays of numbers are admitted, not of {text!r}")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError(f"the order of bytes is <, >, | or =, not {order!r}")
        self.dtype = np.dtype(f"{order}{self.dtype.str[1:]}")


class _Array:
    """An array, as a pickle describes it: made empty, then told its shape, type and bytes."""

    def __init__(self, kind: object, _shape: object, _code: object) -> None:
        if kind is not _ArrayKind:
            raise pickle.UnpicklingError("an array of another kind than numpy's own")
        self.array: NDArray[Any] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, kind, fortran, content = state
        if not isinstance(kind, _Type) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array without a type of numbers, or without bytes")
        if math.prod(shape) * kind.dtype.itemsize != len(content) or any(length < 0 for length in shape):
            raise pickle.UnpicklingError(f"an array whose {len(content):,} bytes are not those of its shape")
        self.array = np.frombuffer(content, kind.dtype).reshape(shape, order="F" if fortran else "C")


ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _ArrayKind,
    ("numpy", "dtype"): _Type,
}
"""All that a pickle may name, and what it gets."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}; only numpy arrays are admitted") from None


def read_array_pickle(content: bytes, origin: str) -> dict[str, Any]:
    """The dict that a pickle holds, with text as its keys.

    Args:
        content: The pickle. Text that Python 2 wrote comes out as bytes.
        origin: Where it came from, for the error.
    """
    try:
        value = _ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
        if isinstance(value, dict):
            return {
                key.decode() if isinstance(key, bytes) else str(key): item.array if isinstance(item, _Array) else item
                for key, item in value.items()
            }
    except Exception as error:  # A hostile or cut pickle may fail in any way, and all mean the same.
        raise DataError(f"{origin} is not a pickle of plain arrays, or is cut off: {reason_of(error)}") from error
    raise DataError(f"{origin} should hold a dict of arrays and lists, and holds a {type(value).__name__}")
