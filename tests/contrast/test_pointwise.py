"""Weights 1 - r: against loops, at the limits that must be plain or the oracle, and within their bound."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import oracles
from examples import related_views
from pucl.contrast.correction import Correction
from pucl.contrast.knowledge import without_false_negatives
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import Comparison, Pairs
from pucl.contrast.pointwise import Pointwise, PointwiseTable, PointwiseWeights, bins_of, bounded
from pucl.corrections import Plain
from pucl.functional import corrected_loss, pair_up, pair_views

both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
both_objectives = pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
pytestmark = pytest.mark.usefixtures("small_tiles")

MILD = torch.tensor([0.0, 0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
STEEP = torch.tensor([0.0, 0.0, 0.0, 0.1, 0.7, 0.9, 1.0, 1.0], dtype=torch.float64)


def rough(comparison: Comparison) -> Tensor:
    """An r that rises and falls with the similarity many times."""
    return (1 + torch.sin(40 * comparison.unlabelled.detach())) / 2


def same_class(labels: Tensor) -> Pointwise:
    """r = 1 for pairs of one class, 0 for others, without a bound."""

    def posterior(comparison: Comparison) -> Tensor:
        queries, keys = comparison.sample_ids()
        return (labels[queries][:, None] == labels[keys][None]).double()

    return Pointwise(posterior=posterior, most=1.0)


def loss_of(pairs: Pairs, correction: Correction, **options: Any) -> Tensor:
    outcome = corrected_loss(pairs, correction, **options)
    assert outcome.floored == 0  # Nothing is subtracted.
    return outcome.loss


@both_ways
@both_objectives
@pytest.mark.parametrize("table", [MILD, STEEP], ids=["mild", "steep"])
def test_equals_the_loops(table: Tensor, objective: ObjectiveName, streaming: bool) -> None:
    views, temperature = related_views(7, 5), 0.4
    pairs = pair_views(views, temperature=temperature)
    losses = loss_of(pairs, PointwiseTable(table=table), objective=objective, streaming=streaming)
    scaled = 0
    for loss, (positives, unlabelled) in zip(
        losses.tolist(), oracles.views_as_logits([view.tolist() for view in views], temperature), strict=True
    ):
        weights = oracles.pointwise(table.tolist(), temperature)(unlabelled)
        scaled += weights != oracles.pointwise(table.tolist(), temperature, most=1.0)(unlabelled)
        if objective == "infonce":
            expected, _ = oracles.infonce(positives, unlabelled, weights, 0.0, 0.0, len(unlabelled))
        else:
            expected, _ = oracles.jensen_shannon(positives, unlabelled, weights, 0.0, 0.0)
        assert loss == pytest.approx(expected, rel=1e-10)
    assert (scaled > 0) == (table is STEEP)


@both_ways
@both_objectives
@pytest.mark.parametrize("value", [0.0, 0.3, 0.9])
def test_a_constant_is_plain(value: float, objective: ObjectiveName, streaming: bool) -> None:
    options: dict[str, Any] = {"objective": objective, "streaming": streaming}
    views = [view.requires_grad_() for view in related_views(6, 5)]
    constant = torch.full((8,), value, dtype=torch.float64)
    results = []
    for correction in (
        Plain(),
        PointwiseTable(table=constant),
        Pointwise(posterior=lambda c: torch.full_like(c.unlabelled, value)),
    ):
        losses = loss_of(pair_views(views), correction, **options)
        results.append([losses, *torch.autograd.grad(losses.sum(), views)])
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-10, atol=1e-12)


@both_ways
@both_objectives
def test_knowing_the_classes_is_the_oracle(objective: ObjectiveName, streaming: bool) -> None:
    options: dict[str, Any] = {"objective": objective, "streaming": streaming}
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 2, 3])
    views = [view.requires_grad_() for view in related_views(8, 5)]
    results = []
    for knowing in (True, False):
        pairs = pair_views(views, ids=torch.arange(8))
        queries, keys = pairs.sample_ids()
        oracle = without_false_negatives(pairs, labels[queries], labels[keys])
        losses = loss_of(pairs, same_class(labels), **options) if knowing else loss_of(oracle, Plain(), **options)
        results.append([losses, *torch.autograd.grad(losses.sum(), views)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-12)
    assert (results[0][0] < loss_of(pair_views(views), Plain(), objective=objective)).any()


@both_ways
@pytest.mark.parametrize("most", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_the_bound(most: float, temperature: float, streaming: bool) -> None:
    """mu lies between (1 - most) and 1 / (1 - most) times plain's; the same for the sum of softplus."""
    views = related_views(9, 4)
    pairs = pair_views(views, temperature=temperature)
    corrections: list[PointwiseWeights] = [
        PointwiseTable(table=STEEP, most=most),
        Pointwise(posterior=rough, most=most),
        Pointwise(posterior=lambda comparison: 1 - rough(comparison), most=most),
        Pointwise(posterior=lambda comparison: (comparison.unlabelled < 0).double(), most=most),  # Removes easy ones.
    ]
    reached = False
    for correction in corrections:
        removal = correction.removal(pairs.comparison())
        assert (removal.share <= most * (1 + 1e-12)).all()
        assert (removal.mean <= most * (1 + 1e-12)).all()
        reached |= bool((removal.share >= most * (1 - 1e-12)).any())
        # exp(loss) - 1 = N mu / e^p.
        mu, plain = (torch.expm1(loss_of(pairs, each, streaming=streaming)).log() for each in (correction, Plain()))
        assert (mu - plain).abs().max() <= -math.log(1 - most) + 1e-9
        rest, whole = (
            loss_of(pairs, each, objective="jensen_shannon", streaming=streaming)
            - torch.nn.functional.softplus(-pairs.positives()[:, 0])
            for each in (correction, Plain())
        )
        assert ((rest / whole).log().abs() <= -math.log(1 - most) + 1e-9).all()
    assert reached


def test_what_is_removed_is_reported() -> None:
    mask = torch.tensor([[True, True, True, False], [False] * 4])
    comparison = Comparison(positive=torch.zeros(2, 1), unlabelled=torch.zeros(2, 4), mask=mask)
    removal = bounded(torch.tensor([[0.6, 0.0, 0.3, 1.0]]).expand(2, 4), comparison)
    torch.testing.assert_close(removal.mean, torch.tensor([0.3, 0.0]))
    torch.testing.assert_close(removal.share, torch.tensor([0.3, 0.0]))
    torch.testing.assert_close(removal.hidden, torch.tensor([[0.6, 0.0, 0.3, 0.0], [0.0] * 4]))
    with pytest.raises(ValueError, match="the largest share of plain's sum to remove: expected 0 to 1, got 1.5"):
        Pointwise(posterior=rough, most=1.5)


@both_ways
@both_objectives
def test_gradients_are_those_of_fixed_weights(objective: ObjectiveName, streaming: bool) -> None:
    """r and its scale have no gradient: the derivative is that of a loss with the same weights as constants."""
    views = [view.requires_grad_() for view in related_views(5, 3)]
    for correction in (PointwiseTable(table=STEEP), Pointwise(posterior=rough)):
        removal = correction.removal(pair_views(views, temperature=0.5).comparison())
        assert (removal.share > 0.49).any()  # The bound scales some.

        def fixed(*embeddings: Tensor, weights: Tensor = removal.hidden) -> Tensor:
            constant = Pointwise(posterior=lambda _: weights, most=1.0)
            return corrected_loss(
                pair_views(embeddings, temperature=0.5), constant, objective=objective, streaming=False
            ).loss.sum()

        assert torch.autograd.gradcheck(fixed, views)
        expected = torch.autograd.grad(fixed(*views), views)
        loss = loss_of(pair_views(views, temperature=0.5), correction, objective=objective, streaming=streaming)
        torch.testing.assert_close(torch.autograd.grad(loss.sum(), views), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("temperature", [0.01, 0.5])
@pytest.mark.parametrize("form", ["views", "queue", "mask", "each", "tensor temperature"])
def test_dense_equals_streaming(form: str, temperature: float) -> None:
    """Mirrored and plain tiles, with and without a maximum for each row, for every way to leave out pairs."""
    query, positive = (view.requires_grad_() for view in related_views(9, 6))
    others = torch.randn(17, 6, dtype=torch.float64, requires_grad=True)
    results = []
    for streaming in (False, True):
        if form == "views":
            pairs = pair_views([query, positive], temperature=temperature)
        elif form == "tensor temperature":
            pairs = pair_views([query, positive], temperature=torch.tensor(temperature, dtype=torch.float64))
        elif form == "queue":
            ids = torch.arange(9), torch.arange(17) - 5
            pairs = pair_up(query, positive, others, temperature=temperature, query_ids=ids[0], unlabelled_ids=ids[1])
        elif form == "mask":
            mask = torch.rand(9, 17, generator=torch.Generator().manual_seed(3)) > 0.4
            mask[4] = False
            pairs = pair_up(query, positive, others, temperature=temperature, mask=mask)
        else:
            pairs = pair_up(query, positive, others.expand(9, 17, 6), temperature=temperature)
        outcome = corrected_loss(pairs, PointwiseTable(table=STEEP), streaming=streaming)
        assert outcome.floored == 0
        inputs = [query, positive, others][: 2 if form in ("views", "tensor temperature") else 3]
        results.append([outcome.loss, outcome.unlabelled_similarity, *torch.autograd.grad(outcome.loss.sum(), inputs)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dense_equals_streaming_where_similarities_are_ends_of_bins(dtype: torch.dtype) -> None:
    """Cosines of codes of 64 signs are multiples of 1/32. Equal codes have 1, and opposite ones -1."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(2, (600, 64), generator=generator).to(dtype) * 2 - 1  # More than a tile.
    codes[1::3] = codes[::3]
    codes[2::3] = -codes[::3]
    table = torch.rand(64, generator=generator, dtype=torch.float64).sort().values
    pairs = pair_views([codes, codes.flip(0)], temperature=0.5)
    dense, streaming = (loss_of(pairs, PointwiseTable(table=table), streaming=way) for way in (False, True))
    assert (dense - loss_of(pairs, Plain(), streaming=False)).abs().max() > 0.01
    torch.testing.assert_close(dense, streaming, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=0)


@both_ways
def test_an_anchor_whose_samples_are_all_removed_has_no_negative_term(streaming: bool) -> None:
    pairs = pair_views([view.requires_grad_() for view in related_views(4, 3)])
    certain = PointwiseTable(table=torch.ones(4, dtype=torch.float64), most=1.0)
    losses = loss_of(pairs, certain, streaming=streaming)
    assert torch.equal(losses, torch.zeros(8).double())
    losses.sum().backward()


def test_scores_without_bound_have_bins_too() -> None:
    scores = torch.tensor([[-50.0, -1.0, 0.0, 1.0, 50.0]])
    comparison = Comparison(positive=torch.zeros(1, 1), unlabelled=scores)
    measured = replace(comparison, unit=torch.tensor(50.0))
    assert bins_of(scores, measured, 8).tolist() == [[0, 3, 4, 4, 7]]
    assert bins_of(torch.tensor([math.nan, math.inf]), comparison, 8).tolist() == [0, 7]
    cosines = replace(comparison, lowest=-2.0, temperature=0.5, unlabelled=torch.tensor([[-2.0, -1.9, 0.0, 1.0, 2.1]]))
    assert bins_of(cosines.unlabelled, cosines, 8).tolist() == [[0, 0, 4, 6, 7]]
