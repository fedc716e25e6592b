"""What holds for every correction in the table, whoever wrote it."""

import math
from typing import Any

import pytest
import torch

import oracles
from examples import ALL, EXAMPLES, brief, loop_count, loop_weights, related_views
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import Comparison
from pucl.corrections import CORRECTIONS, Correction
from pucl.functional import contrastive_loss, corrected_loss, pair_up, pair_views

every = pytest.mark.parametrize("correction", ALL, ids=brief)
both_objectives = pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
pytestmark = pytest.mark.usefixtures("small_tiles")


def test_every_correction_has_an_example() -> None:
    assert EXAMPLES.keys() == CORRECTIONS.keys()
    for name, examples in EXAMPLES.items():
        assert all(type(example) is CORRECTIONS[name] for example in examples)


@every
def test_weights_sum_to_one_and_masked_samples_weigh_nothing(correction: Correction) -> None:
    mask = torch.rand(6, 20) > 0.3
    comparison = Comparison(positive=torch.randn(6, 1), unlabelled=torch.randn(6, 20), mask=mask)
    log_weights, count = correction.normalised_log_weights(comparison)
    weights = log_weights.exp()
    if correction.counts_weights:
        raw = torch.where(mask, correction.log_weights(comparison).exp(), 0.0)
        torch.testing.assert_close(count, raw.sum(dim=1))
    else:
        assert torch.equal(count, mask.sum(dim=1).float())
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(6))
    assert (weights[~mask] == 0).all()
    assert (weights >= 0).all()


@every
@both_objectives
@both_ways
def test_equals_the_loops(correction: Correction, objective: ObjectiveName, streaming: bool) -> None:
    temperature = 0.4
    views = related_views(7, 5)
    outcome = corrected_loss(
        pair_views(views, temperature=temperature), correction, objective=objective, streaming=streaming
    )
    assert outcome.floored < 0.5
    losses, floors = [], []
    for positives, unlabelled in oracles.views_as_logits([view.tolist() for view in views], temperature):
        weights = loop_weights(correction, temperature)(unlabelled)
        if objective == "infonce":
            count = loop_count(correction, unlabelled)
            loss, floored = oracles.infonce(
                positives, unlabelled, weights, float(correction.odds), math.exp(-1 / temperature), count
            )
        else:
            least = oracles.softplus(-1 / temperature)
            loss, floored = oracles.jensen_shannon(positives, unlabelled, weights, float(correction.odds), least)
        losses.append(loss)
        floors.append(floored)
    torch.testing.assert_close(outcome.loss, torch.tensor(losses, dtype=torch.float64), rtol=1e-10, atol=1e-12)
    assert outcome.floored == pytest.approx(sum(floors) / len(floors))


@pytest.mark.slow
@every
@both_objectives
@both_ways
@pytest.mark.parametrize("views", [2, 3])
def test_gradients(
    correction: Correction, objective: ObjectiveName, streaming: bool, views: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 100)

    def loss(*embeddings: torch.Tensor) -> torch.Tensor:
        outcome = corrected_loss(
            pair_views(embeddings, temperature=0.5), correction, objective=objective, streaming=streaming
        )
        assert outcome.floored < 0.5
        return outcome.loss.sum()

    inputs = [view.requires_grad_() for view in related_views(5, 3, views)]
    assert torch.autograd.gradcheck(loss, inputs)


@every
@both_ways
def test_order_of_the_unlabelled_does_not_matter(correction: Correction, streaming: bool) -> None:
    query, positive = related_views(4, 6)
    unlabelled = torch.randn(13, 6, dtype=torch.float64)
    shuffled = unlabelled[torch.randperm(13)]
    losses = [contrastive_loss(query, positive, u, correction, streaming=streaming) for u in (unlabelled, shuffled)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=1e-14)


@every
@both_objectives
@both_ways
def test_a_masked_sample_is_as_if_it_were_not_there(
    correction: Correction, objective: ObjectiveName, streaming: bool
) -> None:
    query, positive = related_views(4, 6)
    unlabelled = torch.randn(20, 6, dtype=torch.float64)
    kept = torch.arange(20) % 2 == 0
    options: dict[str, Any] = {"objective": objective, "streaming": streaming}
    expected = contrastive_loss(query, positive, unlabelled[kept], correction, **options)
    masked = contrastive_loss(query, positive, unlabelled, correction, mask=kept.expand(4, 20), **options)
    by_id = contrastive_loss(
        query,
        positive,
        unlabelled,
        correction,
        query_ids=torch.zeros(4, dtype=torch.long),
        unlabelled_ids=kept.long(),
        **options,
    )
    each = contrastive_loss(
        query, positive, unlabelled.expand(4, 20, 6), correction, mask=kept.expand(4, 20), **options
    )
    for value in (masked, by_id, each):
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-14)


@every
@both_objectives
@both_ways
def test_an_anchor_without_unlabelled_samples_has_no_negative_term(
    correction: Correction, objective: ObjectiveName, streaming: bool
) -> None:
    query, positive = (view.requires_grad_() for view in related_views(3, 6))
    unlabelled = torch.randn(10, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([True, False, True])[:, None].expand(3, 10)
    pairs = pair_up(query, positive, unlabelled, mask=mask)
    outcome = corrected_loss(pairs, correction, objective=objective, streaming=streaming)
    nothing = 0.0 if objective == "infonce" else torch.nn.functional.softplus(-pairs.positive[1, 0]).item()
    assert outcome.loss[1].item() == pytest.approx(nothing)
    assert outcome.loss[0] > 0
    outcome.loss.sum().backward()
    for tensor in (query, positive, unlabelled):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


@every
@both_ways
@pytest.mark.parametrize("temperature", [0.01, 0.02, 0.07, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.3, 10.0])
@pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
def test_finite_at_every_temperature(correction: Correction, streaming: bool, temperature: float, noise: float) -> None:
    views = [view.float().requires_grad_() for view in related_views(12, 8, noise=noise)]
    outcome = corrected_loss(pair_views(views, temperature=temperature), correction, streaming=streaming)
    outcome.loss.mean().backward()
    assert outcome.loss.isfinite().all()
    assert (outcome.loss >= 0).all()
    for view in views:
        assert view.grad is not None
        assert view.grad.isfinite().all()


@every
@both_ways
def test_reported_similarities(correction: Correction, streaming: bool) -> None:
    temperature = 0.3
    views = related_views(6, 5, views=3)
    outcome = corrected_loss(pair_views(views, temperature=temperature), correction, streaming=streaming)
    logits = oracles.views_as_logits([view.tolist() for view in views], temperature)
    positives = [p * temperature for row, _ in logits for p in row]
    unlabelled = [u * temperature for _, row in logits for u in row]
    assert outcome.positive_similarity.item() == pytest.approx(sum(positives) / len(positives))
    assert outcome.unlabelled_similarity.item() == pytest.approx(sum(unlabelled) / len(unlabelled))
    assert outcome.tau_plus == pytest.approx(correction.tau_plus)


@every
@both_ways
def test_doubling_every_unlabelled_sample_doubles_their_number_alone(correction: Correction, streaming: bool) -> None:
    """The mean over the unlabelled stays: only N, which the oracle's `drawn` can set too, is twice as large."""
    query, positive = related_views(4, 6)
    unlabelled = torch.randn(10, 6, dtype=torch.float64)
    twice = corrected_loss(pair_up(query, positive, unlabelled.repeat(2, 1)), correction, streaming=streaming)
    once = corrected_loss(pair_up(query, positive, unlabelled), correction, streaming=streaming)
    # exp(loss) - 1 = N mu / e^p.
    torch.testing.assert_close(torch.expm1(twice.loss), 2 * torch.expm1(once.loss), rtol=1e-10, atol=1e-12)
