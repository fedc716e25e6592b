"""Clustering: NMI and ARI of k-means on directions."""

import sys

import numpy as np
import pytest

from pucl.data.errors import ExtraMissingError
from pucl.evaluation import PROBES, Labelled, ProbedSamples
from pucl.evaluation.probe import LEADING, Measured

pytest.importorskip("sklearn")


def clustered(features: np.ndarray, labels: np.ndarray) -> Measured:
    return PROBES["clustering"].measure(ProbedSamples(splits=(), tested=Labelled(features, labels)))


def test_clusters_are_found_by_direction_whatever_their_length() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    lengths = generator.uniform(0.1, 50, (90, 1))
    features = lengths * (np.eye(3)[labels] + 0.05 * generator.standard_normal((90, 3)))
    assert clustered(features, labels).numbers == {LEADING: pytest.approx(1), "ari": pytest.approx(1)}
    assert clustered(features, labels + 5).numbers == clustered(features, labels).numbers


def test_useless_embeddings_are_near_zero() -> None:
    generator = np.random.default_rng(0)
    found = clustered(generator.standard_normal((600, 5)), np.arange(600) % 3).numbers
    assert found[LEADING] < 0.02
    assert abs(found["ari"]) < 0.02


def test_the_number_of_clusters_is_that_of_the_classes() -> None:
    """Two clusters where there are four classes: half of the information is there."""
    labels = np.arange(80) % 4
    found = clustered(np.eye(2)[labels // 2], labels).numbers
    assert found[LEADING] == pytest.approx(2 / 3)  # 2 I / (H + H) with 1 bit of 1 and 2.


def test_one_class_has_no_clusters() -> None:
    assert clustered(np.ones((5, 2)), np.zeros(5, dtype=int)).numbers == {}


def test_scikit_learn_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    assert not PROBES["clustering"].installed
    with pytest.raises(ExtraMissingError, match="k-means needs scikit-learn, which is not installed"):
        clustered(np.ones((5, 2)), np.arange(5) % 2)
