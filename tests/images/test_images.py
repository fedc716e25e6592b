"""Sets of pictures are what they say, and what is held back stays so."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pucl.data.choosing import _scrambled, count_held_out, draw_some, order_for_split
from pucl.data.errors import DataError
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.registry import load
from pucl.images.resizing import resize_pixels


def pictures(count: int, side: int = 4) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (count, 3, side, side), dtype=np.uint8)


def test_a_set_and_its_parts() -> None:
    pixels, labels = pictures(5), np.array([0, 1, 2, 1, 0])
    every = ImageSet(pixels, labels, ("a", "b", "c"), tuple("vwxyz"))

    chosen = every.subset([4, 1])
    assert len(every) == 5
    assert every.size == (4, 4)
    assert np.array_equal(chosen.pixels, pixels[[4, 1]])
    assert chosen.labels is not None
    assert chosen.labels.tolist() == [0, 1]
    assert chosen.names == ("z", "w")
    assert np.shares_memory(every.span(1, 3).pixels, pixels)
    assert every.span(1, 3).names == ("w", "x")


@pytest.mark.parametrize(
    ("pixels", "came"),
    [
        (np.zeros((2, 3, 4, 4), np.float32), "got float32 [2, 3, 4, 4]"),
        (np.zeros((2, 1, 4, 4), np.uint8), "got uint8 [2, 1, 4, 4]"),
        (np.zeros((3, 4, 4), np.uint8), "got uint8 [3, 4, 4]"),
        (np.zeros((0, 3, 4, 4), np.uint8), "got uint8 [0, 3, 4, 4]"),
        (np.zeros((2, 4, 4, 3), np.uint8).transpose(0, 3, 1, 2), "C-contiguous"),
    ],
)
def test_pixels_of_another_form(without_shape_checks: None, pixels: NDArray[np.uint8], came: str) -> None:
    with pytest.raises(DataError, match=re.escape(came)):
        ImageSet(pixels)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (np.array([0, 2, 5, 1]), ("a", "b"), "expected 0..1, got 2 for sample 1 and 1 more that are out of range"),
        (np.array([0, -1, 0, 1]), ("a", "b"), "expected 0..1, got -1 for sample 1"),
        (np.array([0, 1]), ("a", "b"), "expected int64 [4], got int64 [2]"),
        (np.array([0, 0, 0, 0]), (), "the names of the classes, got none"),
    ],
)
def test_labels_out_of_range(labels: NDArray[np.int64], classes: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        ImageSet(pictures(4), labels, classes)


def test_a_map_must_be_read_only(tmp_path: Path) -> None:
    pixels = np.memmap(tmp_path / "pixels", np.uint8, "w+", shape=(2, 3, 4, 4))
    with pytest.raises(DataError, match="read-only map"):
        ImageSet(pixels)
    assert len(ImageSet(np.memmap(tmp_path / "pixels", np.uint8, "r", shape=(2, 3, 4, 4)))) == 2


@pytest.mark.parametrize("indices", [[5], [-1], [], [0.5]])
def test_indices_out_of_range(without_shape_checks: None, indices: list[int]) -> None:
    with pytest.raises(DataError, match="indices choose images"):
        ImageSet(pictures(5)).subset(np.asarray(indices))


def test_parts_that_do_not_go_together() -> None:
    labels = np.array([0, 1])
    one = ImageSet(pictures(2), labels, ("a", "b"))
    with pytest.raises(DataError, match="one image to train on: expected at least two"):
        ImageData(name="x", pretrain=ImageSet(pictures(1)), train=one)
    with pytest.raises(DataError, match="differ in size"):
        ImageData(name="x", pretrain=one, train=ImageSet(pictures(2, side=5)))
    with pytest.raises(DataError, match="a test set without labels"):
        ImageData(name="x", pretrain=one, train=ImageSet(pictures(2)), test=one)
    with pytest.raises(DataError, match="different classes"):
        ImageData(name="x", pretrain=one, train=one, test=ImageSet(pictures(2), labels, ("a", "c")))
    with pytest.raises(DataError, match="fold 0"):
        ImageData(name="x", pretrain=one, train=one, folds=(np.array([2]),))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.floats(0, 0.99))
def test_what_is_held_back_is_a_tail_and_stratified(listed: list[int], share: float) -> None:
    labels = np.array(listed)
    order, quantiles = order_for_split(labels)
    border = len(labels) - count_held_out(quantiles, share)

    assert sorted(order.tolist()) == list(range(len(labels)))
    assert (quantiles[:border] >= share).all()
    assert (quantiles[border:] < share).all()
    for label in set(listed):
        count = listed.count(label)
        tests = np.count_nonzero(labels[order[border:]] == label)
        assert abs(tests - share * count) <= 1
        assert tests < count


def test_the_split_is_fixed() -> None:
    order, _ = order_for_split(np.zeros(8, np.int64))
    assert order.tolist() == [3, 0, 7, 1, 5, 6, 4, 2]
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # splitmix64 from seed 0.
    assert _scrambled(3).tolist() == published


def test_digits() -> None:
    data = load("digits")
    assert data.test is not None
    assert data.train.labels is not None
    assert data.test.labels is not None
    assert (len(data.pretrain), len(data.train), len(data.test)) == (1438, 1438, 359)
    assert data.train.classes == tuple("0123456789")
    assert (data.train.pixels.min(), data.train.pixels.max()) == (0, 255)
    assert (data.train.pixels[:, 0] == data.train.pixels[:, 2]).all()
    assert np.abs(np.bincount(data.test.labels) - np.bincount(data.train.labels) / 4).max() < 2
    resized = load("digits", image_size=32)
    assert resized.train.size == (32, 32)
    assert resized.pretrain is resized.train


def test_resizing_averages_and_takes_the_middle() -> None:
    wide = np.zeros((1, 3, 2, 6), np.uint8)
    wide[..., 2:4] = [[10, 20], [30, 40]]
    assert resize_pixels(wide, 2).tolist() == [[[[10, 20], [30, 40]]] * 3]
    flat = np.full((3, 3, 9, 9), 77, np.uint8)
    assert (resize_pixels(flat, 5) == 77).all()
    assert (resize_pixels(flat, 20) == 77).all()


@pytest.mark.parametrize("classes", [2, 10])
def test_some_of_all_are_of_all_classes_though_these_come_in_turn(classes: int) -> None:
    labels = np.tile(np.arange(classes), 64)
    drawn = draw_some(len(labels), 64)  # A stride of this length would be that of the classes.
    assert len(np.unique(drawn)) == 64
    np.testing.assert_array_equal(drawn, np.sort(drawn))
    assert set(labels[drawn]) == set(range(classes))
    assert draw_some(5, 64).tolist() == [0, 1, 2, 3, 4]
