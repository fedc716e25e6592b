"""The pairs that cost most: against loops, what kind they are, and how they are written."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import pucl
from classed_samples import SAMPLES, make
from pucl.data.pairlist import read_pairs
from pucl.diagnosis import suspects


def unit(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = rows.astype(np.float64)
    lengths: NDArray[np.float64] = np.sqrt((exact**2).sum(axis=1, keepdims=True))
    return exact / lengths


@pytest.mark.parametrize("views", [False, True])
def test_costs_are_those_of_loops(views: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "NEIGHBOURS", 159)
    rows, labels = make(160)
    others = make(160, seed=1)[0] if views else None
    result = pucl.diagnose(rows, others, labels, temperature=0.2)
    found = result.suspects(10_000)
    one = unit(rows)
    cosines = one @ (one if others is None else unit(others)).T
    h = np.exp(cosines / 0.2)
    np.fill_diagonal(h, 0)
    push = h / h.sum(axis=1, keepdims=True)
    groups = result.divided.granularity.groups
    expected = {}
    for i in range(160):
        for j in range(i + 1, 160):
            r = float((groups[i] == groups[j]).double().mean() ** 2)
            if r > 0:
                expected[i, j] = r * (push[i, j] + push[j, i]) / 160
    assert len(found) == len(expected) > 100
    for pair in found:
        assert pair.cost == pytest.approx(expected[pair.first, pair.second], rel=1e-4)
        assert pair.similarity == pytest.approx(
            (cosines[pair.first, pair.second] + cosines[pair.second, pair.first]) / 2, abs=1e-5
        )
    costs = [pair.cost for pair in found]
    assert costs == sorted(costs, reverse=True)
    assert found.cost == pytest.approx(result.cost.share, rel=1e-3)  # All suspects together are the whole cost.


@pytest.mark.slow
def test_a_part_of_the_anchors_estimates_the_same_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = make()
    whole = {(pair.first, pair.second): pair.cost for pair in pucl.suspects(rows, count=5000)}
    monkeypatch.setattr(suspects, "ANCHORS", 160)
    part = pucl.suspects(rows, count=300)
    assert (part.anchors, part.samples) == (160, 320)
    assert len(part) == 300
    ratios = [pair.cost / whole[pair.first, pair.second] for pair in part]
    assert np.mean(ratios) == pytest.approx(1, abs=0.1)


def test_first_suspects_are_of_one_class() -> None:
    rows, labels = make()
    found = pucl.suspects(rows, labels=labels, count=100)
    assert sum(pair.first_label == pair.second_label for pair in found) >= 95
    assert len(found) == 100


def test_kinds() -> None:
    rows, labels = make()
    rows[9] = 2 * rows[1]  # Classes 1 and 1: a copy of another length.
    rows[18] = rows[2] + 0.1  # Classes 2 and 2.
    labels[3] = 0  # Class 3: a wrong label.
    rows[12] = rows[4]
    labels[12] = 6  # A copy with another label.
    found = {(pair.first, pair.second): pair for pair in pucl.suspects(rows, labels=labels, count=20_000)}
    assert found[1, 9].kind == "duplicate"
    assert found[2, 18].kind == "near-duplicate"
    assert found[4, 12].kind == "likely mislabelled"
    wrong = [pair for pair in found.values() if 3 in (pair.first, pair.second)]
    assert wrong
    assert {pair.kind for pair in wrong if pair.first_label != pair.second_label} == {"likely mislabelled"}
    assert sum(pair.kind == "likely mislabelled" for pair in found.values()) < 0.1 * len(found)
    unlabelled = {(pair.first, pair.second): pair for pair in pucl.suspects(rows, count=20_000)}
    assert unlabelled[4, 12].kind == "duplicate"
    assert {pair.kind for pair in unlabelled.values()} == {"duplicate", "near-duplicate", "same group"}
    assert unlabelled[1, 9].r_is == "rank"


def test_without_groups_copies_alone_are_listed() -> None:
    rows = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    rows[150] = rows[3]
    result = pucl.diagnose(rows)
    assert result.refused is not None
    (pair,) = result.suspects(50)
    assert (pair.first, pair.second, pair.kind, pair.r) == (3, 150, "duplicate", None)
    rows[150] = -rows[3]
    assert len(pucl.suspects(rows)) == 0


def test_both_searches_find_the_same() -> None:
    pytest.importorskip("faiss")
    result = pucl.diagnose(make()[0])
    pairs = [[(pair.first, pair.second) for pair in result.suspects(200, use_faiss=way)] for way in (False, True)]
    assert pairs[0] == pairs[1]


def test_names_and_other_numbers(tmp_path: Path) -> None:
    rows, labels = make(160)
    names = [f"picture {index}.png" for index in range(160)]
    found = pucl.suspects(rows, labels=labels, names=names, count=20)
    for pair in found:
        assert (pair.first_name, pair.second_name) == (names[pair.first], names[pair.second])
        assert pair.first < pair.second
    moved = found.renumbered(np.arange(160) * 10)
    assert [(pair.first, pair.second) for pair in moved] == [(10 * pair.first, 10 * pair.second) for pair in found]
    moved.write(tmp_path / "pairs.csv")
    read = read_pairs(tmp_path / "pairs.csv")
    assert read.within(160, names).tolist() == [[pair.first, pair.second] for pair in found]
    assert read.within(1600, None).tolist() == [[pair.first, pair.second] for pair in moved]
    assert found.as_json()["pairs"][0]["kind"] == found.pairs[0].kind
    assert sum(found.kinds.values()) == 20


def test_wrong_numbers_of_pairs() -> None:
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        pucl.suspects(make(160)[0], count=0)


def test_an_r_is_a_probability_only_if_labels_say_so() -> None:
    rows, labels = make()
    assert {pair.r_is for pair in pucl.suspects(rows, labels=labels, count=9)} == {"probability"}
    shuffled = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0)).numpy() % 8
    assert {pair.r_is for pair in pucl.suspects(rows, labels=shuffled, count=9)} == {"rank"}
    assert all(0 < (pair.r or 0) <= 1 and math.isfinite(pair.cost) for pair in pucl.suspects(rows, count=9))
