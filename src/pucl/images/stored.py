"""Arrays on disk that are built once and then only mapped, so that a set larger than memory is one array too.

An entry is a directory with ``pixels.bin`` and ``about.json``. It is built under another name and renamed when it is
whole: it is there entirely, or not at all. Bytes are appended to a file rather than written through a map, since a
full disk is then an error that can be caught; through a map it kills the process (SIGBUS).
"""

import json
import math
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError

PIXELS, ABOUT = "pixels.bin", "about.json"
CHECKSUM = "crc32"  # In the note: that of the pixels.
BLOCK = 1 << 24  # Bytes that are read at a time.


@dataclass(frozen=True, eq=False)
class Stored:
    """An array on disk, and what its builder wrote down about it."""

    directory: Path
    pixels: NDArray[np.uint8]
    about: dict[str, Any]


Build = Callable[[Callable[[NDArray[np.uint8]], None]], dict[str, Any]]
"""A builder: it gets a function that appends pictures, and returns what is to be known about them."""


def stored(directory: Path, picture_shape: tuple[int, int, int], build: Build) -> Stored:
    """The array in this directory; built first if it is not there, by one process while others wait.

    Args:
        directory: Where the entry is, or will be. Its name says what it was made from.
        picture_shape: Channels, height, width.
        build: Appends all pictures; called only if there is no entry. What it cannot read it reports as DataError:
            an OSError is taken for one of writing.
    """
    if (entry := _open(directory, picture_shape)) is not None:
        return entry
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _alone(directory):
            if (entry := _open(directory, picture_shape)) is None:  # Another may have built it while we waited.
                _build(directory, picture_shape, build)
                entry = _open(directory, picture_shape)
    except PermissionError as error:
        raise DataError(
            f"arrays of pictures are kept in {directory.parent}, which cannot be written to ({error.strerror}): choose "
            "another data root with --root or the environment variable PUCL_DATA"
        ) from error
    except OSError as error:
        raise DataError(
            f"the array of pictures could not be written to {directory.parent}: {error.strerror or error}. Nothing "
            "half-written was left there"
        ) from error
    if entry is None:
        raise DataError(f"{directory} was built and cannot be read back; is the disk in order?")
    return entry


def _open(directory: Path, picture_shape: tuple[int, int, int]) -> Stored | None:
    path = directory / PIXELS
    try:
        about = json.loads((directory / ABOUT).read_text())
        shape = (int(about["pictures"]), *picture_shape)
        if path.stat().st_size != math.prod(shape) or _checksum(path) != about[CHECKSUM]:
            return None
        return Stored(directory, np.memmap(path, np.uint8, "r", shape=shape), about)
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None  # Not there, or not as we wrote it: then it is built.


def _checksum(path: Path) -> int:
    """The CRC-32 of a file, which a changed bit changes; a second for each gigabyte."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _build(directory: Path, picture_shape: tuple[int, int, int], build: Build) -> None:
    prefix = f".{directory.name}."
    for leftover in directory.parent.glob(f"{prefix}*.part"):  # Of a process that was killed: we alone are building.
        shutil.rmtree(leftover, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=directory.parent))
    try:
        with (part / PIXELS).open("wb") as file:
            written = _Appending(file, picture_shape)
            about = build(written.append)
        kept = {"pictures": written.pictures, CHECKSUM: written.checksum, **about}
        (part / ABOUT).write_text(json.dumps(kept, indent=1))
        if directory.exists():
            shutil.rmtree(directory)  # It was there and could not be read.
        part.chmod(0o755)  # Temporary directories are private; a shared data root is not.
        part.replace(directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)


class _Appending:
    def __init__(self, file: BinaryIO, picture_shape: tuple[int, int, int]) -> None:
        self._file, self._shape = file, picture_shape
        self.pictures = 0
        self.checksum = 0

    def append(self, pixels: NDArray[np.uint8]) -> None:
        """Append pictures [n, channels, height, width]."""
        if pixels.dtype != np.uint8 or pixels.shape[1:] != self._shape:
            raise DataError(f"pictures to store are uint8 {list(self._shape)}, got {pixels.dtype} {list(pixels.shape)}")
        content = np.ascontiguousarray(pixels).data
        self._file.write(content)
        self.checksum = zlib.crc32(content, self.checksum)
        self.pictures += len(pixels)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Let one process after the other in; where the system has no locks, all of them, which is slow but right."""
    try:
        import fcntl  # noqa: PLC0415
    except ImportError:
        yield
        return
    descriptor = os.open(directory.with_name(f".{directory.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with suppress(OSError):  # Some network file systems have no locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
