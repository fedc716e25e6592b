"""Read ``.npz`` files from untrusted sources. The header of each array is checked before the array is unpacked."""

import math
import warnings
import zipfile
from collections.abc import Collection
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pucl.data.errors import DataError, reason_of
from pucl.data.unpacking import check_unpacked

PLAIN = "biufcSU"
"""numpy's kinds of types that are numbers or text."""

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
SUFFIX = ".npy"


def read_npz_arrays(path: Path, wanted: Collection[str]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Read arrays of numbers or text from a ``.npz`` file.

    The unpacked size is limited; see `pucl.data.unpacking.most_unpacked`.

    Args:
        path: The file.
        wanted: Names of arrays. Missing ones are skipped.

    Returns:
        The arrays by name, and the names of all members of the file.

    Raises:
        DataError: If the file or one of these arrays is damaged. The message names the file and the array.
        OSError: If the file cannot be opened.
    """
    with path.open("rb") as handle:
        try:
            opened = zipfile.ZipFile(handle)
        except Exception as error:  # A damaged or hostile file may raise any exception.
            reason = "it is one array without a name" if _begins_as_npy(handle) else reason_of(error)
            raise DataError(f"{path} is not a .npz file of plain arrays, or is damaged: {reason}") from error
        with opened:
            members = opened.infolist()
            names = [member.filename.removesuffix(SUFFIX) for member in members]
            chosen = {name: member for name, member in zip(names, members, strict=True) if name in wanted}
            if twice := sorted(name for name in chosen if names.count(name) > 1):
                raise DataError(f"{path} is damaged: it holds {twice[0]} {names.count(twice[0])} times")
            check_unpacked(path, sum(member.file_size for member in chosen.values()))
            return {name: _read(path, opened, name, member) for name, member in chosen.items()}, names


def _read(path: Path, opened: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> NDArray[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # About old forms of the header, which can still be read.
            with opened.open(member) as content:
                fault = _fault_in_header(content, member.file_size)
            if fault is None:
                with opened.open(member) as content:
                    return np.asarray(npy.read_array(content, allow_pickle=False))
    except MemoryError as error:
        raise DataError(f"{path}: {name} does not fit into memory: {member.file_size:,} bytes") from error
    except Exception as error:  # As above.
        raise DataError(f"{path}: {name} is not an array, or is damaged: {reason_of(error)}") from error
    raise DataError(f"{path}: {name} {fault}")


def _fault_in_header(content: IO[bytes] | BufferedIOBase, size: int) -> str | None:
    """Say why an array is refused: other types than numbers or text, or another size than its member of the archive."""
    if content.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
        return "is not an array: expected the format .npy"
    version = tuple(content.read(2))
    if version not in HEADERS:
        return f"is not a plain array: expected .npy of version 1.0 or 2.0, got {version}"
    shape, _, dtype = HEADERS[version](content)
    if dtype.kind not in PLAIN:
        return f"is not a plain array: expected numbers or text, got {dtype!s:.60}"
    if any(length < 0 for length in shape):
        return f"is damaged: expected axes of length 0 or more, got {shape!s:.60}"
    declared, actual = math.prod(shape) * dtype.itemsize, size - content.tell()
    if declared != actual:
        return f"is damaged: {dtype} of shape {shape!s:.60} has {declared:,} bytes, but the file holds {actual:,}"
    return None


def _begins_as_npy(handle: BufferedIOBase) -> bool:
    handle.seek(0)
    return handle.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
