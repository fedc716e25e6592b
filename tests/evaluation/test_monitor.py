"""The monitor: honest, and blind to the order in which data come."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.evaluation import Monitor


def brightness(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A feature that tells bright pictures from dark ones by its direction."""
    mean = pixels.astype(np.float32).mean(axis=(1, 2, 3))
    return np.stack([mean, 255 - mean], axis=1)


def images(labels: NDArray[np.int64]) -> NDArray[np.uint8]:
    noise = np.random.default_rng(0).integers(0, 50, (len(labels), 3, 4, 4))
    return (noise + 200 * labels[:, None, None, None]).astype(np.uint8)


def accuracy(pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> float:
    monitor = Monitor(labels)
    return monitor.accuracy(brightness(pixels[monitor.places]))


@pytest.mark.parametrize("order", ["sorted", "in turns"])
def test_good_features_are_seen(order: str) -> None:
    labels = np.arange(400) % 2 if order == "in turns" else np.repeat([0, 1], 200)
    assert accuracy(images(labels), labels) == 1.0


def test_useless_features_are_seen() -> None:
    labels = np.random.default_rng(1).integers(0, 2, 2000)
    assert accuracy(images(np.zeros(2000, dtype=np.int64)), labels) < 0.6


def test_more_images_than_it_looks_at() -> None:
    labels = np.arange(6000) % 2
    assert len(Monitor(labels).places) == 5000
    assert accuracy(images(labels), labels) == 1.0


def test_the_same_places_every_time_and_as_few_as_asked() -> None:
    labels = np.arange(6000) % 2
    places = Monitor(labels, most=300).places
    np.testing.assert_array_equal(places, Monitor(labels, most=300).places)
    assert len(np.unique(places)) == 300
    assert 0.3 < np.mean(labels[places]) < 0.7
    assert len(Monitor(labels, most=1).places) == 100  # Fewer would tell nothing.
    np.testing.assert_array_equal(Monitor(labels[:40]).places, np.arange(40))


def test_needs_labels_and_some_images() -> None:
    assert not Monitor(np.arange(5)).possible
    assert not Monitor(np.zeros(50, dtype=np.int64)).possible
    assert Monitor(np.arange(50) % 2).possible
    rare = np.zeros(100, dtype=np.int64)
    rare[50] = 1  # Held out of the vote, to which there is then one class.
    assert not Monitor(rare).possible
