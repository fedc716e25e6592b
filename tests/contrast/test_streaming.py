"""Streaming gives what the matrix gives, at the real tile size, and holds no matrix."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import ALL, related_views
from pucl.benchmarks.measure import peak_memory
from pucl.contrast import streaming
from pucl.contrast.objectives import Objective, Summary
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Correction, Hard, Ring
from pucl.functional import compare, contrastive_loss, pair_up, pair_views


def outcomes_agree(
    make_pairs: Callable[[], Pairs], leaves: list[torch.Tensor], correction: Correction, tolerance: float = 1e-10
) -> None:
    results = []
    for stream in (False, True):
        for leaf in leaves:
            leaf.grad = None
        outcome = compare(make_pairs(), correction, streaming=stream)
        outcome.loss.sum().backward()
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        assert len(gradients) == len(leaves)
        results.append([outcome.loss.detach(), outcome.floored, outcome.unlabelled_similarity, *gradients])
    for dense, streamed in zip(*results, strict=True):
        torch.testing.assert_close(streamed, dense, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("correction", ALL, ids=str)
@pytest.mark.parametrize("temperature", [0.5, 0.02])
def test_several_tiles_of_two_views(correction: Correction, temperature: float) -> None:
    views = [view.requires_grad_() for view in related_views(streaming.TILE // 2 + 37, 6)]
    outcomes_agree(lambda: pair_views(views, temperature=temperature), views, correction)


@pytest.mark.parametrize("correction", [PUCL(), Hard(beta=0.5), Ring(lower=0.01, upper=0.3)], ids=str)
@pytest.mark.parametrize("temperature", [0.5, 0.02])
def test_queue_wider_than_a_tile(correction: Correction, temperature: float) -> None:
    query, positive = (view.requires_grad_() for view in related_views(20, 6))
    queue = torch.randn(streaming.TILE * 2 + 5, 6, dtype=torch.float64, requires_grad=True)
    query_ids, queue_ids = torch.arange(20), torch.randint(0, 200, (len(queue),))
    outcomes_agree(
        lambda: pair_up(query, positive, queue, temperature=temperature, query_ids=query_ids, unlabelled_ids=queue_ids),
        [query, positive, queue],
        correction,
    )


def test_a_queue_without_gradient_gets_none() -> None:
    query, positive = (view.requires_grad_() for view in related_views(8, 6))
    queue = torch.randn(30, 6, dtype=torch.float64)
    contrastive_loss(query, positive, queue, PUCL(), streaming=True).backward()
    assert queue.grad is None
    assert query.grad is not None


@pytest.mark.usefixtures("small_tiles")
@settings(deadline=None, max_examples=60)
@given(
    batch=st.integers(2, 9),
    dim=st.integers(2, 5),
    views=st.integers(2, 3),
    temperature=st.sampled_from([0.01, 0.05, 0.2, 1.0, 10.0]),
    tau=st.floats(0, 0.5),
    beta=st.floats(0, 4),
    twins=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_shape_and_setting(
    batch: int, dim: int, views: int, temperature: float, tau: float, beta: float, twins: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    embeddings = [view.requires_grad_() for view in related_views(batch, dim, views)]
    ids = torch.randint(0, batch, (batch,)) if twins else None
    correction = Hard(tau_plus=tau, beta=beta)
    # Where an estimate is all but zero a rounding decides between estimate and floor; scale by what is lost there.
    outcomes_agree(lambda: pair_views(embeddings, temperature=temperature, ids=ids), embeddings, correction, 1e-7)


def test_chosen_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Pairs] = []

    def stream(pairs: Pairs, correction: Correction, objective: Objective) -> Summary:
        used.append(pairs)
        return streaming.stream(pairs, correction, objective)

    monkeypatch.setattr("pucl.contrast.compare.stream", stream)
    side = math.isqrt(streaming.PAYS_FROM) // 2
    for batch, expected in ((side // 2, 0), (side + 1, 1)):
        compare(pair_views(related_views(batch, 4)), PUCL())
        assert len(used) == expected


@pytest.mark.slow
@pytest.mark.parametrize("correction", [PUCL(), Hard(), Ring(lower=0.1, upper=0.2)], ids=str)
def test_memory_is_linear(correction: Correction) -> None:
    """A matrix of logits of this batch would take 576 MiB; nothing like it may ever be held."""
    views = [torch.randn(6144, 8, requires_grad=True) for _ in range(2)]

    def step(batch: int) -> None:
        part = [view[:batch] for view in views]
        compare(pair_views(part), correction, streaming=True).loss.sum().backward()

    step(64)
    peak = peak_memory(lambda: step(6144))
    if peak.bytes is None:
        pytest.skip(str(peak.missing))
    assert peak.bytes < 300 * 2**20
