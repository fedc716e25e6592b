"""Data sets appear whole or not at all, however many processes get them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pucl.data.errors import DataError


@contextmanager
def writing(name: str, root: Path) -> Iterator[None]:
    """Say what to do where the data root cannot be written to."""
    try:
        yield
    except PermissionError as error:
        raise DataError(
            f"data sets are kept in {root}, which cannot be written to ({error.strerror}): choose another data root "
            "with --root or the environment variable PUCL_DATA"
        ) from error
    except OSError as error:
        raise DataError(f"{name} could not be brought to {root}: {error.strerror or error}") from error


@contextmanager
def staging(name: str, root: Path) -> Iterator[Path]:
    """A directory beside the place to be, so that the last step is a rename; gone in the end, come what may."""
    directory = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".part", dir=root))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
