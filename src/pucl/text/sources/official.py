"""Files of a published data set, with their check sums."""

from pathlib import Path

from pucl.data.download import Download, fault_of
from pucl.data.errors import DataError
from pucl.data.source import Found


def checked_paths(found: Found, downloads: tuple[Download, ...]) -> list[Path]:
    """The files that were found, in the order of their downloads. Raises DataError if one is not the official file."""
    paths = [found.directory / file for file in (found.form.files if found.form else ())]
    for path, download in zip(paths, downloads, strict=True):
        if fault := fault_of(path, download):
            raise DataError(f"{path} is {fault}")
    return paths
