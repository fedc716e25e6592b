"""Classifiers: golden vectors, loops from the formula, known optima, and one contract for all."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from golden_cases import golden_arrays, golden_cases
from pucl.evaluation import Classifier, KNNClassifier, LinearClassifier, ReferenceLinearClassifier, knn, linear

Data = tuple[NDArray[np.float32], NDArray[np.int64]]

EVERY: dict[str, Callable[[], Classifier]] = {
    "linear": lambda: ReferenceLinearClassifier(epochs=60, lr=0.01),
    "full-batch": LinearClassifier,
    "knn": lambda: KNNClassifier(k=20),
}
every_classifier = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)


def classes_of(count: int, seed: int, *, distance: float, classes: int = 5, dim: int = 16) -> Data:
    """Gaussian classes, rectified as the features of a ResNet are; their means are the same for every seed."""
    means = distance * np.random.default_rng(99).standard_normal((classes, dim))
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    return np.maximum(means[labels] + rng.standard_normal((count, dim)) + 0.5, 0).astype(np.float32), labels


@every_classifier
def test_separable_classes_are_told_apart_whatever_their_numbers(make: Callable[[], Classifier]) -> None:
    features, labels = classes_of(300, 1, distance=4.0)
    features.flags.writeable = False  # As memory maps are.
    names = np.array([2, 3, 7, 30, 1000])
    probe = make().fit(features, names[labels])
    tested, truth = classes_of(200, 2, distance=4.0)
    assert probe.score(features, names[labels]) == 1.0
    assert probe.score(tested, names[truth]) == 1.0
    assert probe.predict(tested).tolist() == names[truth].tolist()
    # A class that was never seen is never right.
    assert probe.score(tested, np.full(200, 5)) == 0.0


@every_classifier
def test_the_same_seed_gives_the_same_probe_and_no_other_generator_moves(make: Callable[[], Classifier]) -> None:
    features, labels = classes_of(200, 1, distance=0.4)
    tested, truth = classes_of(200, 2, distance=0.4)
    state = torch.get_rng_state()
    first = make().fit(features, labels).predict(tested)
    torch.testing.assert_close(torch.get_rng_state(), state)
    torch.manual_seed(5)
    again = make().fit(torch.tensor(features), torch.tensor(labels)).predict(torch.tensor(tested))
    assert torch.equal(first, again)
    assert 0.2 < (first == torch.tensor(truth)).double().mean() < 1


@every_classifier
def test_wrong_data_is_refused(make: Callable[[], Classifier], without_shape_checks: None) -> None:
    features, labels = classes_of(30, 1, distance=4.0)
    broken = features.copy()
    broken[3, 2] = np.nan
    broken[5, 1] = np.inf
    wrong: list[tuple[Any, Any, str]] = [
        (features, labels[:-1], "expected 30 labels, got 29"),
        (features, np.zeros(30, dtype=int), "expected labels of at least 2 classes, got only class 0"),
        (features, labels - 1, "expected 0 or more, got -1"),
        (features, labels.astype(float), r"expected integers of shape \[sample\], got torch.float64"),
        (features, labels[:, None], r"expected integers of shape \[sample\], got torch.int64 of shape \[30, 1\]"),
        (broken, labels, "NaN or infinity in 2 of 30 samples"),
        (features[0], labels, r"expected the shape \[sample, dim\], neither of them 0, got \[16\]"),
        (features[:0], labels[:0], r"neither of them 0, got \[0, 16\]"),
    ]
    for x, y, message in wrong:
        with pytest.raises(ValueError, match=message):
            make().fit(x, y)
    with pytest.raises(RuntimeError, match="Classifier has learned nothing yet: call fit first"):
        make().predict(features)
    probe = make().fit(features, labels)
    with pytest.raises(ValueError, match="fitted to features of dimension 16: expected the same, got 15"):
        probe.predict(features[:, :15])
    with pytest.raises(ValueError, match="NaN or infinity"):
        probe.predict(broken)
    with pytest.raises(ValueError, match="expected 30 labels, got 29"):
        probe.score(features, labels[:-1])


@pytest.mark.slow
def test_the_two_linear_probes_agree() -> None:
    """The references' recipe needs some 2,000 steps to come to its optimum, which 10,000 samples give it."""
    train, test = (classes_of(10_000, 1, distance=0.5, dim=32), classes_of(4000, 2, distance=0.5, dim=32))
    fast, slow = LinearClassifier().fit(*train), ReferenceLinearClassifier().fit(*train)
    assert 0.8 < fast.score(*test) < 0.9
    differ = (fast.predict(test[0]) != slow.predict(test[0])).double().mean().item()
    assert differ < 0.06
    # Of the samples on which they differ, each is right as often as the other, but for three standard deviations.
    assert abs(fast.score(*test) - slow.score(*test)) < 3 * math.sqrt(differ / 4000)


@pytest.mark.slow
def test_on_few_samples_the_references_recipe_stops_early_and_more_epochs_close_the_gap() -> None:
    train, test = classes_of(1000, 1, distance=0.5), classes_of(4000, 2, distance=0.5)
    fast = LinearClassifier().fit(*train).score(*test)
    recipe, longer = (ReferenceLinearClassifier(epochs=epochs).fit(*train).score(*test) for epochs in (100, 1000))
    assert recipe < fast - 0.03
    assert abs(longer - fast) < 0.02


def test_the_full_batch_probe_is_at_its_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradient, by autograd from the formula, is zero."""
    features, labels = classes_of(300, 1, distance=0.5)
    monkeypatch.setattr(linear, "ITERATIONS", 500)
    probe = LinearClassifier(strengths=(0.01,)).fit(features.astype(np.float64), labels)
    assert probe.validation == {}
    x = torch.tensor(features.astype(np.float64))
    x = (x - x.mean(dim=0)) / x.std(dim=0, correction=0)
    solution = probe.solution.clone().requires_grad_()
    weight, bias = solution[:, :-1], solution[:, -1]
    log_likelihood = (x @ weight.T + bias).log_softmax(dim=1)[torch.arange(300), torch.tensor(labels)]
    (-log_likelihood.mean() + 0.01 / 2 * weight.square().sum()).backward()
    assert solution.grad is not None
    assert solution.grad.abs().max() < 1e-4


def test_the_strength_is_chosen_on_folds_left_out_and_follows_the_noise() -> None:
    """Many features that say nothing and few samples want a strong penalty; many samples a weak one."""
    noise = np.random.default_rng(5)

    def with_noise(data: Data) -> Data:
        return np.hstack([data[0], noise.standard_normal((len(data[0]), 60)).astype(np.float32)]), data[1]

    few = LinearClassifier().fit(*with_noise(classes_of(80, 1, distance=0.5)))
    many = LinearClassifier().fit(*with_noise(classes_of(4000, 1, distance=0.5)))
    assert few.strength > many.strength
    for probe in (few, many):
        assert probe.validation[probe.strength] == max(probe.validation.values())
        # It is an estimate for samples never seen, not for those that were fitted.
        assert probe.validation[probe.strength] == pytest.approx(
            probe.score(*with_noise(classes_of(3000, 2, distance=0.5))), abs=0.1
        )


def test_folds_hold_each_class_alike_and_every_sample_once() -> None:
    labels = torch.tensor([0] * 30 + [1] * 12 + [2] * 4)
    fold = linear._stratified_folds(labels, 3, seed=0)
    counts = torch.stack([torch.bincount(fold[labels == c], minlength=3) for c in range(3)])
    assert counts.sum() == 46
    assert (counts.max(dim=1).values - counts.min(dim=1).values).max() <= 1
    assert not torch.equal(fold, linear._stratified_folds(labels, 3, seed=1))


def test_features_that_never_change_say_nothing() -> None:
    features, labels = classes_of(200, 1, distance=4.0)
    constant = np.hstack([features, np.full((200, 2), [0.0, 3.3], dtype=np.float32)])
    tested, truth = classes_of(100, 2, distance=4.0)
    other = np.hstack([tested, np.full((100, 2), [1.0, -7.0], dtype=np.float32)])
    assert LinearClassifier().fit(constant, labels).score(other, truth) == 1.0


@pytest.mark.parametrize("case", golden_cases("knn"))
def test_golden_neighbours(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, hyper = golden_arrays(case), case["hyper"]
    monkeypatch.setattr(knn, "BLOCK", 4 * len(arrays["bank"]))  # Blocks of four, ragged at the end.
    probe = KNNClassifier(hyper["k"], hyper["t"]).fit(arrays["bank"], arrays["bank_labels"])
    scores, expected = torch.zeros_like(arrays["pred_scores"]), arrays["pred_scores"]
    scores[:, probe.classes] = probe.scores(arrays["test"])
    shares, expected = (each / each.sum(dim=1, keepdim=True) for each in (scores, expected))
    torch.testing.assert_close(shares, expected, **case["tolerance"])
    assert torch.equal(probe.predict(arrays["test"]), arrays["pred_top1"])
    accuracy, right = probe.score(arrays["test"], arrays["test_labels"]), float(arrays["acc_top1"])
    assert accuracy * 100 == pytest.approx(right) or accuracy == pytest.approx(right)


def test_neighbours_as_loops_from_the_formula() -> None:
    features, labels = classes_of(40, 1, distance=0.4, dim=3)
    tested, _ = classes_of(9, 2, distance=0.4, dim=3)
    probe = KNNClassifier(k=7, temperature=0.3).fit(features.astype(np.float64), labels)
    scores = probe.scores(tested.astype(np.float64))

    def cosine(one: list[float], other: list[float]) -> float:
        product = sum(a * b for a, b in zip(one, other, strict=True))
        return product / max(math.hypot(*one), 1e-12) / max(math.hypot(*other), 1e-12)

    for i, sample in enumerate(tested.astype(float).tolist()):
        near = sorted(
            ((cosine(sample, row), y) for row, y in zip(features.astype(float).tolist(), labels.tolist(), strict=True)),
            reverse=True,
        )
        assert near[6][0] > near[7][0], "a tie would make the neighbours arbitrary"
        for y in range(5):
            expected = sum(math.exp((s - near[0][0]) / 0.3) for s, label in near[:7] if label == y)
            assert scores[i, y].item() == pytest.approx(expected, rel=1e-9)


def test_more_neighbours_than_samples_are_all_of_them() -> None:
    features, labels = classes_of(20, 1, distance=0.5)
    tested, _ = classes_of(9, 2, distance=0.5)
    everyone, more = (KNNClassifier(k=k).fit(features, labels).scores(tested) for k in (20, 200))
    torch.testing.assert_close(everyone, more)


def test_a_low_temperature_is_the_nearest_neighbour_and_no_overflow() -> None:
    features, labels = classes_of(200, 1, distance=0.5)
    tested, _ = classes_of(50, 2, distance=0.5)
    cold = KNNClassifier(k=200, temperature=1e-4).fit(features, labels)
    nearest = KNNClassifier(k=1).fit(features, labels)
    assert torch.equal(cold.predict(tested), nearest.predict(tested))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="k is the number of neighbours that vote: expected at least 1, got 0"):
        KNNClassifier(k=0)
    with pytest.raises(ValueError, match="expected temperature > 0, got 0"):
        KNNClassifier(temperature=0.0)
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        ReferenceLinearClassifier(epochs=0)
    with pytest.raises(ValueError, match="expected one or more >= 0, got"):
        LinearClassifier(strengths=())
