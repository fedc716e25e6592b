"""What a correction may be beyond a prior and a tilt: weights of any form, odds for each anchor, extra positives."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import oracles
from examples import related_views
from pucl.contrast.knowledge import without_false_negatives
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import Comparison, Pairs
from pucl.corrections import Debiased, ExtraPositives, Plain, Reading
from pucl.functional import corrected_loss, pair_up

both_objectives = pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
pytestmark = pytest.mark.usefixtures("small_tiles")


IDS, KEY_IDS = torch.arange(7), torch.arange(3, 16)
TABLE = torch.randn(20, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)  # A second embedding.
LABELS = torch.arange(20) % 3


def by_ids(comparison: Comparison) -> Tensor:
    queries, keys = comparison.sample_ids()
    return torch.sin(queries[:, None] + 2.0 * keys).double()


def by_second_embedding(comparison: Comparison) -> Tensor:
    queries, keys = comparison.sample_ids()
    return TABLE[queries] @ TABLE[keys].T


def by_label(comparison: Comparison) -> Tensor:
    queries, keys = comparison.sample_ids()
    return torch.zeros_like(comparison.unlabelled).masked_fill(LABELS[queries][:, None] == LABELS[keys], -math.inf)


FORMS: dict[str, Callable[[Comparison], Tensor]] = {
    "a function of the logit": lambda c: torch.tanh(c.unlabelled) ** 3,
    "the same, detached": lambda c: torch.tanh(c.unlabelled.detach()) ** 3,
    "ids": by_ids,
    "a second embedding": by_second_embedding,
    "labels": by_label,
}
ODDS = torch.tensor([0.0, 0.05, 0.1, 0.02, 0.0, 0.2, 0.01], dtype=torch.float64)


def some_positives(comparison: Comparison) -> ExtraPositives:
    """The two hardest samples of each anchor, counted by a half and a quarter of what a given positive counts."""
    indices = comparison.visible.detach().topk(2, dim=1).indices
    return ExtraPositives(indices, torch.tensor([0.5, 0.25]).double().expand(indices.shape))


def make_pairs(seed: int = 0) -> Pairs:
    """Seven anchors with two positives and thirteen unlabelled samples, four of which are anchors."""
    torch.manual_seed(seed)
    query, *positive = related_views(7, 5, 3)
    unlabelled = torch.randn(13, 5, dtype=torch.float64)
    inputs = [tensor.requires_grad_() for tensor in (query, torch.stack(positive, dim=1), unlabelled)]
    return pair_up(*inputs, temperature=0.5, query_ids=IDS, unlabelled_ids=KEY_IDS)


def detached(pairs: Pairs) -> Comparison:
    tensors = {name: getattr(pairs, name).detach() for name in ("query", "key", "positive")}
    return replace(pairs, **tensors).comparison()


def loop(pairs: Pairs, correction: Reading, objective: ObjectiveName) -> list[float]:
    """The loss of every anchor, typed from the formula."""
    comparison = detached(pairs)
    log_weights, extra = correction.log_weights(comparison).tolist(), correction.extra_positives(comparison)
    odds, floor = torch.as_tensor(correction.odds, dtype=torch.float64).expand(7).tolist(), -1 / 0.5
    losses = []
    for anchor in range(7):
        met = [j for j in range(13) if IDS[anchor] != KEY_IDS[j]]
        unlabelled = [float(comparison.unlabelled[anchor, j]) for j in met]
        weights = [math.exp(log_weights[anchor][j]) for j in met]
        weights = [weight / sum(weights) for weight in weights]
        positives = [(p, 1.0) for p in comparison.positive[anchor].tolist()]
        if extra is not None:
            chosen = zip(extra.indices[anchor].tolist(), extra.weight[anchor].tolist(), strict=True)
            positives += [(float(comparison.unlabelled[anchor, j]), weight) for j, weight in chosen if j in met]
        g = math.exp if objective == "infonce" else oracles.softplus
        total = sum(weight for _, weight in positives)
        over_positives = sum(weight * g(p) for p, weight in positives) / total
        over_unlabelled = sum(w * g(u) for w, u in zip(weights, unlabelled, strict=True))
        mean = (1 + odds[anchor]) * over_unlabelled - odds[anchor] * over_positives
        mean = max(mean, g(floor)) if odds[anchor] else mean
        if objective == "infonce":
            parts = [(math.log1p(len(met) * mean / math.exp(p)), weight) for p, weight in positives]
        else:
            parts = [(oracles.softplus(-p) + mean, weight) for p, weight in positives]
        losses.append(sum(part * weight for part, weight in parts) / total)
    return losses


CASES = {
    **{name: Reading(of) for name, of in FORMS.items()},
    "odds": Reading(odds=ODDS),
    "odds of a tenth": Reading(odds=0.1),
    "positives": Reading(attract=some_positives),
    "positives and a number": Reading(attract=some_positives, odds=0.1),
    "all of it": Reading(by_second_embedding, ODDS, some_positives),
}


@both_objectives
@both_ways
@pytest.mark.parametrize("case", CASES)
def test_any_form_equals_a_loop(case: str, objective: ObjectiveName, streaming: bool) -> None:
    pairs = make_pairs()
    outcome = corrected_loss(pairs, CASES[case], objective=objective, streaming=streaming, floor="temperature")
    expected = torch.tensor(loop(pairs, CASES[case], objective), dtype=torch.float64)
    torch.testing.assert_close(outcome.loss.detach(), expected, rtol=1e-10, atol=1e-12)


@both_objectives
@both_ways
@pytest.mark.parametrize("case", [case for case in CASES if case != "the same, detached"])
def test_gradients_of_any_form(case: str, objective: ObjectiveName, streaming: bool) -> None:
    def loss(query: Tensor, positive: Tensor, unlabelled: Tensor) -> Tensor:
        pairs = pair_up(query, positive, unlabelled, temperature=0.5, query_ids=IDS, unlabelled_ids=KEY_IDS)
        outcome = corrected_loss(pairs, CASES[case], objective=objective, streaming=streaming, floor="temperature")
        return outcome.loss.sum()

    query, *positive = related_views(7, 3, 3)
    inputs = [query, torch.stack(positive, dim=1), torch.randn(13, 3, dtype=torch.float64)]
    # Along random directions. The next test compares dense and streaming number by number.
    assert torch.autograd.gradcheck(loss, [tensor.requires_grad_() for tensor in inputs], fast_mode=True)


@both_objectives
def test_streaming_has_the_gradient_of_dense(objective: ObjectiveName) -> None:
    """Also where the weights are detached, which finite differences cannot check."""
    for case, correction in CASES.items():
        gradients = []
        for streaming in (False, True):
            torch.manual_seed(0)
            query, positive = (view.requires_grad_() for view in related_views(7, 5))
            unlabelled = torch.randn(13, 5, dtype=torch.float64, requires_grad=True)
            pairs = pair_up(query, positive, unlabelled, query_ids=IDS, unlabelled_ids=KEY_IDS)
            corrected_loss(pairs, correction, objective=objective, streaming=streaming).loss.sum().backward()
            gradients.append([tensor.grad for tensor in (query, positive, unlabelled)])
        torch.testing.assert_close(gradients[0], gradients[1], msg=case)


@both_ways
@both_objectives
def test_constant_weights_are_plain_and_labels_are_the_oracle(streaming: bool, objective: ObjectiveName) -> None:
    pairs, options = make_pairs(), {"streaming": streaming, "objective": objective}
    plain = corrected_loss(pairs, Plain(), **options).loss  # type: ignore[arg-type]
    constant = Reading(lambda c: torch.full_like(c.unlabelled, 3.7) + c.sample_ids()[0][:, None])
    torch.testing.assert_close(corrected_loss(pairs, constant, **options).loss, plain)  # type: ignore[arg-type]
    oracle = corrected_loss(without_false_negatives(pairs, LABELS[IDS], LABELS[KEY_IDS]), Plain(), **options).loss  # type: ignore[arg-type]
    # The oracle's ids are labels, by which an anchor does not meet itself either.
    torch.testing.assert_close(corrected_loss(pairs, Reading(by_label), **options).loss, oracle)  # type: ignore[arg-type]
    assert (oracle != plain).any()


@both_ways
@both_objectives
def test_the_same_odds_for_each_anchor_are_a_number(streaming: bool, objective: ObjectiveName) -> None:
    pairs = make_pairs()
    for number in (0.0, 0.1, 5.0):  # With the last, anchors are at the floor.
        each = Reading(odds=torch.full((7,), number, dtype=torch.float64))
        tau = number / (1 + number)
        for floor in ("temperature", 0.3, "auto"):
            options: dict[str, Any] = {"streaming": streaming, "objective": objective, "floor": floor}
            with pytest.warns() if number == 5 else pytest.MonkeyPatch.context():  # A FlooredWarning.
                one, other = (
                    corrected_loss(pairs, each, **options),
                    corrected_loss(pairs, Debiased(tau_plus=tau), **options),
                )
            torch.testing.assert_close(one.loss, other.loss)
            assert one.floored == other.floored
            assert float(one.tau_plus) == pytest.approx(tau)


def test_an_anchor_without_odds_has_no_floor() -> None:
    """Its mean may lie below the paper's floor, which does not depend on the temperature."""
    pairs = make_pairs()
    far = replace(pairs, key=pairs.key - 4 * pairs.query.mean(dim=0))
    odds = torch.zeros(7, dtype=torch.float64)
    plain = corrected_loss(far, Plain(), floor="paper")
    torch.testing.assert_close(corrected_loss(far, Reading(odds=odds), floor="paper").loss, plain.loss)
    assert corrected_loss(far, Reading(odds=odds), floor="paper").floored == 0
    low = pairs.comparison().unlabelled.exp().mean(dim=1) < math.exp(-1)
    assert low.any() or (far.comparison().unlabelled.exp().mean(dim=1) < math.exp(-1)).any()


@both_objectives
@pytest.mark.parametrize("masked", [False, True])
def test_odds_in_groups(objective: ObjectiveName, masked: bool) -> None:
    """The expectation of a group is the mean of (1 + odds) times the average, less that of odds times a positive."""
    pairs, group = make_pairs(), [0, 0, 1, 1, 1, 2, 2]
    mask = torch.ones(7, 2, dtype=torch.bool)
    if masked:
        mask[1, 0] = mask[3] = False
    pairs = replace(pairs, group=torch.tensor(group), positive_mask=mask if masked else None)
    outcome = corrected_loss(pairs, Reading(odds=ODDS), objective=objective, floor="temperature")
    comparison = detached(pairs)
    g = math.exp if objective == "infonce" else oracles.softplus
    for number in range(3):
        members = [i for i in range(7) if group[i] == number]
        added = taken = 0.0
        positives = [(i, float(comparison.positive[i, j])) for i in members for j in range(2) if mask[i, j]]
        counts = []
        for i in members:
            met = [float(comparison.unlabelled[i, j]) for j in range(13) if IDS[i] != KEY_IDS[j]]
            added += (1 + float(ODDS[i])) * sum(map(g, met)) / len(met) / len(members)
            counts.append(len(met))
        taken = sum(float(ODDS[i]) * g(p) for i, p in positives) / len(positives)
        mean, count = max(added - taken, g(-2.0)), sum(counts) / len(counts)
        if objective == "infonce":
            losses = [math.log1p(count * mean / math.exp(p)) for _, p in positives]
        else:
            losses = [oracles.softplus(-p) + mean for _, p in positives]
        expected = sum(losses) / len(losses) * len(members) * 3 / 7
        assert outcome.loss[number].item() == pytest.approx(expected, rel=1e-10)


@both_ways
@both_objectives
def test_weights_of_zero_only(streaming: bool, objective: ObjectiveName) -> None:
    """An anchor of which all samples are left out has no negative term, and a finite gradient."""
    pairs = make_pairs()

    def of(comparison: Comparison) -> Tensor:
        return torch.zeros_like(comparison.unlabelled).masked_fill(comparison.sample_ids()[0][:, None] == 2, -math.inf)

    outcome = corrected_loss(pairs, Reading(of), objective=objective, streaming=streaming)
    nothing = 0.0 if objective == "infonce" else torch.nn.functional.softplus(-pairs.positive[2]).mean().item()
    assert outcome.loss[2].item() == pytest.approx(nothing)
    gradients = torch.autograd.grad(outcome.loss.sum(), [pairs.query, pairs.key])
    assert all(gradient.isfinite().all() for gradient in gradients)
