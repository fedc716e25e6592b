"""How much a packed file may unpack to, so that a few megabytes cannot fill memory or disk."""

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
DEFAULT = 0.25  # GiB: as many bytes as a picture may have before Pillow warns of it.
RATIO = 50  # Real arrays, pictures and text pack less tightly; zeros pack about 1000 to 1.
CHUNK = 1 << 20


def most_unpacked(path: Path) -> int:
    """How many bytes this file may unpack to.

    The limit is 0.25 GiB, or as many GiB as ``--max-unpacked`` or the environment variable PUCL_MAX_UNPACKED says; a
    file may always unpack to 50 times its own size.
    """
    text = os.environ.get(VARIABLE) or str(DEFAULT)
    try:
        gib = float(text)
    except ValueError:
        gib = math.nan
    if not 0 <= gib < math.inf:
        raise ValueError(f"{VARIABLE} is how many GiB a file may unpack to: expected a number, 0 or more, got {text!r}")
    return max(int(gib * GIB), RATIO * path.stat().st_size)


@contextmanager
def unpacking_up_to(gib: float | None) -> Iterator[None]:
    """Let files unpack to so many GiB for a while, also in processes that are started; None changes nothing."""
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
        size: How many bytes it would unpack to.
    """
    limit = most_unpacked(path)
    if size > limit:
        raise too_large(path, limit, f"{size / GIB:,.3g} GiB", f"{math.ceil(size / GIB)}")


def too_large(path: Path, limit: int, got: str, enough: str = "GIB") -> DataError:
    """The error for a file that would unpack to too many bytes."""
    return DataError(
        f"{path} would unpack to more than its {path.stat().st_size:,} bytes should hold: expected at most "
        f"{limit / GIB:.3g} GiB, got {got}; if you trust the file, give --max-unpacked {enough}, or set the "
        f"environment variable {VARIABLE}"
    )


def read_gzip(path: Path) -> bytes:
    """The content of a file that is packed with gzip."""
    limit, content = most_unpacked(path), bytearray()
    try:
        with gzip.open(path) as file:
            while chunk := file.read(CHUNK):
                content += chunk
                if len(content) > limit:
                    raise too_large(path, limit, "more")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not packed with gzip, or is cut off: {error}") from error
    return bytes(content)
