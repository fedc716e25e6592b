"""The data root: the directory in which data sets are kept."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pucl.data.errors import DataError

ROOT_VARIABLE = "PUCL_DATA"


class DataMissingError(DataError):
    """There is no data set of this name, or its files are missing."""


def data_root(root: Path | None = None) -> Path:
    """The given directory, else that of the environment variable PUCL_DATA, else ``~/.cache/pucl``."""
    if root is not None:
        return root.expanduser()
    return Path(os.environ.get(ROOT_VARIABLE) or "~/.cache/pucl").expanduser()


@contextmanager
def writing(name: str, root: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a DataError that says what was written where, and what to do."""
    try:
        yield
    except PermissionError as error:
        raise DataError(
            f"{name} cannot be written to {root} ({error.strerror}): choose another data root with --root or the "
            f"environment variable {ROOT_VARIABLE}"
        ) from error
    except OSError as error:
        raise DataError(
            f"{name} could not be written to {root}: {error.strerror or error}. No incomplete files were left there"
        ) from error


@contextmanager
def staging(name: str, root: Path) -> Iterator[Path]:
    """A temporary directory in the data root, so that the last step is a rename. It is always deleted."""
    directory = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".part", dir=root))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
