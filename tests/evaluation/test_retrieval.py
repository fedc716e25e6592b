"""Retrieval: scikit-learn's and pytorch-metric-learning's numbers, and every order of tied samples."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.evaluation import PROBES, Labelled, ProbedSamples, measure, retrieval
from pucl.evaluation.retrieval import GAINED, NEAREST, rank_items, rank_neighbours

Data = tuple[NDArray[np.float64], NDArray[np.int64]]


def classes_of(count: int, classes: int, *, seed: int = 0, spread: float = 1.0, dim: int = 8) -> Data:
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=count)
    return generator.standard_normal((classes, dim))[labels] + spread * generator.standard_normal((count, dim)), labels


def cosines_of(features: NDArray[np.float64]) -> NDArray[np.float64]:
    units = features / np.linalg.norm(features, axis=1, keepdims=True)
    cosines: NDArray[np.float64] = units @ units.T
    return cosines


def corners(count: int = 60) -> Data:
    """Vectors of -1 and 1 in four dimensions: their cosines are exact, and most are tied."""
    generator = np.random.default_rng(1)
    return generator.choice([-1.0, 1.0], (count, 4)), generator.integers(3, size=count)


@pytest.mark.parametrize("data", [classes_of(90, 4), classes_of(50, 2, spread=3.0), corners()], ids=["4", "2", "ties"])
def test_average_precision_is_that_of_scikit_learn(data: Data) -> None:
    average_precision_score = pytest.importorskip("sklearn.metrics").average_precision_score
    features, labels = data
    cosines = cosines_of(features).round(7)
    expected = [
        average_precision_score(np.delete(labels == labels[query], query), np.delete(cosines[query], query))
        for query in range(len(labels))
    ]
    np.testing.assert_allclose(rank_neighbours(features, labels).average_precision, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "data",
    [classes_of(90, 4), classes_of(50, 2, spread=3.0), corners(), classes_of(60, 25), corners(6)],
    ids=["4", "2", "ties", "few relevant", "fewer than ten"],
)
def test_ndcg_is_that_of_scikit_learn(data: Data) -> None:
    """Also with ties, over which both take the mean, and with fewer relevant samples than places."""
    ndcg_score = pytest.importorskip("sklearn.metrics").ndcg_score
    features, labels = data
    cosines = cosines_of(features).round(7)
    queries = np.flatnonzero(np.bincount(labels)[labels] > 1)
    expected = [
        ndcg_score([np.delete(labels == labels[query], query)], [np.delete(cosines[query], query)], k=GAINED)
        for query in queries
    ]
    np.testing.assert_allclose(rank_neighbours(features, labels).gain, expected, rtol=1e-12)


def test_items_are_ranked_as_scikit_learn_ranks_them() -> None:
    """Queries and items of two towers, with a relevance that is no class: an item is relevant to some queries."""
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(3)
    queries, items = generator.standard_normal((20, 6)), generator.standard_normal((70, 6))
    cosines = cosines_of(np.concatenate([queries, items]))[:20, 20:].round(7)
    relevant = cosines + generator.standard_normal((20, 70)) > 0.8
    found = rank_items(queries, items, relevant)
    for query in range(20):
        precision = metrics.average_precision_score(relevant[query], cosines[query])
        assert found.average_precision[query] == pytest.approx(precision)
        assert found.gain[query] == pytest.approx(metrics.ndcg_score(relevant[[query]], cosines[[query]], k=GAINED))
        nearest = np.argsort(-cosines[query])
        assert found.recall[query].tolist() == [relevant[query, nearest[:k]].any() for k in NEAREST]
    assert found.means()["ndcg_10"] == pytest.approx(found.gain.mean())
    with pytest.raises(ValueError, match="at least one of 70 for each of 20 queries, got shape .* and 20 queries"):
        rank_items(queries, items, np.zeros((20, 70), bool))
    with pytest.raises(ValueError, match=r"got shape \(20, 69\)"):
        rank_items(queries, items, relevant[:, 1:])


@pytest.mark.parametrize("classes", [2, 5, 30])
def test_means_are_those_of_pytorch_metric_learning(classes: int) -> None:
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    inference = pytest.importorskip("pytorch_metric_learning.utils.inference")
    distances = pytest.importorskip("pytorch_metric_learning.distances")
    features, labels = classes_of(120, classes, seed=classes)
    names = {"mean_average_precision": "retrieval", "r_precision": "retrieval_r_precision"}
    calculator = calculators.AccuracyCalculator(
        include=(*names, "precision_at_1"),
        k=len(labels) - 1,
        knn_func=inference.CustomKNN(distances.CosineSimilarity()),
    )
    expected = calculator.get_accuracy(features.astype(np.float32), labels)
    found = measured(features, labels)
    for theirs, ours in (names | {"precision_at_1": "retrieval_recall_1"}).items():
        assert found[ours] == pytest.approx(expected[theirs], rel=1e-5), ours


def measured(features: NDArray[Any], labels: NDArray[np.int64], **settings: int) -> dict[str, float]:
    samples = ProbedSamples(splits=(), tested=Labelled(features, labels))
    found = PROBES["retrieval"].measure(samples, **settings)
    assert measure(samples, {"retrieval": PROBES["retrieval"]}).keys() == {
        "retrieval" if key == "" else f"retrieval_{key}" for key in found.numbers
    }
    return {"retrieval" if key == "" else f"retrieval_{key}": value for key, value in found.numbers.items()}


def test_tied_samples_count_by_the_mean_over_all_their_orders() -> None:
    """Seven samples around a query, most of them tied: R-precision and recall by all 5,040 orders."""
    features = np.array([[1.0, 1], [1, 1], [1, 1], [1, -1], [1, -1], [1, -1], [-1, -1], [-1, -1]])
    labels = np.array([0, 1, 0, 1, 1, 0, 0, 1])
    found = rank_neighbours(features, labels)
    for query in range(len(labels)):
        others = [each for each in range(len(labels)) if each != query]
        cosines = cosines_of(features)[query].round(6)
        relevant = labels == labels[query]
        total = relevant[others].sum()
        precisions, recalls, gains = [], [], []
        discount = 1 / np.log2(np.arange(len(others)) + 2)
        for order in itertools.permutations(others):
            ranked = relevant[sorted(order, key=lambda each: -cosines[each])]
            precisions.append(ranked[:total].mean())
            recalls.append([ranked[:k].any() for k in NEAREST])
            gains.append((discount * ranked).sum() / discount[:total].sum())
        assert found.r_precision[query] == pytest.approx(np.mean(precisions))
        np.testing.assert_allclose(found.recall[query], np.mean(recalls, axis=0))
        assert found.gain[query] == pytest.approx(np.mean(gains))


def test_collapsed_embeddings_are_at_the_level_of_chance() -> None:
    labels = np.arange(40) % 4
    found = measured(np.ones((40, 3)), labels)
    assert found["retrieval"] == pytest.approx(9 / 39)
    assert found["retrieval_r_precision"] == pytest.approx(9 / 39)
    assert found["retrieval_recall_1"] == pytest.approx(9 / 39)
    assert found["retrieval_recall_10"] < 1


def test_perfect_embeddings() -> None:
    labels = np.arange(40) % 4
    assert set(measured(np.eye(4)[labels], labels).values()) == {1.0}


def test_blocks_threads_and_a_part_of_the_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = classes_of(70, 5)
    whole = rank_neighbours(features, labels)
    some = np.array([3, 50, 69])
    for one, other in zip(whole, rank_neighbours(features, labels, some), strict=True):
        np.testing.assert_array_equal(one[some], other)
    monkeypatch.setattr(retrieval, "BLOCK", 70 * 13)
    monkeypatch.setattr(retrieval, "SHARE", 70 * 2)
    for one, other in zip(whole, rank_neighbours(features, labels), strict=True):
        np.testing.assert_array_equal(one, other)
    assert measured(features, labels, queries=20) == measured(features, labels, queries=20)
    assert measured(features, labels, queries=20)["retrieval"] != measured(features, labels)["retrieval"]


def test_queries_without_a_mate_do_not_count() -> None:
    features, labels = classes_of(30, 3)
    alone = np.append(labels, [7, 8])
    more = np.concatenate([features, features[:2] + 0.1])
    assert len(rank_neighbours(more, alone).recall) == 30
    for wrong in (np.array([3, 31]), np.array([], dtype=int)):
        with pytest.raises(ValueError, match="expected a class of two samples or more"):
            rank_neighbours(more, alone, wrong)
    assert 0 < measured(more, alone)["retrieval"] < 1
    assert measured(features[:3], np.arange(3)) == {}  # No query has a mate.
    assert measured(features[:1], labels[:1]) == {}
