"""STL10: 5,000 labelled, 8,000 test and 100,000 unlabelled photographs of 96 x 96 pixels, from the official files.

Reference: A. Coates, H. Lee and A. Y. Ng, An Analysis of Single Layer Networks in Unsupervised Feature Learning, 2011.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.data.source import Form, Found, Source
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.resizing import resize_pixels
from pucl.images.stored import stored
from pucl.progress import Progress

SIDE = 96
IMAGE = 3 * SIDE * SIDE  # Bytes.
CHUNK = 500  # Images in memory at a time.
FOLDS = 10
CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
COUNTS = {"train_X.bin": 5_000, "unlabeled_X.bin": 100_000, "test_X.bin": 8_000}
"""Numbers of images in the official files, in the order in which we store them."""

OFFICIAL = Form(
    files=("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin", "unlabeled_X.bin", "fold_indices.txt"),
    optional=("class_names.txt",),
    directories=("stl10/stl10_binary", "stl10_binary", "STL10/stl10_binary"),
)


def read_stl10(found: Found, image_size: int | None = None, counts: Mapping[str, int] = COUNTS) -> ImageData:
    """Read STL10: pretraining on training and unlabelled images, probes on ten folds of the training images.

    The files hold each image column by column. They are converted once, into one array on disk: training images,
    unlabelled images, test images. Each part of the data set is a slice of it.

    Args:
        found: The files.
        image_size: Resize images to this many pixels a side; default: 96.
        counts: Number of images in each file.
    """
    directory, size = found.directory, image_size or SIDE
    check_stl10(found, counts)
    train_labels = _read_labels(directory / "train_y.bin", counts["train_X.bin"])
    test_labels = _read_labels(directory / "test_y.bin", counts["test_X.bin"])
    folds = _read_folds(directory / "fold_indices.txt", counts["train_X.bin"])

    files = [directory / file for file in counts]
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


def check_stl10(found: Found, counts: Mapping[str, int] = COUNTS) -> None:
    """Refuse files of another length."""
    for file, count in counts.items():
        path = found.directory / file
        if (length := path.stat().st_size) != count * IMAGE:
            raise DataError(
                f"{path} is damaged: expected {count:,} images of {IMAGE:,} bytes, {count * IMAGE:,} bytes in all, got "
                f"{length:,}"
            )


def _build(files: list[Path], size: int, append: Callable[[NDArray[np.uint8]], None]) -> dict[str, Any]:
    total = sum(file.stat().st_size for file in files) // IMAGE
    done = 0
    with closing(Progress("pucl data: converting stl10", "images")) as progress:
        for path in files:
            try:
                pixels = np.memmap(path, np.uint8, "r").reshape(-1, 3, SIDE, SIDE)
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror}") from error
            for start in range(0, len(pixels), CHUNK):
                columns = pixels[start : start + CHUNK]
                append(resize_pixels(np.ascontiguousarray(columns.transpose(0, 1, 3, 2)), size))
                done += len(columns)
                progress(done, total)
    return {"files": [str(file) for file in files]}


def _read_labels(path: Path, count: int) -> NDArray[np.int64]:
    labels = np.frombuffer(path.read_bytes(), np.uint8).astype(np.int64)
    if len(labels) != count:
        raise DataError(f"{path} has a byte for each image: expected {count:,}, got {len(labels):,}")
    wrong = np.flatnonzero((labels < 1) | (labels > len(CLASSES)))
    if len(wrong):
        raise DataError(f"{path}: labels are 1..{len(CLASSES)}, got {labels[wrong[0]]} for image {wrong[0]}")
    return labels - 1


def _read_folds(path: Path, count: int) -> tuple[NDArray[np.int64], ...]:
    try:
        folds = tuple(np.array(line.split(), dtype=np.int64) for line in path.read_text().splitlines() if line.strip())
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path}: expected indices of training images: {error}") from error
    if len(folds) != FOLDS or len({len(fold) for fold in folds}) != 1:
        raise DataError(
            f"{path} has a line for each fold: expected {FOLDS} lines of equal length, got {[len(f) for f in folds]}"
        )
    for number, fold in enumerate(folds):
        if fold.min() < 0 or fold.max() >= count:
            raise DataError(
                f"{path}: fold {number} has indices of training images: expected 0..{count - 1}, got "
                f"{fold.min()}..{fold.max()}"
            )
    return folds


STL10 = Source(
    name="stl10",
    samples="5,000 + 8,000, 100,000 unlabelled",
    classes=len(CLASSES),
    size=f"{SIDE} x {SIDE}",
    read=read_stl10,
    check=check_stl10,
    forms=(OFFICIAL,),
    downloads=(
        Download(
            url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", md5="91f7769df0f17e558f3565bffb0c7dfb"
        ),
    ),
)
