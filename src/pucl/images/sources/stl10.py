"""STL10: 5,000 labelled, 8,000 test and 100,000 unlabelled photographs of 96 x 96, from the official binary files.

Reference: A. Coates, H. Lee and A. Y. Ng, An Analysis of Single Layer Networks in Unsupervised Feature Learning, 2011.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.resizing import resize_pixels
from pucl.images.source import Form, Found, Source
from pucl.images.stored import stored
from pucl.progress import Progress

SIDE = 96
PICTURE = 3 * SIDE * SIDE
CHUNK = 500  # Pictures that are in memory at a time.
FOLDS = 10
CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
PICTURES = {"train_X.bin": 5_000, "unlabeled_X.bin": 100_000, "test_X.bin": 8_000}
"""How many pictures the official files hold, in the order in which they are stored."""

OFFICIAL = Form(
    files=("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin", "unlabeled_X.bin", "fold_indices.txt"),
    places=("stl10/stl10_binary", "stl10_binary", "STL10/stl10_binary"),
)


def read_stl10(found: Found, pictures: Mapping[str, int] = PICTURES) -> ImageData:
    """STL10: trained on training and unlabelled pictures together, probed on the training pictures in ten folds.

    The files hold each picture column by column. They are turned once, into one array on disk in which training,
    unlabelled and test pictures follow each other, at the size that is wanted; each part is a stretch of it.

    Args:
        found: Where it is.
        pictures: How many pictures each file should hold.
    """
    directory, size = found.directory, found.image_size or SIDE
    check_stl10(found, pictures)
    train_labels = _read_labels(directory / "train_y.bin", pictures["train_X.bin"])
    test_labels = _read_labels(directory / "test_y.bin", pictures["test_X.bin"])
    folds = _read_folds(directory / "fold_indices.txt", pictures["train_X.bin"])

    files = [directory / file for file in pictures]
    key = [str(directory.resolve()), size, [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    done = stored(found.cache / f"stl10-{size}-{digest}", (3, size, size), partial(_build, files, size))
    train, pretrain = len(train_labels), len(done.pixels) - len(test_labels)
    return ImageData(
        name="stl10",
        pretrain=ImageSet(done.pixels[:pretrain]),
        train=ImageSet(done.pixels[:train], train_labels, CLASSES),
        test=ImageSet(done.pixels[pretrain:], test_labels, CLASSES),
        folds=folds,
    )


def check_stl10(found: Found, pictures: Mapping[str, int] = PICTURES) -> None:
    """Refuse files that are cut off or too long."""
    for file, count in pictures.items():
        path = found.directory / file
        if (length := path.stat().st_size) != count * PICTURE:
            raise DataError(
                f"{path} should hold {count:,} pictures of {PICTURE:,} bytes, {count * PICTURE:,} bytes in all; it has "
                f"{length:,}"
            )


def _build(files: list[Path], size: int, append: Callable[[NDArray[np.uint8]], None]) -> dict[str, Any]:
    total = sum(file.stat().st_size for file in files) // PICTURE
    progress, done = Progress("pucl data: turning stl10", "pictures"), 0
    try:
        for columns in _chunks(files):
            upright = np.ascontiguousarray(columns.transpose(0, 1, 3, 2))
            append(resize_pixels(upright, size))
            done += len(columns)
            progress(done, total)
    finally:
        progress.close()
    return {"files": [str(file) for file in files]}


def _chunks(files: list[Path]) -> Iterator[NDArray[np.uint8]]:
    for path in files:
        try:
            pixels = np.memmap(path, np.uint8, "r").reshape(-1, 3, SIDE, SIDE)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        for start in range(0, len(pixels), CHUNK):
            yield pixels[start : start + CHUNK]


def _read_labels(path: Path, count: int) -> NDArray[np.int64]:
    labels = np.frombuffer(path.read_bytes(), np.uint8).astype(np.int64)
    if len(labels) != count:
        raise DataError(f"{path} should hold a byte for each of {count:,} pictures; it has {len(labels):,}")
    wrong = np.flatnonzero((labels < 1) | (labels > len(CLASSES)))
    if len(wrong):
        raise DataError(f"{path}: labels are 1..{len(CLASSES)}, got {labels[wrong[0]]} for picture {wrong[0]}")
    return labels - 1


def _read_folds(path: Path, count: int) -> tuple[NDArray[np.int64], ...]:
    try:
        folds = tuple(np.array(line.split(), dtype=np.int64) for line in path.read_text().splitlines() if line.strip())
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path} should hold the numbers of training pictures: {error}") from error
    if len(folds) != FOLDS or len({len(fold) for fold in folds}) != 1:
        raise DataError(
            f"{path} should hold {FOLDS} lines of equal length, one a fold; it has lines of {[len(f) for f in folds]}"
        )
    for number, fold in enumerate(folds):
        if fold.min() < 0 or fold.max() >= count:
            raise DataError(f"{path}: fold {number} should choose from 0..{count - 1}, got {fold.min()}..{fold.max()}")
    return folds


STL10 = Source(
    name="stl10",
    images="5,000 + 8,000, 100,000 unlabelled",
    classes=len(CLASSES),
    size=SIDE,
    read=read_stl10,
    check=check_stl10,
    forms=(OFFICIAL,),
    downloads=(
        Download(
            url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", md5="91f7769df0f17e558f3565bffb0c7dfb"
        ),
    ),
)
