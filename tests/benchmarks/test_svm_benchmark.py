"""The benchmark of the SVM evaluation: that it measures what it says. How fast anything is, no test says."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from pucl.benchmarks import svm as svm_benchmark
from pucl.benchmarks.svm import SHAPES, SVMSettings, measure_svm, pooled_features
from pucl.commands.bench.graph import svm_table
from pucl.evaluation import SVMResult

pytestmark = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")

SMALL = SVMSettings(folds=2, inner_folds=2, jobs=1, rounds=2)


@pytest.mark.parametrize("scale", [False, True])
def test_both_ways_are_timed_and_agree(scale: bool) -> None:
    told: list[str] = []
    record = measure_svm(replace(SMALL, scale=scale), {"small": pooled_features(40, 2, 10)}, told.append)
    (row,) = record.rows
    assert (row.name, row.graphs, row.dim, row.classes) == ("small", 40, 96, 2)
    assert (row.equal, row.scaled) == (True, scale)
    assert len(row.accuracies) == 2
    assert {name: len(times) for name, times in row.seconds.items()} == {"sklearn": 2, "sklearn jobs": 2, "ours": 2}
    quotients = np.divide(row.seconds["sklearn"], row.seconds["ours"])
    assert row.ratios["sklearn"] == pytest.approx(np.median(quotients))
    assert len(told) == 6
    (line,) = svm_table(record.rows, jobs=1).splitlines()[3:]
    assert line.split()[-1] == "yes"
    assert ("scaled" in line) == scale


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    another = SVMResult(accuracies=(0.0, 0.0), costs=(1.0, 1.0), validation=())
    monkeypatch.setattr(svm_benchmark, "cross_validated_svm", lambda *_, **__: another)
    record = measure_svm(SMALL, {"small": pooled_features(40, 2, 10)})
    assert not record.rows[0].equal
    assert svm_table(record.rows, jobs=1).split()[-1] == "NO"


def test_made_up_embeddings_have_the_size_of_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHAPES, "ENZYMES", (36, 6, 33))
    (row,) = measure_svm(replace(SMALL, shapes=("ENZYMES",), rounds=1)).rows
    assert (row.graphs, row.classes, row.dim) == (36, 6, 96)
    features, labels = pooled_features(344, 2, 14)
    assert np.bincount(labels).tolist() == [172, 172]
    np.testing.assert_array_equal(features, pooled_features(344, 2, 14)[0])
    assert not np.array_equal(features, pooled_features(344, 2, 14, seed=1)[0])


@pytest.mark.slow
def test_processes_of_scikit_learn_agree_too() -> None:
    (row,) = measure_svm(replace(SMALL, jobs=2, rounds=1), {"small": pooled_features(40, 2, 10)}).rows
    assert row.equal


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shapes": ()}, "expected some of PTC_MR, ENZYMES, DD, got none"),
        ({"shapes": ("MUTAG",)}, "got MUTAG"),
        ({"jobs": 0}, "jobs"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_settings_without_meaning_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]
