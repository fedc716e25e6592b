"""What is in a folder of pictures: which files, which classes, what is for training and what for tests."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.split import order_for_split
from pucl.images.sources.picture import SUFFIXES

TRAIN = "train"
TESTS = ("test", "val", "valid", "validation")  # The first that is there is the test set.


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing:
    """Picture files in the order in which they will be stored.

    Args:
        files: Paths relative to the folder, with size in bytes and time of change: what the stored array depends on.
        labels: Class of each; None where the folder has none.
        classes: Names of the classes.
        quantiles: Position within its class of each, see `order_for_split`; below 0 what is in the test folder.
        notes: What was left out.
    """

    files: tuple[tuple[str, int, int], ...]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    quantiles: NDArray[np.float64]
    notes: tuple[str, ...] = ()


def list_pictures(folder: Path) -> Listing:
    """Find pictures, and read classes off sub-folders.

    ``folder/CLASS/...`` has labels, ``folder/*.png`` has none; ``folder/train/`` and ``folder/test/`` (or ``val/``,
    ``valid/``, ``validation/``) may hold either.
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
        labels, classes = _label([name for name, _, _ in files], folder)
        return _arranged(files, labels, classes)

    test = next((name for name in TESTS if name in tops), None)
    notes = tuple(f"{folder / top} was left out: {test} is there to test on" for top in sorted(tops - {TRAIN, test}))
    training = [file for file in files if _top(file[0]) == TRAIN]
    labels, classes = _label([_below(name) for name, _, _ in training], folder / TRAIN)
    listing = _arranged(training, labels, classes, notes)
    if test is None:
        return listing
    testing = [file for file in files if _top(file[0]) == test]
    if labels is None:
        return Listing(
            files=listing.files,
            labels=None,
            classes=(),
            quantiles=listing.quantiles,
            notes=(*notes, f"{folder / test} was left out: pictures in {TRAIN} have no labels to test by"),
        )
    return _with_tests(listing, testing, folder / test)


def _check_classes(tops: set[str], folder: Path) -> None:
    """Refuse folders that must be parts of the data: as classes, tests would be trained on."""
    usual = {top.lower() for top in tops}
    if TRAIN in usual and not usual.isdisjoint(TESTS):
        there = ", ".join(sorted(top or "pictures of its own" for top in tops))
        raise DataError(
            f"{folder} seems to be split in parts, which would be taken for classes: expected {TRAIN} and one of "
            f"{', '.join(TESTS)}, written so, and nothing else, got {there}"
        )


def _arranged(
    files: list[tuple[str, int, int]],
    labels: NDArray[np.int64] | None,
    classes: tuple[str, ...],
    notes: tuple[str, ...] = (),
) -> Listing:
    if labels is None:
        return Listing(files=tuple(files), labels=None, classes=(), quantiles=np.ones(len(files)), notes=notes)
    order, quantiles = order_for_split(labels)
    ordered = tuple(files[i] for i in order)
    return Listing(files=ordered, labels=labels[order], classes=classes, quantiles=quantiles, notes=notes)


def _with_tests(listing: Listing, testing: list[tuple[str, int, int]], folder: Path) -> Listing:
    """Append the pictures of a test folder, and let nothing else be held back."""
    number_of = {name: number for number, name in enumerate(listing.classes)}
    tops = [_top(_below(name)) for name, _, _ in testing]
    if unknown := sorted({top or "no sub-folder" for top in tops} - number_of.keys()):
        raise DataError(f"{folder} has classes that are not in {TRAIN}: {', '.join(unknown)}")
    numbers = np.array([number_of[top] for top in tops], dtype=np.int64)
    assert listing.labels is not None  # noqa: S101 - The caller has seen to it.
    return Listing(
        files=(*listing.files, *testing),
        labels=np.concatenate([listing.labels, numbers]),
        classes=listing.classes,
        quantiles=np.concatenate([np.ones(len(listing.files)), np.full(len(testing), -1.0)]),
        notes=listing.notes,
    )


def _label(names: list[str], folder: Path) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    tops = [_top(name) for name in names]
    classes = sorted(set(tops) - {""})
    loose = tops.count("")
    if classes and loose:
        raise DataError(
            f"{folder} has {loose} pictures of its own and others in sub-folders, so only some would have a label: put "
            "all of them into one sub-folder for each class, or none"
        )
    if len(classes) < 2:
        return None, ()  # One class for all says nothing.
    number_of = {name: number for number, name in enumerate(classes)}
    return np.array([number_of[top] for top in tops], dtype=np.int64), tuple(classes)


def _top(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _below(name: str) -> str:
    return name.partition("/")[2]


def _walk(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Picture files below a folder, through links too, each directory once; hidden ones are left alone."""
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
