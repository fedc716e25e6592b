"""The monitor: honest, and blind to the order in which data come."""

import sys

import numpy as np
import pytest

from pucl.evaluation import PROBES, Monitor
from pucl.evaluation.knn import KNN
from pucl.evaluation.monitor import held_out


@pytest.mark.parametrize("classes", [2, 3, 5, 10, 15, 20])
@pytest.mark.parametrize("order", ["sorted", "in turns", "in turns backwards"])
def test_perfect_features_are_perfect_however_many_classes_come_in_turns(classes: int, order: str) -> None:
    labels = np.tile(np.arange(classes), 60)
    labels = {"sorted": np.sort(labels), "in turns": labels, "in turns backwards": labels[::-1]}[order]
    monitor = Monitor(labels)
    features = np.eye(classes, dtype=np.float32)[labels[monitor.indices]]
    assert monitor.measure(features, {"knn": KNN}) == {"knn": 1.0}


@pytest.mark.parametrize("classes", [2, 5, 10, 20])
def test_a_fifth_of_each_class_is_held_out(classes: int) -> None:
    labels = np.tile(np.arange(classes), 60)
    held = held_out(labels)
    np.testing.assert_array_equal(held, held_out(labels))  # The same every time.
    np.testing.assert_array_equal(np.bincount(labels[held], minlength=classes), 12)


def test_every_class_keeps_a_voter() -> None:
    labels = np.concatenate([np.repeat(np.arange(30), 2), np.arange(30, 90), np.full(40, 90)])
    held = held_out(labels)
    assert held.any()
    assert set(labels[~held]) == set(labels)


def test_a_probe_without_its_package_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    labels = np.tile(np.arange(4), 60)
    monitor = Monitor(labels)
    features = np.eye(4, dtype=np.float32)[labels[monitor.indices]]
    assert set(monitor.measure(features, PROBES)) == {"retrieval", "fewshot", "knn"}


def test_useless_features_are_seen() -> None:
    labels = np.random.default_rng(1).integers(0, 2, 2000)
    features = np.random.default_rng(2).standard_normal((2000, 2)).astype(np.float32)
    assert Monitor(labels).measure(features, {"knn": KNN})["knn"] < 0.6


def test_the_same_indices_every_time_and_as_few_as_asked() -> None:
    labels = np.arange(6000) % 2
    assert len(Monitor(labels).indices) == 5000
    indices = Monitor(labels, most=300).indices
    np.testing.assert_array_equal(indices, Monitor(labels, most=300).indices)
    assert len(np.unique(indices)) == 300
    assert 0.3 < np.mean(labels[indices]) < 0.7
    assert len(Monitor(labels, most=1).indices) == 100  # Fewer would tell nothing.
    np.testing.assert_array_equal(Monitor(labels[:40]).indices, np.arange(40))


def test_needs_labels_and_some_images() -> None:
    assert not Monitor(np.arange(5)).possible
    assert not Monitor(np.zeros(50, dtype=np.int64)).possible
    assert Monitor(np.arange(50) % 2).possible
    assert not Monitor(np.arange(50)).possible  # Each class has one sample, which votes: none is left to classify.
    rare = np.zeros(100, dtype=np.int64)
    rare[50] = 1
    assert Monitor(rare).possible  # The only sample of a class is never held out.
