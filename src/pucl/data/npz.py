"""Read ``.npz`` files that nobody vouches for: each array is checked by its header before it is unpacked."""

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
"""Kinds of numpy's types that are numbers or text."""

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
SUFFIX = ".npy"


class _NotPlainError(ValueError):
    """Says why a member is not an array that can be read."""


def read_npz_arrays(path: Path, wanted: Collection[str]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Some arrays of a ``.npz`` file, of numbers or text.

    What the file would unpack to is bounded, see `pucl.data.unpacking.most_unpacked`.

    Args:
        path: The file.
        wanted: Names of arrays; those that are not there are left out.

    Returns:
        The arrays by name, and the names of everything that the file holds.

    Raises:
        DataError: If the file, or one of these arrays, is damaged or not what it should be. It names the file and,
            where it is about one array, the array.
        OSError: If the file cannot be opened.
    """
    with path.open("rb") as handle:
        try:
            opened = zipfile.ZipFile(handle)
        except Exception as error:  # A hostile or cut file may fail in any way, and all mean the same.
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
            warnings.simplefilter("ignore")  # Of old forms of the header, which are read all the same.
            with opened.open(member) as content:
                _check_header(content, member.file_size)
            with opened.open(member) as content:
                return np.asarray(npy.read_array(content, allow_pickle=False))
    except _NotPlainError as error:
        raise DataError(f"{path}: {name} {error}") from error
    except MemoryError as error:
        raise DataError(f"{path}: {name} does not fit into this memory: {member.file_size:,} bytes") from error
    except Exception as error:  # As above.
        raise DataError(f"{path}: {name} is not an array, or is damaged: {reason_of(error)}") from error


def _check_header(content: IO[bytes] | BufferedIOBase, size: int) -> None:
    """Refuse an array that is not of numbers or text, or not as large as its member of the archive."""
    if content.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
        raise _NotPlainError("is not an array: expected a member in the format .npy, got another")
    version = tuple(content.read(2))
    if version not in HEADERS:
        raise _NotPlainError(f"is not a plain array: expected .npy of version 1.0 or 2.0, got {version}")
    shape, _, dtype = HEADERS[version](content)
    if dtype.kind not in PLAIN:
        raise _NotPlainError(f"is not a plain array: expected numbers or text, got {_short(dtype)}")
    if any(length < 0 for length in shape):
        raise _NotPlainError(f"is damaged: lengths of axes are 0 or more, got {_short(shape)}")
    declared, there = math.prod(shape) * dtype.itemsize, size - content.tell()
    if declared != there:
        raise _NotPlainError(
            f"is damaged: {dtype} of shape {_short(shape)} has {declared:,} bytes, and the file holds {there:,}"
        )


def _begins_as_npy(handle: BufferedIOBase) -> bool:
    handle.seek(0)
    return handle.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
