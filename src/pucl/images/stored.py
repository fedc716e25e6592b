"""Arrays of images on disk, which are built once and then mapped into memory. They may be larger than memory.

An entry is a directory with ``pixels.bin`` and ``about.json``. It is built under another name and renamed when it is
complete, so no reader finds an incomplete one. Bytes are appended to a file, not written through a memory map: then a
full disk raises an error, while through a map it kills the process (SIGBUS).
"""

import fcntl
import json
import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.root import staging, writing

PIXELS, ABOUT = "pixels.bin", "about.json"
CHECKSUM = "crc32"  # Key in about.json.
BLOCK = 1 << 24  # Bytes to read at a time.


@dataclass(frozen=True, eq=False)
class Stored:
    """An array on disk, and the record that its builder returned."""

    directory: Path
    pixels: NDArray[np.uint8]
    about: dict[str, Any]


Build = Callable[[Callable[[NDArray[np.uint8]], None]], dict[str, Any]]
"""A builder: ``build(append)`` calls ``append`` with images and returns a record about them."""


def stored(directory: Path, image_shape: tuple[int, int, int], build: Build) -> Stored:
    """Open the array in this directory; build it first if it is not there.

    If several processes ask for the same array, one builds it and the others wait. The name of the directory says what
    the array is made from. The builder must raise DataError for files that it cannot read: an OSError is reported as a
    failure to write.
    """
    if (entry := _open(directory, image_shape)) is not None:
        return entry
    with writing("the array of images", directory.parent):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _locked(directory):
            if (entry := _open(directory, image_shape)) is None:  # Another process may have built it meanwhile.
                _build(directory, image_shape, build)
                entry = _open(directory, image_shape)
    if entry is None:
        raise DataError(f"{directory} was built but cannot be read back: check the disk")
    return entry


def _open(directory: Path, image_shape: tuple[int, int, int]) -> Stored | None:
    path = directory / PIXELS
    try:
        about = json.loads((directory / ABOUT).read_text())
        shape = (int(about["pictures"]), *image_shape)
        if path.stat().st_size != math.prod(shape) or _checksum(path) != about[CHECKSUM]:
            return None
        return Stored(directory, np.memmap(path, np.uint8, "r", shape=shape), about)
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None  # It is missing or damaged, and is built again.


def _checksum(path: Path) -> int:
    """The CRC-32 of a file; it takes about a second per gigabyte."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _build(directory: Path, image_shape: tuple[int, int, int], build: Build) -> None:
    for leftover in directory.parent.glob(f".{directory.name}.*.part"):  # Of a killed process: we hold the lock.
        shutil.rmtree(leftover, ignore_errors=True)
    count = checksum = 0

    def append(pixels: NDArray[np.uint8]) -> None:
        nonlocal count, checksum
        if pixels.dtype != np.uint8 or pixels.shape[1:] != image_shape:
            raise DataError(f"images to store are uint8 {list(image_shape)}, got {pixels.dtype} {list(pixels.shape)}")
        content = np.ascontiguousarray(pixels).data
        file.write(content)
        checksum = zlib.crc32(content, checksum)
        count += len(pixels)

    with staging(directory.name, directory.parent) as part:
        with (part / PIXELS).open("wb") as file:
            about = build(append)
        kept = {"pictures": count, CHECKSUM: checksum, **about}
        (part / ABOUT).write_text(json.dumps(kept, indent=1))
        if directory.exists():
            shutil.rmtree(directory)  # A damaged entry.
        part.chmod(0o755)  # Temporary directories are private, but a data root may be shared.
        part.replace(directory)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let one process in at a time. Without file locks all may enter: each builds the array, which is only slower."""
    descriptor = os.open(directory.with_name(f".{directory.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with suppress(OSError):  # Some network file systems have no locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
