"""A limit on the size that a packed file unpacks to. Without it, a small file could fill memory or disk."""

import gzip
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pucl.data.errors import DataError

VARIABLE = "PUCL_MAX_UNPACKED"
GIB = 2**30
DEFAULT = 0.25  # GiB; the size of an image at which Pillow begins to warn.
RATIO = 50  # Real arrays, images and text compress less than this; zeros about 1000 to 1.


def most_unpacked(path: Path) -> int:
    """The number of bytes that this file may unpack to.

    The limit is 0.25 GiB. ``--max-unpacked`` or the environment variable PUCL_MAX_UNPACKED sets another one, in GiB. A
    file may always unpack to 50 times its own size.
    """
    text = os.environ.get(VARIABLE) or str(DEFAULT)
    try:
        gib = float(text)
    except ValueError:
        gib = math.nan
    if not 0 <= gib < math.inf:
        raise ValueError(
            f"{VARIABLE} is the largest size of an unpacked file in GiB: expected a number, 0 or more, got {text!r}"
        )
    return max(int(gib * GIB), RATIO * path.stat().st_size)


@contextmanager
def unpacking_up_to(gib: float | None) -> Iterator[None]:
    """Set the limit in GiB inside the block, also for processes that are started there; None changes nothing."""
    before = os.environ.get(VARIABLE)
    if gib is not None:
        os.environ[VARIABLE] = str(gib)
    try:
        yield
    finally:
        if gib is not None:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before


def check_unpacked(path: Path, size: int) -> None:
    """Refuse a file that would unpack to too many bytes.

    Args:
        path: The packed file.
        size: Its unpacked size in bytes.
    """
    limit = most_unpacked(path)
    if size > limit:
        raise too_large(path, limit, f"{size / GIB:,.3g} GiB", f"{math.ceil(size / GIB)}")


def too_large(path: Path, limit: int, got: str, enough: str = "GIB") -> DataError:
    """The error about a file that would unpack to too many bytes."""
    return DataError(
        f"{path} of {path.stat().st_size:,} bytes would unpack to too much: expected at most {limit / GIB:.3g} GiB, "
        f"got {got}; if you trust the file, give --max-unpacked {enough}, or set the "
        f"environment variable {VARIABLE}"
    )


def read_gzip(path: Path) -> bytes:
    """Read a file that is packed with gzip."""
    limit = most_unpacked(path)
    try:
        with gzip.open(path) as file:
            content = file.read(limit + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not packed with gzip, or is cut off: {error}") from error
    if len(content) > limit:
        raise too_large(path, limit, "more")
    return content
