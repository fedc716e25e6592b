"""List a folder of pictures: its files, their classes, and which are for training and for tests."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data.choosing import order_for_split
from pucl.data.errors import DataError
from pucl.images.sources.picture import SUFFIXES

TRAIN = "train"
TESTS = ("test", "val", "valid", "validation")  # The first one that exists is the test set.


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing:
    """Picture files in the order in which they will be stored.

    Args:
        files: Path relative to the folder, size in bytes and time of change of each. The stored array depends on these.
        labels: The class of each; None if the folder has no classes.
        classes: Names of the classes.
        quantiles: Quantile of each in its class, see `order_for_split`; below 0 for files of the test folder.
        notes: Which folders were skipped.
    """

    files: tuple[tuple[str, int, int], ...]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    quantiles: NDArray[np.float64]
    notes: tuple[str, ...] = ()


def list_pictures(folder: Path) -> Listing:
    """Find all pictures of a folder. Its sub-folders are the classes.

    ``folder/CLASS/...`` has labels, ``folder/*.png`` has none. ``folder/train/`` and ``folder/test/`` (or ``val/``,
    ``valid/``, ``validation/``) may have either layout.
    """
    files = sorted(_walk(folder))
    if not files:
        raise DataError(
            f"{folder} holds no pictures: expected files that end in {', '.join(sorted(SUFFIXES))}, in it or in one "
            "sub-folder for each class"
        )
    tops = {_top(name) for name, _, _ in files}
    if TRAIN not in tops or not tops <= {TRAIN, *TESTS}:
        _check_classes(tops, folder)
        return _arranged(files, [_top(name) for name, _, _ in files], folder)

    test = next((name for name in TESTS if name in tops), None)
    notes = tuple(f"{folder / top} was skipped: {test} is the test set" for top in sorted(tops - {TRAIN, test}))
    training = [file for file in files if _top(file[0]) == TRAIN]
    listing = _arranged(training, [_top(_below(name)) for name, _, _ in training], folder / TRAIN)
    if test is None:
        return replace(listing, notes=notes)
    if listing.labels is None:
        return replace(listing, notes=(*notes, f"{folder / test} was skipped: pictures in {TRAIN} have no labels"))
    testing = [file for file in files if _top(file[0]) == test]
    subfolders = [_top(_below(name)) for name, _, _ in testing]
    if unknown := sorted({subfolder or "no sub-folder" for subfolder in subfolders} - set(listing.classes)):
        raise DataError(f"{folder / test} has classes that are not in {TRAIN}: {', '.join(unknown)}")
    return Listing(
        files=(*listing.files, *testing),
        labels=np.concatenate([listing.labels, [listing.classes.index(subfolder) for subfolder in subfolders]]),
        classes=listing.classes,
        quantiles=np.concatenate([np.ones(len(training)), np.full(len(testing), -1.0)]),
        notes=notes,
    )


def _check_classes(tops: set[str], folder: Path) -> None:
    """Refuse folders that look like parts of the data. As classes, test pictures would be trained on."""
    usual = {top.lower() for top in tops}
    if TRAIN in usual and not usual.isdisjoint(TESTS):
        got = ", ".join(sorted(top or "pictures of its own" for top in tops))
        raise DataError(
            f"{folder} seems to be split into parts, which would be taken for classes: expected {TRAIN} and one of "
            f"{', '.join(TESTS)}, in lower case, and nothing else, got {got}"
        )


def _arranged(files: list[tuple[str, int, int]], subfolders: list[str], folder: Path) -> Listing:
    """Label files by the sub-folders that they are in, and order them for a split."""
    classes = sorted(set(subfolders) - {""})
    loose = subfolders.count("")
    if classes and loose:
        raise DataError(
            f"{folder} has {loose} pictures of its own and others in sub-folders, so only some would have a label: put "
            "all pictures into sub-folders, one for each class, or none"
        )
    if len(classes) < 2:  # A single class is no label.
        return Listing(files=tuple(files), labels=None, classes=(), quantiles=np.ones(len(files)))
    number_of = {name: number for number, name in enumerate(classes)}
    labels = np.array([number_of[subfolder] for subfolder in subfolders], dtype=np.int64)
    order, quantiles = order_for_split(labels)
    ordered = tuple(files[i] for i in order)
    return Listing(files=ordered, labels=labels[order], classes=tuple(classes), quantiles=quantiles)


def _top(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _below(name: str) -> str:
    return name.partition("/")[2]


def _walk(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the picture files below a folder. Links are followed, each directory once; hidden files are skipped."""
    seen = set()
    for directory, below, files in os.walk(folder, followlinks=True, onerror=_refuse):
        status = Path(directory).stat()
        if (status.st_dev, status.st_ino) in seen:
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        below[:] = sorted(name for name in below if not name.startswith("."))
        for file in files:
            path = Path(directory, file)
            if path.suffix.lower() in SUFFIXES and not file.startswith(".") and path.is_file():
                status = path.stat()
                yield path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns


def _refuse(error: OSError) -> None:
    raise DataError(f"the folder {error.filename} cannot be read: {error.strerror}")
