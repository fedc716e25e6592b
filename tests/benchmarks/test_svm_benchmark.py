"""The benchmark of the SVM evaluation: that it measures what it says. How fast anything is, no test says."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import svm as svm_benchmark
from benchmarks.graph_report import svm_table
from benchmarks.svm import SVMSettings, measure_svm, pooled_features
from pucl.evaluation import SVMResult

pytestmark = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")

SMALL = SVMSettings(folds=2, inner_folds=2, jobs=1, rounds=2)


@pytest.mark.parametrize("scale", [False, True])
def test_both_ways_are_timed_and_agree(scale: bool) -> None:
    told: list[str] = []
    (row,) = measure_svm(replace(SMALL, scale=scale), {"small": pooled_features(40, 2, 10)}, told.append)
    assert (row.name, row.graphs, row.dim, row.classes) == ("small", 40, 96, 2)
    assert (row.equal, row.scaled) == (True, scale)
    assert len(row.accuracies) == 2
    assert {name: len(times) for name, times in row.seconds.items()} == {"sklearn": 2, "sklearn jobs": 2, "ours": 2}
    quotients = np.divide(row.seconds["sklearn"], row.seconds["ours"])
    assert row.ratios["sklearn"] == pytest.approx(np.median(quotients))
    assert len(told) == 6
    (line,) = svm_table([row], jobs=1).splitlines()[3:]
    assert line.split()[-1] == "yes"
    assert ("scaled" in line) == scale


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    another = SVMResult(accuracies=(0.0, 0.0), costs=(1.0, 1.0), validation=())
    monkeypatch.setattr(svm_benchmark, "cross_validated_svm", lambda *_, **__: another)
    (row,) = measure_svm(SMALL, {"small": pooled_features(40, 2, 10)}, lambda _: None)
    assert not row.equal
    assert svm_table([row], jobs=1).split()[-1] == "NO"


def test_random_embeddings_have_the_size_that_is_asked_for() -> None:
    features, labels = pooled_features(344, 2, 14)
    assert features.shape == (344, 96)
    assert np.bincount(labels).tolist() == [172, 172]
    np.testing.assert_array_equal(features, pooled_features(344, 2, 14)[0])
    assert not np.array_equal(features, pooled_features(344, 2, 14, seed=1)[0])


@pytest.mark.slow
def test_processes_of_scikit_learn_agree_too() -> None:
    (row,) = measure_svm(replace(SMALL, jobs=2, rounds=1), {"small": pooled_features(40, 2, 10)}, lambda _: None)
    assert row.equal
