"""What a known data set is: how large, in which files, where they may lie, where they come from, and who reads them."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.images.imageset import ImageData


@dataclass(frozen=True, kw_only=True)
class Form:
    """One of the forms in which a data set is passed on: a directory with these files.

    Args:
        files: Names that must all be there.
        places: Directories relative to the data root in which to look; the first is where pucl puts it.
    """

    files: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A data set on disk, and how it is wanted.

    Args:
        directory: Where the files of the form are.
        form: Which form they have; None for a data set that is not on disk.
        cache: Where arrays may be built that are too large for memory.
        image_size: Side in pixels that is wanted; None as it is.
    """

    directory: Path
    form: Form | None
    cache: Path
    image_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A known data set.

    Args:
        name: What users call it.
        images: How many pictures, as text: training + test.
        classes: Number of classes.
        size: Side in pixels.
        read: Reads it; raises DataError where a file is not what it should be.
        forms: In which files it may be there; empty where it comes with a package.
        downloads: Official files, all of them needed.
        npm: npm package that holds one of the forms, for where the official host cannot be reached.
        check: Looks whether files are whole before they are put in their place; by default `read`.
        elsewhere: Directories outside the data root where a system package puts it.
    """

    name: str
    images: str
    classes: int
    size: int
    read: Callable[[Found], ImageData]
    forms: tuple[Form, ...] = ()
    downloads: tuple[Download, ...] = ()
    npm: str | None = None
    check: Callable[[Found], object] | None = None
    elsewhere: tuple[Path, ...] = ()

    def find(self, root: Path) -> tuple[Path, Form] | None:
        """The directory that has all files of a form, and that form; None if there is none."""
        for form in self.forms:
            for directory in (*(root / place for place in form.places), root, *self.elsewhere):
                if all((directory / file).is_file() for file in form.files):
                    return directory, form
        return None

    def missing(self, root: Path) -> str | None:
        """Which files are missing where some are there: a copy or an extraction that broke off."""
        for form in self.forms:
            for directory in (root / place for place in form.places):
                lacking = [file for file in form.files if not (directory / file).is_file()]
                if 0 < len(lacking) < len(form.files):
                    return f"{directory} is there without {', '.join(lacking)}"
        return None


def read_checked(path: Path, sums: Mapping[str, str] | None) -> bytes:
    """The bytes of a file, once their md5 sum is known to be right.

    Args:
        path: The file.
        sums: md5 sums by file name; None checks nothing.
    """
    content = path.read_bytes()
    if sums is not None and (found := md5_of(content)) != sums[path.name]:
        raise DataError(
            f"{path} is not the official file, or is damaged: expected md5 {sums[path.name]}, got {found} "
            f"({len(content):,} bytes)"
        )
    return content


def md5_of(content: bytes) -> str:
    """The md5 sum; it tells damage, and official files are published with it."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
