"""Which embeddings are refused."""

import math

import pytest
import torch

from pucl.contrast.embeddings import check_finite_vectors
from pucl.contrast.pairing import pair_local_global


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize("place", [(0, 0), (37, 2), (99, 3)])
def test_one_wrong_number_is_refused(wrong: float, place: tuple[int, int]) -> None:
    vectors, graph_of = torch.randn(100, 4), torch.arange(100)
    vectors[place] = wrong
    with pytest.raises(ValueError, match="local holds embeddings: expected finite .* values in 1 of 100 vectors"):
        pair_local_global(vectors, torch.randn(100, 4), graph_of)
    with pytest.raises(ValueError, match="whole holds embeddings: expected finite .* values in 1 of 100 vectors"):
        pair_local_global(torch.randn(100, 4), vectors, graph_of)


def test_infinities_that_cancel_are_refused() -> None:
    vectors = torch.tensor([[math.inf, 1.0], [-math.inf, 1.0]])
    with pytest.raises(ValueError, match="in 2 of 2 vectors"):
        check_finite_vectors("local", vectors)


def test_many_large_numbers_are_none_of_them_wrong() -> None:
    vectors = torch.full((1000, 4), 1e18)
    assert not (vectors * vectors).sum().isfinite()
    check_finite_vectors("local", vectors)
    check_finite_vectors("local", torch.full((4, 1000), 1e18).T)
