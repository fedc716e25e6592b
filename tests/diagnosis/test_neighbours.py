"""Exact nearest neighbours, tile by tile and by faiss."""

import pytest
import torch

from pucl.diagnosis import neighbours
from pucl.diagnosis.neighbours import nearest_of

ways = pytest.mark.parametrize("use_faiss", [False, True], ids=["torch", "faiss"])


def rows(count: int, seed: int = 0) -> torch.Tensor:
    numbers = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, 6, generator=numbers), dim=1)


@ways
def test_neighbours_are_those_of_all_pairs(use_faiss: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if use_faiss:
        pytest.importorskip("faiss")
    monkeypatch.setattr(neighbours, "KEYS", 37)
    monkeypatch.setattr(neighbours, "QUERIES", 10)
    keys, own = rows(100), torch.arange(0, 100, 3)
    told: list[tuple[int, int]] = []
    found, cosines = nearest_of(
        keys[own], own, keys, 7, progress=lambda done, total: told.append((done, total)), use_faiss=use_faiss
    )
    expected = keys[own] @ keys.T
    expected[torch.arange(len(own)), own] = -2
    values, indices = expected.topk(7, dim=1)
    assert torch.equal(found, indices)
    torch.testing.assert_close(cosines, values)
    assert told == [(10, 34), (20, 34), (30, 34), (34, 34)]


@ways
def test_a_sample_is_never_its_own_neighbour_though_its_key_is_far(use_faiss: bool) -> None:
    """With views, a sample's own key need not be its nearest one."""
    if use_faiss:
        pytest.importorskip("faiss")
    queries, keys = rows(40), rows(40, seed=1)
    found, cosines = nearest_of(queries, torch.arange(40), keys, 39, use_faiss=use_faiss)
    assert found.shape == (40, 39)
    for index, row in enumerate(found.tolist()):
        assert sorted([*row, index]) == list(range(40))
    assert bool((cosines.diff(dim=1) <= 1e-6).all())


def test_fewer_keys_than_neighbours() -> None:
    found, _ = nearest_of(rows(3), torch.arange(3), rows(3), 10)
    assert found.shape == (3, 2)
