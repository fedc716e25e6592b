"""Groups from a list of pairs."""

import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pucl
from pucl.data.errors import ExtraMissingError
from pucl.pairs import groups


def reachable(pairs: list[tuple[int, int]]) -> list[set[int]]:
    """For each pair, the pairs that are joined to it: by walking, pair after pair."""
    found = []
    for start in range(len(pairs)):
        seen, open_ = {start}, [start]
        while open_:
            here = open_.pop()
            for other, pair in enumerate(pairs):
                if other not in seen and set(pair) & set(pairs[here]):
                    seen.add(other)
                    open_.append(other)
        found.append(seen)
    return found


@settings(deadline=None, max_examples=60)
@given(pairs=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), min_size=1, max_size=14))
def test_groups_are_connected_components(pairs: list[tuple[int, int]]) -> None:
    together = reachable(pairs)
    ids = groups([*pairs, (1000, 1001)]).tolist()  # The last one is apart, so that not everything is one group.
    assert ids.pop() == -1
    for i in range(len(pairs)):
        if together[i] == {i}:
            assert ids[i] == -1
        else:
            assert {j for j in range(len(pairs)) if ids[j] == ids[i]} == together[i]
    used = [number for number in dict.fromkeys(ids) if number >= 0]
    assert used == list(range(len(used)))  # In the order in which they appear.


def test_duplicates_by_content_wherever_they_stand() -> None:
    pairs = [("how old?", "nine"), ("colour?", "red"), ("nine", "age"), ("size?", "big"), ("".join(["r", "ed"]), "hue")]
    assert groups(pairs).tolist() == [0, 1, 0, -1, 1]
    assert groups([("a", "a"), ("b", "c"), ("x", "y")]).tolist() == [-1, -1, -1]
    assert groups([("q", "p1", "p2"), ("p2", "r"), ("s", "t"), ("u", "v")]).tolist() == [0, 0, -1, -1]


def test_groups_of_samples() -> None:
    ids = groups([(0, 3), (3, 5), (7, 8)], range(10))
    assert ids.dtype == torch.int64
    assert ids.tolist() == [0, -1, -1, 0, -1, 0, -1, 1, 1, -1]
    # Equal samples are of one group, in pairs or not.
    assert groups([("a", "b")], ["x", "a", "y", "x", "b", "z"]).tolist() == [0, 1, -1, 0, 1, -1]
    assert groups([], ["x", "y", "x", "z"]).tolist() == [0, -1, 0, -1]
    assert groups([]).tolist() == []


@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_arrays_of_indices(make: type) -> None:
    pairs = make([[0, 1], [2, 3], [1, 4], [6, 7], [8, 9]])
    assert groups(pairs).tolist() == [0, -1, 0, -1, -1]
    assert groups(pairs, make([4, 0, 2, 5, 6])).tolist() == [0, 0, -1, -1, -1]
    assert groups(list(pairs)).tolist() == [0, -1, 0, -1, -1]


def test_a_hub_joins_nothing() -> None:
    pairs = [(f"question {i}", "yes") for i in range(100)] + [("question 0", "no"), ("other", "thing")]
    with pytest.warns(UserWarning, match=r"one group holds 101 of 102 rows.*pairs are 'yes' \(100\), .*set most="):
        assert groups(pairs).tolist() == [0] * 101 + [-1]
    assert groups(pairs, most=99).tolist() == [0, *[-1] * 99, 0, -1]


def test_one_group_of_everything_is_refused() -> None:
    chain = list(pairwise(range(50)))
    with pytest.raises(ValueError, match="expected two groups or more, got one of all 49 rows; the elements in most"):
        groups(chain)
    with pytest.raises(ValueError, match="most is the number of pairs that one element may join: expected at least 1"):
        groups(chain, most=0)


@pytest.mark.parametrize("pair", ["ab", ("a",), (), (torch.tensor(1), torch.tensor(2))])
def test_what_is_no_pair_is_refused(pair: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="a pair holds two or more texts, numbers or other elements"):
        groups([("a", "b"), pair])


def test_scipy_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(ExtraMissingError, match=r"finding groups of pairs needs scipy.*\[pairs\]"):
        groups([("a", "b")])


def test_a_loss_takes_them() -> None:
    pairs = [("how old?", "nine"), ("colour?", "red"), ("age", "nine"), ("size?", "big")]
    z0, z1 = torch.randn(2, 4, 8)
    ids = pucl.pairs.groups(pairs)
    assert pucl.NTXentLoss()(z0, z1, groups=ids) != pucl.NTXentLoss()(z0, z1)
