"""STL10 in its exact binary form, with few pictures."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.source import Found
from pucl.images.imageset import ImageData
from pucl.images.registry import load
from pucl.images.sources.stl10 import CLASSES, OFFICIAL, check_stl10, read_stl10

PICTURES = {"train_X.bin": 20, "unlabeled_X.bin": 30, "test_X.bin": 7}
IMAGES = {
    file: np.random.default_rng(count).integers(0, 256, (count, 3, 96, 96), dtype=np.uint8)
    for file, count in PICTURES.items()
}
TRAIN_LABELS, TEST_LABELS = np.arange(20) % 10 + 1, np.arange(7) + 1
FOLDS = [[(fold + step) % 20 for step in range(0, 20, 4)] for fold in range(10)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Files as the official program reads them: byte y + 96 x + 96 * 96 channel of a picture is its pixel (y, x)."""
    directory = tmp_path / "stl10" / "stl10_binary"
    directory.mkdir(parents=True)
    for file, images in IMAGES.items():
        (directory / file).write_bytes(b"".join(channel.tobytes(order="F") for image in images for channel in image))
    (directory / "train_y.bin").write_bytes(TRAIN_LABELS.astype(np.uint8).tobytes())
    (directory / "test_y.bin").write_bytes(TEST_LABELS.astype(np.uint8).tobytes())
    (directory / "fold_indices.txt").write_text("\n".join(" ".join(map(str, fold)) + " " for fold in FOLDS) + "\n")
    return directory


def read(directory: Path, image_size: int | None = None) -> ImageData:
    cache = directory.parents[1] / "arrays"
    return read_stl10(Found(directory=directory, form=OFFICIAL, cache=cache), image_size, PICTURES)


def labels_of(labels: NDArray[np.int64] | None) -> list[int]:
    assert labels is not None
    return [int(label) for label in labels]


def test_parts_folds_and_orientation(directory: Path) -> None:
    data = read(directory)
    assert data.test is not None
    assert data.folds is not None
    assert np.array_equal(data.train.pixels, IMAGES["train_X.bin"])
    assert np.array_equal(data.test.pixels, IMAGES["test_X.bin"])
    assert np.array_equal(data.pretrain.pixels, np.concatenate([IMAGES["train_X.bin"], IMAGES["unlabeled_X.bin"]]))
    assert data.pretrain.labels is None
    assert labels_of(data.train.labels) == [label - 1 for label in TRAIN_LABELS]
    assert labels_of(data.test.labels) == list(range(7))
    assert data.train.classes == CLASSES
    assert [fold.tolist() for fold in data.folds] == FOLDS
    assert isinstance(data.pretrain.pixels, np.memmap)
    assert data.train.pixels.flags.c_contiguous


def test_another_size_is_another_array(directory: Path) -> None:
    assert read(directory, 24).pretrain.pixels.shape == (50, 3, 24, 24)
    assert read(directory).pretrain.pixels.shape == (50, 3, 96, 96)
    assert len(list((directory.parents[1] / "arrays").glob("stl10-*"))) == 2


@pytest.mark.parametrize("file", PICTURES)
def test_a_cut_file(directory: Path, file: str) -> None:
    path = directory / file
    path.write_bytes(path.read_bytes()[: -3 * 96 * 96])  # A whole picture less: only the count tells.
    with pytest.raises(DataError, match=rf"{file} is damaged: expected {PICTURES[file]} images of 27,648 bytes"):
        read(directory)


def test_the_official_counts_are_asked_for(directory: Path) -> None:
    with pytest.raises(DataError, match=r"expected 5,000 images"):
        load("stl10", root=directory.parents[1])
    with pytest.raises(DataError, match=r"expected 5,000 images"):
        check_stl10(Found(directory=directory, form=OFFICIAL, cache=directory))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train_y.bin", bytes([0] * 20), "labels are 1..10, got 0 for image 0"),
        ("test_y.bin", bytes([1, 11, 1, 1, 1, 1, 1]), "labels are 1..10, got 11 for image 1"),
        ("train_y.bin", bytes([1] * 19), "a byte for each image: expected 20, got 19"),
        ("fold_indices.txt", b"1 2\n" * 9, "expected 10 lines of equal length"),
        ("fold_indices.txt", b"1 2\n" * 9 + b"1\n", "expected 10 lines of equal length"),
        (
            "fold_indices.txt",
            b"1 2\n" * 9 + b"1 20\n",
            r"fold 9 has indices of training images: expected 0..19, got 1..20",
        ),
        ("fold_indices.txt", b"1 99999999999999999999\n" * 10, "expected indices of training images"),
        ("fold_indices.txt", b"\xff\n" * 10, "expected indices of training images"),
        ("fold_indices.txt", b"1 x\n" * 10, "expected indices of training images"),
    ],
)
def test_labels_and_folds_that_cannot_be(directory: Path, file: str, content: bytes, message: str) -> None:
    (directory / file).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(directory)


def test_a_file_is_missing(directory: Path) -> None:
    (directory / "unlabeled_X.bin").unlink()
    with pytest.raises(DataError, match=r"is there without unlabeled_X.bin\): `pucl data get stl10`"):
        load("stl10", root=directory.parents[1])
