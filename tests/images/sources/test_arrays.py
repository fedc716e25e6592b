"""Arrays and .npz files in every usual layout, and what is said of the others."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.images.registry import load
from pucl.images.sources.arrays import from_array, to_pixels

COLOUR = np.random.default_rng(0).integers(0, 256, (10, 3, 6, 5), dtype=np.uint8)
GREY = COLOUR[:, 0]
LABELS = np.array([0, 1] * 5)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (COLOUR, COLOUR),
        (COLOUR.transpose(0, 2, 3, 1), COLOUR),
        (COLOUR / 255, COLOUR),
        ((COLOUR / 255).astype(np.float32), COLOUR),
        (GREY, np.repeat(GREY[:, None], 3, 1)),
        (GREY[:, None], np.repeat(GREY[:, None], 3, 1)),
        (GREY[..., None], np.repeat(GREY[:, None], 3, 1)),
    ],
)
def test_layouts(images: NDArray[Any], expected: NDArray[np.uint8]) -> None:
    pixels = to_pixels(images)
    assert pixels.flags.c_contiguous
    assert np.array_equal(pixels, expected)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 3, 5, 3), np.uint8), "both axes could be the channels"),
        (np.zeros((2, 5, 5, 4), np.uint8), "neither axis has length 1 or 3"),
        (np.zeros((5, 5), np.uint8), "expected 3 or 4 axes, got [5, 5]"),
        (np.zeros((0, 5, 5), np.uint8), "at least one"),
        (np.full((2, 5, 5), 255.0), "got floats in 255..255"),
        (np.full((2, 5, 5), np.nan), "got floats in nan..nan"),
        (np.zeros((2, 5, 5), np.int64), "got int64"),
    ],
)
def test_images_that_cannot_be_meant(images: NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        from_array(images)


def test_labels_decide_what_is_held_back() -> None:
    data = from_array(COLOUR, LABELS, test_share=0.4)
    assert data.test is not None
    assert data.test.names is not None
    assert data.train.names is not None
    assert (len(data.pretrain), len(data.test)) == (6, 4)
    assert sorted(map(int, data.train.names + data.test.names)) == list(range(10))
    for part in (data.train, data.test):
        assert part.names is not None
        assert part.labels is not None
        rows = [int(name) for name in part.names]
        assert np.array_equal(part.pixels, COLOUR[rows])
        assert np.array_equal(part.labels, LABELS[rows])
    assert from_array(COLOUR, LABELS, test_share=0).test is None
    assert from_array(COLOUR).test is None
    assert from_array(COLOUR).train.labels is None


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (LABELS - 1, None, "labels count classes from 0, got -1"),
        (LABELS * 2, ["a", "b"], "expected 0..1, got 2 for sample 1"),
        (LABELS / 2, None, "one whole number for each image: expected [10], got float64 [10]"),
        (LABELS[:4], None, "expected [10], got int64 [4]"),
        (LABELS + 20231105, None, "labels count classes from 0: expected less than 100,000, got 20231106"),
    ],
)
def test_labels_that_cannot_be_meant(labels: NDArray[Any], classes: list[str] | None, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        from_array(COLOUR, labels, classes=classes)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_out_of_range(share: float) -> None:
    with pytest.raises(ValueError, match=r"test_share .*expected 0 <= share < 1"):
        from_array(COLOUR, LABELS, test_share=share)


def test_one_image() -> None:
    with pytest.raises(DataError, match="one image to train on"):
        from_array(COLOUR[:1])


@pytest.mark.parametrize("keys", [("images", "labels"), ("x", "y")])
def test_npz(tmp_path: Path, keys: tuple[str, str]) -> None:
    path = tmp_path / "mine.npz"
    arrays: dict[str, Any] = {keys[0]: COLOUR, keys[1]: LABELS, "classes": np.array(["cat", "dog"])}
    np.savez(path, **arrays)
    data = load(path, image_size=3)
    assert data.name == "mine"
    assert data.train.classes == ("cat", "dog")
    assert data.train.size == (3, 3)
    assert data.test is not None


def test_npz_without_images(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", pictures=COLOUR)
    with pytest.raises(DataError, match="has no images: expected an array images or x, got pictures"):
        load(tmp_path / "mine.npz")
