"""Fashion-MNIST: 70,000 grey images of clothes, 28 x 28 pixels, from idx files with or without gzip.

Reference: H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, arXiv 1708.07747, 2017.
"""

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.data.source import Form, Found, Source
from pucl.data.unpacking import read_gzip
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.resizing import resize_data

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
UNSIGNED_BYTE = 8  # A type of numbers in idx files.
DIRECTORIES = ("fashion-mnist", "dataset-fashion-mnist", "FashionMNIST/raw")
SITE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

PACKED = Form(files=tuple(f"{file}.gz" for file in FILES), directories=DIRECTORIES)
PLAIN = Form(files=FILES, directories=DIRECTORIES)


def read_fashion(found: Found, image_size: int | None = None) -> ImageData:
    """Read Fashion-MNIST: grey in three equal channels."""
    paths = [found.directory / file for file in (found.form or PACKED).files]
    train, test = _read_part(paths[0], paths[1]), _read_part(paths[2], paths[3])
    return resize_data(ImageData(name="fashion-mnist", pretrain=train, train=train, test=test), image_size)


def _read_part(images: Path, labels: Path) -> ImageSet:
    grey, numbers = read_idx(images, 3), read_idx(labels, 1)
    if len(grey) != len(numbers):
        raise DataError(f"{labels} has a label for each image: expected {len(grey)} as in {images}, got {len(numbers)}")
    try:
        return ImageSet(np.repeat(grey[:, None], 3, axis=1), numbers.astype(np.int64), CLASSES)
    except DataError as error:
        raise DataError(f"{images} with {labels.name}: {error}") from error


def read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an idx file: two zero bytes, type, number of axes, the length of each (big-endian), then the numbers."""
    content = read_gzip(path) if path.suffix == ".gz" else path.read_bytes()
    if content[:4] != bytes((0, 0, UNSIGNED_BYTE, axes)) or len(content) < 4 + 4 * axes:
        raise DataError(f"{path} is no idx file of bytes with {axes} axes: it begins with {content[:4].hex(' ')}")
    shape = struct.unpack_from(f">{axes}I", content, 4)
    body = len(content) - 4 - 4 * axes
    if body != math.prod(shape):
        raise DataError(
            f"{path} is damaged: expected {math.prod(shape):,} bytes for the shape {list(shape)}, got {body:,}"
        )
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


FASHION_MNIST = Source(
    name="fashion-mnist",
    samples="60,000 + 10,000",
    classes=len(CLASSES),
    size="28 x 28",
    read=read_fashion,
    forms=(PACKED, PLAIN),
    downloads=(
        Download(url=f"{SITE}/train-images-idx3-ubyte.gz", md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        Download(url=f"{SITE}/train-labels-idx1-ubyte.gz", md5="25c81989df183df01b3e8a0aad5dffbe"),
        Download(url=f"{SITE}/t10k-images-idx3-ubyte.gz", md5="bef4ecab320f06d8554ea6380940ec79"),
        Download(url=f"{SITE}/t10k-labels-idx1-ubyte.gz", md5="bb300cfdad3c16e7a12a480ee83cd310"),
    ),
)
