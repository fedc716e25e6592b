"""Embeddings in, answer out."""

import json
from typing import Any

import numpy as np
import pytest
import torch

import pucl
from classed_samples import SAMPLES, make
from pucl.diagnosis.diagnose import Diagnosis
from pucl.estimation.communities import share_of_pairs
from pucl.estimation.granularity import COMMON


@pytest.fixture(scope="module")
def answer() -> Diagnosis:
    rows, labels = make()
    return pucl.diagnose(rows, make(seed=1)[0], labels, temperature=0.3)


def test_the_truth_is_inside_and_the_costs_are_near_those_by_the_labels(answer: Diagnosis) -> None:
    assert answer.refused is None
    assert answer.truth is not None
    assert answer.truth.share == pytest.approx(share_of_pairs(make()[1]))
    assert answer.truth.inside
    assert answer.calibrated
    for cost in answer.costs:
        assert cost.share is not None
        assert cost.truth is not None
        assert cost.share == pytest.approx(cost.truth, abs=0.1)
    shares = [cost.share for cost in answer.costs]
    assert shares == sorted(shares, key=lambda share: -(share or 0))  # A low temperature costs more.


def test_the_temperature_that_was_asked_for_is_among_the_usual_ones(answer: Diagnosis) -> None:
    assert [cost.temperature for cost in answer.costs] == [0.05, 0.1, 0.2, 0.3, 0.5, 1.0]
    assert answer.cost.temperature == 0.3


def test_labels_change_nothing_but_the_truth(answer: Diagnosis) -> None:
    rows, _ = make()
    blind = pucl.diagnose(rows, make(seed=1)[0], temperature=0.3)
    shuffled = pucl.diagnose(rows, make(seed=1)[0], np.random.default_rng(0).permutation(SAMPLES) % 5, temperature=0.3)
    for other in (blind, shuffled):
        assert (other.share, other.interval, other.levels) == (answer.share, answer.interval, answer.levels)
        assert [each.share for each in other.costs] == [each.share for each in answer.costs]
    assert blind.truth is None
    assert not blind.calibrated  # Without labels nobody knows.
    assert not shuffled.calibrated


def test_it_is_printed_and_recorded(answer: Diagnosis) -> None:
    text = str(answer)
    for words in (
        "320 samples of 16 dimensions",
        "Share of false negatives: 1",
        "0.3 *",
        "inside the interval",
        "auto",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 110
    record = json.loads(json.dumps(answer.as_json(), allow_nan=False))
    assert record["share"] == answer.share
    assert record["truth"]["inside"] is True
    assert len(record["levels"]) == 10
    assert "inside" not in str(pucl.diagnose(make()[0]))


def test_tensors_lists_and_lengths_do_not_matter() -> None:
    rows, labels = make(160)
    first = pucl.diagnose(rows)
    scaled = rows * np.random.default_rng(0).uniform(0.1, 9, (160, 1)).astype(np.float32)
    for other in (torch.from_numpy(rows).requires_grad_(), rows.tolist(), rows.astype(np.float64), scaled):
        assert pucl.diagnose(other).share == pytest.approx(first.share, rel=0.05)
    words = pucl.diagnose(rows, labels=[f"class {label}" for label in labels])
    numbers = pucl.diagnose(rows, labels=torch.from_numpy(labels))
    assert words.truth == numbers.truth


def test_features_say_what_groups_are_and_embeddings_what_they_cost() -> None:
    rows, labels = make()
    noise = np.random.default_rng(3).standard_normal((SAMPLES, 12)).astype(np.float32)
    found = pucl.diagnose(noise, labels=labels, features=rows)
    assert found.share == pucl.diagnose(rows).share
    assert found.cost.share == pytest.approx(found.share, abs=0.03)  # Noise pushes all pairs alike.


def test_noise_and_points_are_refused() -> None:
    for rows, words in (
        (np.random.default_rng(0).standard_normal((200, 8)), "do not repeat"),
        (np.ones((200, 8)), "all embeddings are the same"),
    ):
        found = pucl.diagnose(rows, rows, np.arange(200) % 4)
        assert (found.share, found.interval, found.cost.share, found.cost.floored) == (None,) * 4
        assert words in (found.refused or "")
        assert "it cannot be told" in str(found)
        assert "plain" in found.advice
        assert found.truth is not None
        assert found.truth.inside is None
        assert found.cost.truth == pytest.approx(found.truth.share, abs=0.02)


def test_advice_follows_what_false_negatives_cost() -> None:
    many = pucl.diagnose(make()[0], temperature=0.2)
    assert "AutoLoss(temperature=0.2)" in many.advice
    assert "DebiasedLoss(tau_plus=0.1" in many.advice
    numbers = np.random.default_rng(0)
    labels = np.arange(1500) % 100
    rows = numbers.standard_normal((100, 64))[labels] + 0.9 * numbers.standard_normal((1500, 64))
    few = pucl.diagnose(rows, temperature=5.0)
    assert few.refused is None
    assert "stay with plain" in few.advice
    small = pucl.diagnose(rows, temperature=0.1)
    assert small.share is not None
    assert small.share < COMMON
    assert "leave the costliest pairs out" in small.advice


def test_of_many_samples_some_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.estimation.communities.LARGEST", 160)
    rows, labels = make()
    found = pucl.diagnose(rows, labels=labels)
    assert (found.samples, found.compared) == (320, 160)
    assert "Estimates rest on 160 random ones." in str(found)
    assert found.truth is not None
    assert found.truth.inside


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embeddings": np.ones((1, 4))}, "expected at least 60 rows, got 1"),
        ({"embeddings": np.ones(100)}, r"embeddings holds embeddings: expected the shape \[batch, dim\]"),
        ({"embeddings": np.full((100, 4), np.nan)}, "embeddings holds embeddings: expected finite numbers"),
        ({"embeddings": np.array([["a"] * 4] * 100)}, "embeddings are vectors: expected numbers, got <U1"),
        ({"views": np.ones((99, 16))}, r"views are the positives .* expected the shape \[320, 16\], got \[99, 16\]"),
        ({"views": np.ones((320, 8))}, r"got \[320, 8\]"),
        ({"views": np.full((320, 16), np.inf)}, "views holds embeddings: expected finite numbers"),
        ({"labels": [0, 1]}, "labels are the classes .* expected one for each of 320 samples, got 2"),
        ({"labels": np.zeros((320, 2))}, "expected a number or a text for each"),
        ({"labels": np.full(320, np.nan)}, "got NaN or infinity"),
        ({"names": ["a"]}, "names are what the samples are called: expected one for each of 320 samples, got 1"),
        ({"features": np.ones((3, 5))}, "features are what groups are searched in: expected one for each"),
        ({"temperature": 0.0}, "temperature is what similarities are divided by"),
        ({"temperature": float("nan")}, "temperature is what similarities are divided by"),
    ],
)
def test_wrong_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pucl.diagnose(**({"embeddings": make()[0]} | changes))
