"""Where data sets are kept."""

import os
from pathlib import Path

from pucl.data.errors import DataError

ROOT_VARIABLE = "PUCL_DATA"


class DataMissingError(DataError):
    """A data set, known or not, that is not there."""


def data_root(root: Path | None = None) -> Path:
    """Where data sets are kept: what was given, else the environment variable PUCL_DATA, else ``~/.cache/pucl``."""
    if root is not None:
        return root.expanduser()
    return Path(os.environ.get(ROOT_VARIABLE) or "~/.cache/pucl").expanduser()
