"""The SVM evaluation: the references' numbers, scikit-learn's on every fold, and what it must not look at."""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from golden_cases import golden_arrays, golden_cases
from pucl.data.errors import ExtraMissingError
from pucl.evaluation import (
    Classifier,
    KNNClassifier,
    LinearClassifier,
    SVMResult,
    folded,
    svm_on_splits,
)
from pucl.evaluation.classifier import mean_accuracy

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None,
    reason="scikit-learn is not installed",
)

Data = tuple[NDArray[np.float64], NDArray[np.int64]]

FEW = (0.01, 1.0, 100.0)


def pooled(count: int, classes: int, *, dim: int = 12, seed: int = 0, spread: float = 1.0) -> Data:
    """Classes that overlap; each sample has a size of its own, as sums over the nodes of graphs have."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % classes)
    means = rng.standard_normal((classes, dim))
    sizes = rng.lognormal(2.0, spread, (count, 1))
    return sizes * np.maximum(means[labels] + rng.standard_normal((count, dim)), 0), labels


def doubled(data: Data) -> Data:
    """Every second sample is one more copy of the one before it, half of them with another label."""
    features, labels = data[0].copy(), data[1].copy()
    features[1::2] = features[::2]
    labels[1::4] = labels[::4]
    return features, labels


SETS = {
    "two classes": pooled(90, 2),
    "six classes": pooled(120, 6, seed=1),
    "large values": (1e4 * pooled(80, 3, seed=2, spread=2.0)[0], pooled(80, 3, seed=2)[1]),
    "one feature": pooled(60, 2, dim=1, seed=3),
    "twins": doubled(pooled(80, 2, seed=4)),
    "nothing to see": (np.ones((40, 3)), np.arange(40) % 2),
    "a few of one class": (pooled(60, 2, seed=5)[0], np.repeat([0, 5], [47, 13])),
}


def svm(features: Any, labels: Any, *, folds: int = 10, seed: int = 0, **settings: Any) -> SVMResult:
    """The accuracy on each fold, after training on the others."""
    return svm_on_splits(folded(features, labels, folds=folds, seed=seed).splits, **settings)


def held_in(labels: NDArray[np.int64], folds: int, seed: int) -> list[NDArray[np.int64]]:
    """The indices of the samples that are held out, fold by fold."""
    indices = np.arange(len(labels), dtype=np.float64)[:, None]
    return [split.test.features[:, 0].astype(int) for split in folded(indices, labels, folds=folds, seed=seed).splits]


def by_sklearn(data: Data, *, scale: bool, folds: int, seed: int) -> SVMResult:
    from sklearn.model_selection import (  # type: ignore[import-untyped]  # noqa: PLC0415
        GridSearchCV,
        StratifiedKFold,
    )
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.svm import SVC  # type: ignore[import-untyped]  # noqa: PLC0415

    x, y = data
    machine = make_pipeline(StandardScaler(), SVC()) if scale else make_pipeline(SVC())
    accuracies, costs, validation = [], [], []
    for train, held in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y):
        search = GridSearchCV(machine, {"svc__C": list(FEW)}, cv=5).fit(x[train], y[train])
        accuracies.append(search.score(x[held], y[held]))
        costs.append(search.best_params_["svc__C"])
        validation.append(tuple(search.cv_results_["mean_test_score"]))
    return SVMResult(accuracies=tuple(accuracies), costs=tuple(costs), validation=tuple(validation))


@pytest.mark.parametrize("case", golden_cases("svm"))
def test_the_references_numbers(case: dict[str, Any]) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    for number, held in enumerate(held_in(arrays["y"].numpy(), hyper["n_splits"], hyper["random_state"])):
        assert (arrays["test_fold"][held] == number).all()
    costs = hyper["C"] if isinstance(hyper["C"], list) else [hyper["C"]]
    settings = {"folds": hyper["n_splits"], "seed": hyper["random_state"], "costs": costs}
    result = svm(arrays["x"], arrays["y"], **settings, inner_folds=hyper["inner_cv"] or 5)
    tolerance = case["tolerance"]
    np.testing.assert_allclose(result.accuracies, arrays["fold_accuracy"].numpy(), **tolerance)
    np.testing.assert_allclose(np.mean(result.accuracies), arrays["accuracy"].item(), **tolerance)


@pytest.mark.parametrize("scale", [False, True], ids=["as they are", "scaled"])
@pytest.mark.parametrize("name", SETS)
def test_every_fold_is_that_of_scikit_learn(name: str, scale: bool) -> None:
    result = svm(*SETS[name], costs=FEW, folds=3, seed=7, scale=scale)
    assert result == by_sklearn(SETS[name], scale=scale, folds=3, seed=7)


def test_sets_differ_enough_to_tell() -> None:
    """The comparison above is worth something: folds differ in accuracy, C matters, and different ones are chosen."""
    results = [svm(*SETS[name], costs=FEW, folds=3, seed=7) for name in list(SETS)[:5]]
    assert all(0.2 < np.mean(result.accuracies) < 1 for result in results)
    assert len({cost for result in results for cost in result.costs}) > 1
    assert all(len(set(result.validation[0])) > 1 for result in results)


def test_the_number_of_jobs_changes_nothing() -> None:
    data = SETS["six classes"]
    for scale in (False, True):
        alone = svm(*data, costs=FEW, folds=4, scale=scale, jobs=1)
        assert svm(*data, costs=FEW, folds=4, scale=scale, jobs=1) == alone
        assert svm(*data, costs=FEW, folds=4, scale=scale, jobs=3) == alone
    assert svm(*data, costs=FEW, folds=4, seed=1) != svm(*data, costs=FEW, folds=4)


def test_arrays_and_tensors_of_either_precision_are_the_same() -> None:
    features, labels = SETS["two classes"]
    single = features.astype(np.float32)
    first = svm(single, labels, costs=FEW, folds=3)
    assert svm(torch.tensor(single), torch.tensor(labels), costs=FEW, folds=3) == first
    assert svm(single.astype(np.float64), labels.astype(np.uint8), costs=FEW, folds=3) == first


@pytest.mark.parametrize("scale", [False, True], ids=["as they are", "scaled"])
@pytest.mark.parametrize("what", ["features", "labels"])
def test_held_out_samples_do_not_influence_choices(what: str, scale: bool) -> None:
    """If features or labels of a fold change, the C that was chosen for it stays."""
    features, labels = SETS["two classes"][0].copy(), SETS["two classes"][1].copy()
    before = svm(features, labels, costs=FEW, folds=3, scale=scale)
    held = held_in(labels, 3, 0)[1]
    if what == "features":
        features[held] = 100 * features[held] + 5
    else:  # Neighbours in the fold swap their labels, so that the folds stay the same.
        for index in held[:-1]:
            if index + 1 in held and labels[index] != labels[index + 1]:
                labels[[index, index + 1]] = labels[[index + 1, index]]
        assert np.array_equal(held, held_in(labels, 3, 0)[1])
    after = svm(features, labels, costs=FEW, folds=3, scale=scale)
    assert after.validation[1] == before.validation[1]
    assert after.costs[1] == before.costs[1]
    assert after.accuracies[1] != before.accuracies[1]
    assert after.validation[0] != before.validation[0]  # The others learn from that fold.


def test_a_single_cost_needs_no_inner_folds() -> None:
    result = svm(*SETS["two classes"], costs=[1.0], folds=3)
    assert result.costs == (1.0, 1.0, 1.0)
    assert result.validation == ()


# Other classifiers on the same folds


@pytest.mark.parametrize("make", [lambda: LinearClassifier(strengths=(0.1,)), KNNClassifier], ids=["linear", "knn"])
def test_classifiers_are_tested_on_the_same_folds(make: Callable[[], Classifier]) -> None:
    features, labels = SETS["two classes"]
    found = mean_accuracy(folded(features, labels, folds=4, seed=3), make)
    assert found.details["folds"] == [
        make().fit(np.delete(features, held, 0), np.delete(labels, held)).score(features[held], labels[held])
        for held in held_in(labels, 4, 3)
    ]
    assert found.numbers == {"": np.mean(found.details["folds"])}
    assert mean_accuracy(folded(torch.tensor(features), torch.tensor(labels), folds=4, seed=3), make) == found
    assert mean_accuracy(folded(features, labels, folds=4, seed=4), make) != found


# What is refused, and what is only said


def test_small_classes_are_treated_as_by_scikit_learn_and_said_once() -> None:
    features, labels = pooled(60, 2)
    labels = labels.copy()
    labels[:4] = 2
    found = svm(features, labels, costs=FEW, folds=3, seed=1)
    with pytest.warns(UserWarning, match="The least populated class"):
        assert found == by_sklearn((features, labels), scale=False, folds=3, seed=1)
    with pytest.warns(UserWarning, match="smallest class has 4 samples, too few for 5 folds, and is absent") as caught:
        folded(features, labels, folds=5)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folds": 1}, "held out one after the other: expected at least 2, got 1"),
        ({"folds": 31}, "expected at most 30 folds, its number of samples, got 31"),
        ({"inner_folds": 1}, "held out one after the other: expected at least 2, got 1"),
        ({"inner_folds": 29}, "expected at most 20 folds, its number of samples, got 29"),
        ({"costs": ()}, r"costs are the C to choose from: expected one or more, 0 < C < inf, got \(\)"),
        ({"costs": (1.0, 0.0)}, "0 < C < inf"),
        ({"costs": (float("nan"),)}, "0 < C < inf"),
        ({"jobs": 0}, "jobs is the number of threads: expected at least 1, got 0"),
        ({"features": np.full((60, 2), np.nan)}, "NaN or infinity in 60 of 60 samples"),
        ({"features": np.full((60, 2), np.inf)}, "NaN or infinity in 60 of 60 samples"),
        ({"features": np.full((60, 2), 1e200)}, r"squared and added up: expected none beyond 1e\+150, got 1e\+200"),
        ({"features": np.zeros((59, 2))}, "expected 59 labels, got 60"),
        ({"labels": np.zeros(60, dtype=np.int64)}, "expected labels of at least 2 classes, got only class 0"),
        ({"labels": np.repeat([0, 1], [59, 1])}, "expected two classes or more outside of each of 3 folds of 60"),
        ({"labels": np.repeat([0, 1], [58, 2])}, "expected two classes or more outside"),
    ],
)
@pytest.mark.filterwarnings("ignore:the smallest class")
def test_what_cannot_be_evaluated_is_refused(change: dict[str, Any], message: str) -> None:
    features, labels = pooled(60, 2)
    with pytest.raises(ValueError, match=message):
        svm(**{"features": features, "labels": labels, "folds": 3, "costs": FEW, **change})


def test_scikit_learn_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.model_selection", None)
    with pytest.raises(ExtraMissingError, match="cross-validation needs scikit-learn, which is not installed"):
        svm(*SETS["two classes"])


def test_features_that_hardly_differ_are_refused() -> None:
    features = np.full((20, 3), 0.0)
    features[::2] = 1e-160
    with pytest.raises(ValueError, match="expected one with a finite inverse, got"):
        svm(features, np.arange(20) // 2 % 2, folds=2, inner_folds=2)


def test_the_machine_needs_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(ExtraMissingError, match="the support vector machine needs scikit-learn, which is not"):
        svm(*SETS["two classes"])
