"""Read a pickle that holds arrays, bytes, text, numbers, lists and dicts, and refuse every other.

A pickle is a program: reading one can run anything. The official CIFAR files are pickles, so they are read by a machine
from which all but three constructors have been taken away. Even these are replaced by our own, which make nothing
but an empty array and a plain number type.
"""

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.images import DataError


class _ArrayKind:
    """Stands for the class ``numpy.ndarray``, so that a pickle can name it but not call it."""


def _empty_array(kind: object, _shape: object, _code: object) -> NDArray[Any]:
    if kind is not _ArrayKind:
        raise pickle.UnpicklingError("an array of another kind than numpy's own")
    return np.ndarray((0,), "b")


def _number_type(name: Any, _align: object = False, _copy: object = True) -> np.dtype[Any]:
    text = name.decode("ascii") if isinstance(name, bytes) else name
    if text not in ("u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f4", "f8"):
        raise pickle.UnpicklingError(f"arrays of numbers are admitted, not of {text!r}")
    return np.dtype(text, copy=True)


ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _ArrayKind,
    ("numpy", "dtype"): _number_type,
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
            return {key.decode() if isinstance(key, bytes) else str(key): item for key, item in value.items()}
    except Exception as error:  # A hostile or cut pickle may fail in any way, and all mean the same.
        raise DataError(f"{origin} is not a pickle of plain arrays, or is cut off: {error}") from error
    raise DataError(f"{origin} should hold a dict of arrays and lists, and holds a {type(value).__name__}")
