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

GROUPS = [4, -1, 2, 4, 7, 2, -1, 4, 9]
"""Known groups of three, of two and of one sample, and samples without a group."""


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
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["alone", "groups"])
def test_equals_the_loops(
    correction: Correction, objective: ObjectiveName, streaming: bool, groups: list[int] | None
) -> None:
    temperature = 0.4
    views = related_views(9, 5)
    pairs = pair_views(views, temperature=temperature, groups=None if groups is None else torch.tensor(groups))
    outcome = corrected_loss(pairs, correction, objective=objective, streaming=streaming)
    assert outcome.floored < 0.5
    losses, floors = [], []
    for positives, unlabelled in oracles.views_as_logits([view.tolist() for view in views], temperature, groups):
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
@pytest.mark.parametrize(("views", "groups"), [(2, None), (3, None), (2, [1, -1, 1, 0, 1])])
def test_gradients(
    correction: Correction,
    objective: ObjectiveName,
    streaming: bool,
    views: int,
    groups: list[int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 100)

    def loss(*embeddings: torch.Tensor) -> torch.Tensor:
        known = None if groups is None else torch.tensor(groups)
        pairs = pair_views(embeddings, temperature=0.5, groups=known)
        outcome = corrected_loss(pairs, correction, objective=objective, streaming=streaming)
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
@both_objectives
@both_ways
def test_groups_that_all_differ_change_nothing(
    correction: Correction, objective: ObjectiveName, streaming: bool
) -> None:
    """To the bit: also with samples without a group, and in unlabelled samples of their own."""
    query, positive = related_views(9, 5)
    others, groups = torch.randn(11, 5, dtype=torch.float64), torch.tensor([3, -1, 0, 5, 7, -1, 11, 1, 12])
    options: dict[str, Any] = {"objective": objective, "streaming": streaming}
    in_batch = pair_views([query, positive], groups=groups)
    expected = corrected_loss(pair_views([query, positive]), correction, **options)
    assert torch.equal(corrected_loss(in_batch, correction, **options).loss, expected.loss)
    apart = pair_up(query, positive, others, query_groups=groups, unlabelled_groups=torch.arange(20, 31))
    expected = corrected_loss(pair_up(query, positive, others), correction, **options)
    assert torch.equal(corrected_loss(apart, correction, **options).loss, expected.loss)


@every
@both_objectives
@both_ways
def test_a_mate_is_a_given_positive_that_is_not_unlabelled(
    correction: Correction, objective: ObjectiveName, streaming: bool
) -> None:
    """Loss, gradients and reports: unlabelled samples of the group, and the same samples given as positives."""
    query, positive = (view.requires_grad_() for view in related_views(5, 6))
    mates = (query.detach()[:3] + torch.randn(3, 6, dtype=torch.float64)).requires_grad_()
    others = torch.randn(12, 6, dtype=torch.float64, requires_grad=True)
    inputs = (query, positive, mates, others)
    options: dict[str, Any] = {"objective": objective, "streaming": streaming}
    query_groups, mates_groups = torch.tensor([3, 5, -1, 3, 8]), torch.tensor([3, 5, 3])
    pairs = pair_up(
        query,
        positive,
        torch.cat([mates[:1], others, mates[1:]]),
        query_groups=query_groups,
        unlabelled_groups=torch.cat([mates_groups[:1], torch.full((12,), -1), mates_groups[1:]]),
    )
    outcome = corrected_loss(pairs, correction, **options)
    losses, similarities = [], []
    for i in range(5):
        own = [j for j in range(3) if mates_groups[j] == query_groups[i]]
        rest = [j for j in range(3) if j not in own]
        given = torch.cat([positive[i : i + 1], mates[own]])[None]
        pairs = pair_up(query[i : i + 1], given, torch.cat([others, mates[rest]]))
        alone = corrected_loss(pairs, correction, **options)
        losses.append(alone.loss)
        similarities += [alone.positive_similarity] * (1 + len(own))
    torch.testing.assert_close(outcome.loss, torch.cat(losses), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(outcome.positive_similarity, torch.stack(similarities).mean())
    weight = torch.arange(1.0, 6.0, dtype=torch.float64)
    gradients = torch.autograd.grad((outcome.loss * weight).sum(), inputs)
    for ours, expected in zip(gradients, torch.autograd.grad((torch.cat(losses) * weight).sum(), inputs), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-11)


@every
@both_ways
@pytest.mark.parametrize(
    "groups",
    [None, pytest.param([0, 1, 0, 2, 2, -1, 0, 3, 3, -1, 4, 4], marks=pytest.mark.slow)],
    ids=["alone", "groups"],
)
@pytest.mark.parametrize("temperature", [0.01, 0.02, 0.07, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.3, 10.0])
@pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
def test_finite_at_every_temperature(
    correction: Correction, streaming: bool, groups: list[int] | None, temperature: float, noise: float
) -> None:
    views = [view.float().requires_grad_() for view in related_views(12, 8, noise=noise)]
    pairs = pair_views(views, temperature=temperature, groups=None if groups is None else torch.tensor(groups))
    outcome = corrected_loss(pairs, correction, streaming=streaming)
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
