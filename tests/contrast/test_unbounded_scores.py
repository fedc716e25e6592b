"""Scores without bound, such as InfoGraph's inner products: tilts and similarities have a unit there."""

from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor

from oracles import jensen_shannon, tilted
from pucl.contrast.loss import outcome_of
from pucl.contrast.pairing import pair_local_global, pair_views
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Correction, GloFND, Hard, Plain, Ratio
from pucl.corrections.ratio import BINS
from pucl.together import learn

GRAPHS, NODES = 12, 60
GRAPH_OF = torch.arange(NODES) % GRAPHS


def scores_of(scale: float = 30.0, graphs: int = GRAPHS, seed: int = 0) -> Pairs:
    """Nodes and graphs whose inner products are as large as those of InfoGraph."""
    generator = torch.Generator().manual_seed(seed)
    local, whole = (torch.randn(n, 6, generator=generator, dtype=torch.float64) for n in (NODES, graphs))
    local = local + whole[GRAPH_OF]
    pairs = pair_local_global((scale * local).requires_grad_(), whole.requires_grad_(), GRAPH_OF)
    return replace(pairs, query_samples=GRAPH_OF, key_samples=torch.arange(graphs))


def logits_of(pairs: Pairs) -> tuple[list[float], list[list[float]]]:
    """For each node the score of its own graph, and those of the others."""
    scores = (pairs.query @ pairs.key.T).tolist()
    own = [row[graph] for row, graph in zip(scores, GRAPH_OF.tolist(), strict=True)]
    others = [row[:graph] + row[graph + 1 :] for row, graph in zip(scores, GRAPH_OF.tolist(), strict=True)]
    return own, others


@pytest.mark.parametrize("way", ["dense", "whole rows", "tiles"])
@pytest.mark.parametrize("correction", [Hard(tau_plus=0.1, beta=1.0), PUCL(alpha=0.3, c=0.1, beta=3.0)], ids=str)
def test_a_tilt_is_relative_to_the_largest_score(
    correction: Correction, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "tiles":
        monkeypatch.setattr("pucl.contrast.streaming.tiles.TILE", 8)
    pairs = scores_of()
    own, others = logits_of(pairs)
    largest = max(abs(score) for score in [*own, *(score for row in others for score in row)])
    weigh, tau = tilted(correction.tilt * 2 / largest), float(correction.tau_plus)
    expected = [
        jensen_shannon([positive], row, weigh(row), tau / (1 - tau), 0.0)
        for positive, row in zip(own, others, strict=True)
    ]
    outcome = outcome_of(pairs, correction, objective="jensen_shannon", streaming=way != "dense")
    assert 0 < float(outcome.floored) < 1
    assert outcome.loss.tolist() == pytest.approx([loss for loss, _ in expected], rel=1e-9)


def test_the_weights_do_not_depend_on_the_size_of_the_scores() -> None:
    one, large = (
        Hard(beta=1.0).normalised_log_weights(scores_of(scale).measured().comparison())[0].detach()
        for scale in (1.0, 1000.0)
    )
    torch.testing.assert_close(one, large)
    effective = 1 / large.exp().square().sum(dim=1)
    assert float(effective.min()) > 2


def test_gradients_of_dense_and_streaming_are_equal() -> None:
    found = []
    for streaming in (False, True):
        pairs = scores_of(2.0)
        outcome_of(pairs, Hard(beta=1.0), objective="jensen_shannon", streaming=streaming).loss.sum().backward()
        found.append((cast("Tensor", pairs.query.grad), cast("Tensor", pairs.key.grad)))
    torch.testing.assert_close(found[0], found[1])
    assert found[0][0].abs().max() > 0


def test_cosines_have_no_unit() -> None:
    pairs = pair_views([torch.randn(6, 4) for _ in range(2)], temperature=0.1)
    assert pairs.measured() is pairs
    assert pairs.steepness == 1


def test_shifted_cosines_keep_their_temperature_in_a_tilt_and_have_a_unit_for_similarities() -> None:
    shifted = replace(scores_of(), shifts=1).measured()
    assert shifted.steepness == 1
    assert float(shifted.comparison().similarities(shifted.comparison().unlabelled).abs().max()) <= 1


def test_plain_needs_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pairs, "measured", lambda _: pytest.fail("plain pays for what it does not use"))
    outcome_of(scores_of(), Plain(), objective="jensen_shannon")


def test_ratio_sees_scores_of_any_size() -> None:
    histograms = []
    for scale in (1.0, 1000.0):
        state = Ratio(warm_up=10).start(None)
        learn(state, [scores_of(scale)], together=False)
        histograms.append((state.positive.clone(), state.unlabelled.clone()))
        ends = state.unlabelled[[0, BINS - 1]].sum() / state.unlabelled.sum()
        assert float(ends) < 0.1
    assert all(torch.equal(one, other) for one, other in zip(*histograms, strict=True))


def test_thresholds_of_glofnd_follow_scores_that_grow() -> None:
    state, above = GloFND(dropped=0.3, wait=0).start(GRAPHS), []
    for step in range(60):
        learn(state, [scores_of(1.0 + 20 * step, seed=step)], together=False)
        above.append(float(state.above.mean()))
    assert float(state.threshold.abs().max()) < 1
    assert sum(above[30:]) / 30 == pytest.approx(0.3, abs=0.05)
