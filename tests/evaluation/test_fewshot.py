"""Few labels: the nearest class mean by loops, fair draws, and small classes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.evaluation import PROBES, Labelled, folded, train_and_test
from pucl.evaluation.fewshot import _drawn, few_shot_accuracy
from pucl.evaluation.probe import LEADING, Split


def classes_of(count: int, *, seed: int, classes: int = 4) -> Labelled:
    labels = np.arange(count) % classes
    means = np.random.default_rng(9).standard_normal((classes, 6))
    return Labelled(means[labels] + np.random.default_rng(seed).standard_normal((count, 6)), labels)


def unit(vector: NDArray[np.floating]) -> NDArray[np.floating]:
    return vector / np.linalg.norm(vector)


def test_it_is_the_nearest_class_mean() -> None:
    train, test = classes_of(60, seed=1), classes_of(40, seed=2)
    accuracies = []
    for draw in range(3):
        drawn = _drawn(train.labels, 5, np.random.default_rng((7, draw)))
        means = [
            unit(np.sum([unit(train.features[i]) for i in drawn if train.labels[i] == label], axis=0))
            for label in range(4)
        ]
        right = [np.argmax([mean @ row for mean in means]) == label for row, label in zip(*test, strict=True)]
        accuracies.append(np.mean(right))
    assert few_shot_accuracy(Split(train, test), 5, 3, 7) == pytest.approx(np.mean(accuracies))
    assert 0.3 < np.mean(accuracies) < 1


def test_draws_have_so_many_of_each_class_and_differ() -> None:
    labels = np.repeat([0, 1, 2], [3, 30, 17])
    seen = set()
    for seed in range(30):
        drawn = _drawn(labels, 5, np.random.default_rng(seed))
        assert np.bincount(labels[drawn]).tolist() == [3, 5, 5]  # The smallest class gives all that it has.
        seen |= set(drawn)
    assert seen == set(range(50))


def test_more_labels_are_better_and_all_numbers_are_reported() -> None:
    found = PROBES["fewshot"].measure(train_and_test(classes_of(400, seed=1), classes_of(200, seed=2))).numbers
    assert found.keys() == PROBES["fewshot"].numbers.keys()
    assert 0.3 < found["1"] < found["5"] < found[LEADING] < 1


def test_other_numbers_of_classes_and_folds() -> None:
    samples = classes_of(80, seed=1)
    renamed = folded(samples.features, np.array([3, 8, 9, 40])[samples.labels], folds=4)
    assert PROBES["fewshot"].measure(renamed) == PROBES["fewshot"].measure(folded(*samples, folds=4))
    unseen = Split(samples, Labelled(samples.features, np.full(80, 7)))
    assert few_shot_accuracy(unseen, 1, 2, 0) == 0
