"""Streaming gives what the matrix gives, at the real tile size, and holds no matrix."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.memory import peak_memory
from examples import ALL, brief, related_views
from pucl.contrast import streaming
from pucl.contrast.averages import Averages
from pucl.contrast.objective import Floor, Objective, average_unlabelled, softplus
from pucl.contrast.objectives import OBJECTIVES
from pucl.contrast.pairing import pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import exponentials, rows
from pucl.contrast.streaming.rows import SoftplusRows, slopes_of, softplus_rows_operator
from pucl.contrast.streaming.softplus import softplus_averages
from pucl.corrections import PUCL, Correction, Debiased, Hard, Plain, Ring
from pucl.functional import contrastive_loss, corrected_loss, pair_up, pair_views


def outcomes_agree(
    make_pairs: Callable[[], Pairs],
    leaves: list[torch.Tensor],
    correction: Correction,
    tolerance: float = 1e-10,
    floor: Floor = "auto",
) -> None:
    results = []
    for stream in (False, True):
        for leaf in leaves:
            leaf.grad = None
        outcome = corrected_loss(make_pairs(), correction, floor=floor, streaming=stream)
        outcome.loss.sum().backward()
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        assert len(gradients) == len(leaves)
        results.append([outcome.loss.detach(), outcome.floored, outcome.unlabelled_similarity, *gradients])
    for dense, streamed in zip(*results, strict=True):
        torch.testing.assert_close(streamed, dense, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("correction", ALL, ids=brief)
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


@pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
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
    floor=st.sampled_from(["auto", "temperature"]),
    seed=st.integers(0, 1000),
)
def test_any_shape_and_setting(
    batch: int,
    dim: int,
    views: int,
    temperature: float,
    tau: float,
    beta: float,
    twins: bool,
    floor: Floor,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    embeddings = [view.requires_grad_() for view in related_views(batch, dim, views)]
    ids = torch.randint(0, batch, (batch,)) if twins else None
    correction = Hard(tau_plus=tau, beta=beta)
    # Where an estimate is all but zero a rounding decides between estimate and floor; scale by what is lost there.
    outcomes_agree(
        lambda: pair_views(embeddings, temperature=temperature, ids=ids), embeddings, correction, 1e-7, floor
    )


def test_chosen_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Pairs] = []

    def stream(pairs: Pairs, correction: Correction, objective: Objective) -> Averages:
        used.append(pairs)
        return streaming.stream(pairs, correction, objective)

    monkeypatch.setattr("pucl.contrast.loss.stream", stream)
    side = math.isqrt(exponentials.PAYS_FROM) // 2
    for batch, expected in ((side // 2, 0), (side + 1, 1)):
        corrected_loss(pair_views(related_views(batch, 4)), PUCL())
        assert len(used) == expected
    graphs = 32
    nodes = rows.PAYS_FROM // graphs
    for count, expected in ((nodes - graphs, 1), (nodes, 2)):
        pairs = pair_local_global(torch.randn(count, 4), torch.randn(graphs, 4), torch.arange(count) % graphs)
        corrected_loss(pairs, PUCL(), objective="jensen_shannon")
        assert len(used) == expected


@pytest.mark.slow
@pytest.mark.parametrize("correction", [PUCL(), Hard(), Ring(lower=0.1, upper=0.2)], ids=str)
def test_memory_is_linear(correction: Correction) -> None:
    """A matrix of logits of this batch would take 576 MiB; nothing like it may ever be held."""
    views = [torch.randn(6144, 8, requires_grad=True) for _ in range(2)]

    def step(batch: int) -> None:
        part = [view[:batch] for view in views]
        corrected_loss(pair_views(part), correction, streaming=True).loss.sum().backward()

    step(64)
    peak = peak_memory(lambda: step(6144))
    if peak.bytes is None:
        pytest.skip(str(peak.missing))
    assert peak.bytes < 300 * 2**20


SOFTPLUS = [Plain(), Debiased(tau_plus=0.2), Hard(beta=0.7), PUCL(alpha=0.3, c=0.1, beta=2.0), Hard(beta=300.0)]


def nodes_and_graphs(scale: float, nodes: int = 23, graphs: int = 7) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    local, whole = (torch.randn(count, 4, dtype=torch.float64) for count in (nodes, graphs))
    return (scale * local).requires_grad_(), (scale * whole).requires_grad_(), torch.randint(0, graphs, (nodes,))


def left_out(pairs: Pairs, how: str) -> Pairs:
    """The same pairs with others left out: by unique ids in any order, by labels, by a mask, by both, or none."""
    anchors, samples = pairs.shape
    order = torch.randperm(samples)
    changes: dict[str, dict[str, torch.Tensor | None]] = {
        "graphs": {},
        "ids": {"query_ids": torch.randint(-3, samples + 3, (anchors,)), "key_ids": order},
        "labels": {"query_ids": torch.randint(0, 3, (anchors,)), "key_ids": torch.randint(0, 3, (samples,))},
        "one class": {"query_ids": torch.arange(anchors) % 2, "key_ids": torch.zeros_like(order)},
        "mask": {"query_ids": None, "key_ids": None, "mask": torch.rand(anchors, samples) > 0.5},
        "both": {"mask": torch.rand(anchors, samples) > 0.5},
        "none": {"query_ids": None, "key_ids": None},
    }
    return replace(pairs, **changes[how])  # type: ignore[arg-type]


WAYS: dict[str, dict[str, int]] = {
    "small tiles": {"tiles.TILE": 5},
    "whole rows": {},
    "few rows at a time": {"rows.WHOLE_ROWS": 30},
    "slopes made again": {"rows.WHOLE_ROWS": 30, "rows.KEPT": 0},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["graphs", "ids", "labels", "one class", "mask", "both", "none"])
@pytest.mark.parametrize("scale", [0.3, 30.0])
@pytest.mark.parametrize("correction", SOFTPLUS, ids=str)
def test_averages_of_softplus(
    correction: Correction, scale: float, how: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(f"pucl.contrast.streaming.{name}", value)
    local, whole, graph_of = nodes_and_graphs(scale)
    for group in (None, torch.arange(len(local)) % 3):
        results = []
        for stream in (False, True):
            torch.manual_seed(1)
            pairs = replace(left_out(pair_local_global(local, whole, graph_of), how), group=group)
            outcome = corrected_loss(pairs, correction, objective="jensen_shannon", streaming=stream)
            gradients = torch.autograd.grad(outcome.loss.sum(), [local, whole])
            results.append([outcome.loss.detach(), outcome.floored, outcome.unlabelled_similarity, *gradients])
        torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("temperature", [0.5, 0.01])
@pytest.mark.parametrize("correction", SOFTPLUS, ids=str)
def test_averages_of_softplus_of_cosines(correction: Correction, temperature: float) -> None:
    views = [view.requires_grad_() for view in related_views(9, 4)]
    results = []
    for stream in (False, True):
        pairs = pair_views(views, temperature=temperature)
        outcome = corrected_loss(pairs, correction, objective="jensen_shannon", streaming=stream)
        gradients = torch.autograd.grad(outcome.loss.sum(), views)
        results.append([outcome.loss.detach(), outcome.unlabelled_similarity, *gradients])
    torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("tilt", [0.0, 0.7])
@pytest.mark.parametrize("bounded", [False, True])
def test_gradients_of_averages_of_softplus(tilt: float, bounded: bool) -> None:
    local, whole, graph_of = nodes_and_graphs(1.0, nodes=12)
    count = torch.full((12,), 6.0, dtype=torch.float64)

    def averages(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        sums: torch.Tensor = softplus_averages(query, key, count, tilt, bounded, graph_of, torch.arange(7), None, 0)
        return sums[0]

    assert torch.autograd.gradcheck(averages, (local, whole))
    torch.library.opcheck(
        torch.ops.pucl.softplus_averages.default,
        (local, whole, count, tilt, bounded, graph_of, torch.arange(7), None, 0),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [0.0, 0.7])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("graphs", [2, 3, 7])
def test_gradients_of_whole_rows(tilt: float, keep: bool, graphs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.contrast.streaming.rows.WHOLE_ROWS", 5 * graphs)
    local, whole, graph_of = nodes_and_graphs(1.0, nodes=12, graphs=graphs)
    settings = graph_of, tilt, graph_of, torch.arange(graphs), None, keep

    for compute in (SoftplusRows.apply, softplus_rows_operator):

        def both(
            query: torch.Tensor, key: torch.Tensor, compute: Callable[..., Any] = compute
        ) -> tuple[torch.Tensor, ...]:
            average, positive, *_ = compute(query, key, *settings)
            return average, positive

        assert torch.autograd.gradcheck(both, (local, whole))
        for leaf in (local, whole):  # Alone, too.
            (gradient,) = torch.autograd.grad(both(local, whole)[1].sum(), leaf)
            (wanted,) = torch.autograd.grad((local * whole[graph_of]).sum(), leaf)
            torch.testing.assert_close(gradient, wanted)
            fixed = both(leaf, whole.detach()) if leaf is local else both(local.detach(), leaf)
            (gradient,) = torch.autograd.grad(fixed[0].sum(), leaf)
            (wanted,) = torch.autograd.grad(both(local, whole)[0].sum(), leaf)
            torch.testing.assert_close(gradient, wanted)
    torch.library.opcheck(
        torch.ops.pucl.softplus_rows.default,
        (local, whole, *settings),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


def test_slopes_serve_more_than_once() -> None:
    local, whole, graph_of = nodes_and_graphs(1.0)
    outcome = corrected_loss(
        pair_local_global(local, whole, graph_of), PUCL(), objective="jensen_shannon", streaming=True
    )
    first = torch.autograd.grad(outcome.loss.sum(), [local, whole], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(outcome.loss.sum(), [local, whole]), first, rtol=0, atol=0)


@pytest.mark.parametrize("shift", [-60.0, -20.0, 0.0, 3.0, 20.0, 500.0])
@pytest.mark.parametrize("graphs", [2, 5, 128])
def test_logarithms_of_four_terms_lose_no_digits(shift: float, graphs: int) -> None:
    exact = torch.randn(50, graphs, dtype=torch.float64) + shift
    logits = exact.float()
    exact = logits.double()
    sums = slopes_of(logits, 0.0, torch.empty(1, logits.numel()))
    torch.testing.assert_close(sums.double(), softplus(exact).sum(dim=1), rtol=1e-6, atol=0)
    torch.testing.assert_close(logits.double(), torch.sigmoid(exact), rtol=1e-5, atol=0)


@pytest.mark.parametrize("correction", [PUCL(), Hard(), Hard(beta=50.0)], ids=str)
def test_scores_of_any_size_in_single_precision(correction: Correction) -> None:
    """Scores of hundreds, of which exponentials are neither ordinary numbers nor quickly made."""
    local, whole, graph_of = nodes_and_graphs(12.0)
    expected = corrected_loss(pair_local_global(local, whole, graph_of), correction, objective="jensen_shannon")
    wanted = torch.autograd.grad(expected.loss.sum(), [local, whole])
    single = [tensor.detach().float().requires_grad_() for tensor in (local, whole)]
    pairs = pair_local_global(single[0], single[1], graph_of)
    assert pairs.shape == (23, 7)
    outcome = corrected_loss(pairs, correction, objective="jensen_shannon", streaming=True)
    gradients = torch.autograd.grad(outcome.loss.sum(), single)
    torch.testing.assert_close(outcome.loss.double(), expected.loss, rtol=1e-4, atol=1e-4)
    for mine, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=2e-3, atol=2e-3)


def test_who_meets_nobody_has_no_average() -> None:
    local, whole, graph_of = nodes_and_graphs(3.0)
    pairs = replace(pair_local_global(local, whole, graph_of), mask=torch.zeros(23, 7, dtype=torch.bool))
    for correction in (*SOFTPLUS, Ring(lower=0.0, upper=0.5)):
        for stream in (False, True):
            form = OBJECTIVES["jensen_shannon"]
            summary = (
                streaming.stream(pairs, correction, form)
                if stream
                else average_unlabelled(pairs.comparison(), correction, form)
            )
            assert summary.unlabelled.tolist() == [0.0] * 23
            assert summary.unlabelled_similarity == 0


def test_nodes_and_their_own_graphs() -> None:
    local, whole, graph_of = nodes_and_graphs(1.0)
    pairs = pair_local_global(local, whole, graph_of)
    torch.testing.assert_close(pairs.positives()[:, 0], (local * whole[graph_of]).sum(dim=1))
    torch.testing.assert_close(pairs.positives(), pairs.comparison().positive)
    assert torch.autograd.gradcheck(
        lambda query, key: pair_local_global(query, key, graph_of).positives(), (local, whole)
    )


@pytest.mark.slow
def test_memory_of_softplus_is_linear() -> None:
    """300,000 nodes and 128 graphs: a matrix of logits would take 147 MiB, vectors of eight numbers 9."""
    local, whole = torch.randn(300_000, 8, requires_grad=True), torch.randn(128, 8, requires_grad=True)
    graph_of = torch.arange(300_000) * 128 // 300_000

    def step(nodes: int) -> None:
        pairs = pair_local_global(local[:nodes], whole, graph_of[:nodes])
        corrected_loss(pairs, Hard(), objective="jensen_shannon").loss.sum().backward()

    step(2000)
    peak = peak_memory(lambda: step(300_000))
    if peak.bytes is None:
        pytest.skip(str(peak.missing))
    assert peak.bytes < 100 * 2**20
