"""What a correction may be beyond a prior and a tilt, shown by corrections that are in no table.

Weights of any form, odds for each anchor, extra positives, and a state that learns.
"""

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import oracles
from examples import related_views
from pucl import ContrastiveLoss, NTXentLoss, doctor, processes
from pucl import config as config_module
from pucl.adapters import TwoTowerLoss
from pucl.cli import main as pucl_command
from pucl.commands import train as train_command
from pucl.config import RunConfig
from pucl.contrast.compare import ObjectiveName
from pucl.contrast.comparison import Comparison
from pucl.contrast.correction import normalised_log_weights
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.corrections import CORRECTIONS, Correction, CorrectionState, Debiased, ExtraPositives, Hard, Plain
from pucl.frameworks.cmc import CMC
from pucl.frameworks.recipes import read_config, recipe
from pucl.functional import compare, pair_up, pair_views
from pucl.graphs.task import GraphTask
from pucl.images.config import ImageConfig
from pucl.images.imageset import ImageSet
from pucl.images.task import ImageShape
from pucl.runs.build import build_framework
from pucl.runs.directory import RunDirectory
from pucl.runs.run import build_plan, make_training
from pucl.training.loop import Training
from pucl.training.optimisers import make_optimiser
from small_runs import fitting, save_pictures, small_run

both_objectives = pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
pytestmark = pytest.mark.usefixtures("small_tiles")


# Corrections without a state: weights, odds and positives.


@dataclass(frozen=True, eq=False)
class Weighted(Correction):
    """Log weights, odds and extra positives by functions of the comparison."""

    of: Callable[[Comparison], Tensor] = lambda c: torch.zeros_like(c.unlabelled)
    anchor_odds: float | Tensor = 0.0
    positives: Callable[[Comparison], ExtraPositives | None] = lambda _: None

    @property
    def odds(self) -> float | Tensor:
        return self.anchor_odds

    def log_weights(self, comparison: Comparison) -> Tensor:
        return self.of(comparison)

    def extra_positives(self, comparison: Comparison) -> ExtraPositives | None:
        return self.positives(comparison)


IDS, KEY_IDS = torch.arange(7), torch.arange(3, 16)
TABLE = torch.randn(20, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)  # A second embedding.
LABELS = torch.arange(20) % 3


def known(comparison: Comparison) -> tuple[Tensor, Tensor]:
    assert comparison.query_samples is not None
    assert comparison.key_samples is not None
    return comparison.query_samples, comparison.key_samples


def by_ids(comparison: Comparison) -> Tensor:
    queries, keys = known(comparison)
    return torch.sin(queries[:, None] + 2.0 * keys).double()


def by_second_embedding(comparison: Comparison) -> Tensor:
    queries, keys = known(comparison)
    return TABLE[queries] @ TABLE[keys].T


def by_label(comparison: Comparison) -> Tensor:
    queries, keys = known(comparison)
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
    place = comparison.visible.detach().topk(2, dim=1).indices
    return ExtraPositives(place, torch.tensor([0.5, 0.25]).double().expand(place.shape))


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


def loop(pairs: Pairs, correction: Weighted, objective: ObjectiveName) -> list[float]:
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
            chosen = zip(extra.place[anchor].tolist(), extra.weight[anchor].tolist(), strict=True)
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
    **{name: Weighted(of) for name, of in FORMS.items()},
    "odds": Weighted(anchor_odds=ODDS),
    "odds of a tenth": Weighted(anchor_odds=0.1),
    "positives": Weighted(positives=some_positives),
    "positives and a number": Weighted(positives=some_positives, anchor_odds=0.1),
    "all of it": Weighted(by_second_embedding, ODDS, some_positives),
}


@both_objectives
@both_ways
@pytest.mark.parametrize("case", CASES)
def test_any_form_equals_a_loop(case: str, objective: ObjectiveName, streaming: bool) -> None:
    pairs = make_pairs()
    outcome = compare(pairs, CASES[case], objective=objective, streaming=streaming, floor="temperature")
    expected = torch.tensor(loop(pairs, CASES[case], objective), dtype=torch.float64)
    torch.testing.assert_close(outcome.loss.detach(), expected, rtol=1e-10, atol=1e-12)


@both_objectives
@both_ways
@pytest.mark.parametrize("case", [case for case in CASES if case != "the same, detached"])
def test_gradients_of_any_form(case: str, objective: ObjectiveName, streaming: bool) -> None:
    def loss(query: Tensor, positive: Tensor, unlabelled: Tensor) -> Tensor:
        pairs = pair_up(query, positive, unlabelled, temperature=0.5, query_ids=IDS, unlabelled_ids=KEY_IDS)
        return compare(pairs, CASES[case], objective=objective, streaming=streaming, floor="temperature").loss.sum()

    query, *positive = related_views(7, 3, 3)
    inputs = [query, torch.stack(positive, dim=1), torch.randn(13, 3, dtype=torch.float64)]
    assert torch.autograd.gradcheck(loss, [tensor.requires_grad_() for tensor in inputs])


@both_objectives
def test_streaming_has_the_gradient_of_dense(objective: ObjectiveName) -> None:
    """Also where the weights are detached, which numbers cannot check; and with a set of samples for each anchor."""
    for case, correction in CASES.items():
        gradients = []
        for streaming in (False, True):
            torch.manual_seed(0)
            query, positive = (view.requires_grad_() for view in related_views(7, 5))
            unlabelled = torch.randn(13, 5, dtype=torch.float64, requires_grad=True)
            pairs = pair_up(query, positive, unlabelled, query_ids=IDS, unlabelled_ids=KEY_IDS)
            compare(pairs, correction, objective=objective, streaming=streaming).loss.sum().backward()
            gradients.append([tensor.grad for tensor in (query, positive, unlabelled)])
        torch.testing.assert_close(gradients[0], gradients[1], msg=case)


@both_ways
@both_objectives
def test_constant_weights_are_plain_and_labels_are_the_oracle(streaming: bool, objective: ObjectiveName) -> None:
    pairs, options = make_pairs(), {"streaming": streaming, "objective": objective}
    plain = compare(pairs, Plain(), **options).loss  # type: ignore[arg-type]
    constant = Weighted(lambda c: torch.full_like(c.unlabelled, 3.7) + known(c)[0][:, None])
    torch.testing.assert_close(compare(pairs, constant, **options).loss, plain)  # type: ignore[arg-type]
    oracle = compare(without_false_negatives(pairs, LABELS[IDS], LABELS[KEY_IDS]), Plain(), **options).loss  # type: ignore[arg-type]
    # The oracle's ids are labels, by which an anchor does not meet itself either.
    torch.testing.assert_close(compare(pairs, Weighted(by_label), **options).loss, oracle)  # type: ignore[arg-type]
    assert (oracle != plain).any()


@both_ways
@both_objectives
def test_the_same_odds_for_each_anchor_are_a_number(streaming: bool, objective: ObjectiveName) -> None:
    pairs = make_pairs()
    for number in (0.0, 0.1, 5.0):  # With the last, anchors are at the floor.
        each = Weighted(anchor_odds=torch.full((7,), number, dtype=torch.float64))
        tau = number / (1 + number)
        for floor in ("temperature", 0.3, "auto"):
            options: dict[str, Any] = {"streaming": streaming, "objective": objective, "floor": floor}
            with pytest.warns() if number == 5 else pytest.MonkeyPatch.context():  # A FlooredWarning.
                one, other = compare(pairs, each, **options), compare(pairs, Debiased(tau_plus=tau), **options)
            torch.testing.assert_close(one.loss, other.loss)
            assert one.floored == other.floored
            assert float(one.tau_plus) == pytest.approx(tau)


def test_an_anchor_without_odds_has_no_floor() -> None:
    """Its mean may lie below the paper's floor, which does not depend on the temperature."""
    pairs = make_pairs()
    far = replace(pairs, key=pairs.key - 4 * pairs.query.mean(dim=0))
    odds = torch.zeros(7, dtype=torch.float64)
    plain = compare(far, Plain(), floor="paper")
    torch.testing.assert_close(compare(far, Weighted(anchor_odds=odds), floor="paper").loss, plain.loss)
    assert compare(far, Weighted(anchor_odds=odds), floor="paper").floored == 0
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
    outcome = compare(pairs, Weighted(anchor_odds=ODDS), objective=objective, floor="temperature")
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
        return torch.zeros_like(comparison.unlabelled).masked_fill(known(comparison)[0][:, None] == 2, -math.inf)

    outcome = compare(pairs, Weighted(of), objective=objective, streaming=streaming)
    nothing = 0.0 if objective == "infonce" else torch.nn.functional.softplus(-pairs.positive[2]).mean().item()
    assert outcome.loss[2].item() == pytest.approx(nothing)
    gradients = torch.autograd.grad(outcome.loss.sum(), [pairs.query, pairs.key])
    assert all(gradient.isfinite().all() for gradient in gradients)


# A correction that learns.


@dataclass(frozen=True, kw_only=True)
class Learning(Correction):
    """Thresholds of samples, moved so that a share of each sample's unlabelled ones lies above; those count less.

    Args:
        quantile: Share of the unlabelled samples that lies above the threshold.
        rate: Of learning.
        form: "soft", or "hard" to leave out what lies above.
        attract: Take the hardest sample for half a positive if it lies above.
        bins: Of the histogram of similarities, which sets the odds.
        first: Where thresholds start; None for 0.
    """

    quantile: float = 0.2
    rate: float = 0.5
    form: str = "soft"
    attract: bool = False
    bins: int = 4
    first: float | None = None

    def start(self, samples: int | None) -> "LearningState":
        if samples is None:
            raise ValueError("Learning has a threshold for each sample: expected their number, got none; pass samples=")
        return LearningState(self, samples)


class LearningState(CorrectionState):
    threshold: Tensor
    above: Tensor
    histogram: Tensor

    def __init__(self, settings: Learning, samples: int) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("threshold", torch.full((samples,), settings.first or 0.0, dtype=torch.float64))
        self.register_buffer("above", torch.zeros(samples, dtype=torch.float64))
        self.register_buffer("histogram", torch.zeros(settings.bins, dtype=torch.float64))

    def read(self, pairs: Pairs) -> "Reading":
        queries, _ = pairs.sample_ids()
        upper = float(self.histogram[-1] / self.histogram.sum().clamp_min(1))
        odds = (0.1 * self.above[queries] + 0.05 * upper).to(pairs.query.dtype)
        return Reading(self.settings, self.threshold.clone().to(pairs.query.dtype), odds)

    def see(self, pairs: Pairs) -> Tensor:
        queries, _ = pairs.sample_ids()
        parts = []
        for rows in pairs.blocks():
            comparison = pairs.rows(rows).comparison()
            met = (
                torch.ones_like(comparison.unlabelled, dtype=torch.bool) if comparison.mask is None else comparison.mask
            )
            logits = comparison.unlabelled.double()
            above = (logits > self.threshold[queries[rows]][:, None]) & met
            edges = torch.linspace(-1, 1, self.settings.bins + 1).double() / comparison.temperature
            bins = torch.bucketize(logits, edges[1:-1])
            counts = [((bins == number) & met).sum(dim=1) for number in range(self.settings.bins)]
            parts.append(torch.stack([above.sum(dim=1) / met.sum(dim=1), *counts], dim=1))
        return torch.cat(parts).double()

    def commit(self, ids: Tensor | None, seen: Tensor) -> None:
        assert ids is not None
        times = torch.zeros_like(self.above).index_add_(0, ids, torch.ones(len(ids), dtype=torch.float64))
        shares = torch.zeros_like(self.above).index_add_(0, ids, seen[:, 0]) / times.clamp_min(1)
        self.above.copy_(torch.where(times > 0, shares, self.above))
        moved = self.threshold - self.settings.rate * (self.settings.quantile - shares)
        self.threshold.copy_(torch.where(times > 0, moved, self.threshold))
        self.histogram.mul_(0.9).add_(seen[:, 1:].sum(dim=0))


@dataclass(frozen=True, eq=False)
class Reading(Correction):
    settings: Learning
    threshold: Tensor
    anchor_odds: Tensor

    @property
    def odds(self) -> Tensor:
        return self.anchor_odds

    def log_weights(self, comparison: Comparison) -> Tensor:
        over = comparison.unlabelled.detach() - self.threshold[known(comparison)[0]][:, None]
        if self.settings.form == "hard":
            return torch.zeros_like(over).masked_fill(over > 0, -math.inf)
        return torch.log1p(-0.9 * torch.sigmoid(over))

    def extra_positives(self, comparison: Comparison) -> ExtraPositives | None:
        if not self.settings.attract:
            return None
        hardest, place = comparison.visible.detach().max(dim=1, keepdim=True)
        return ExtraPositives(place, 0.5 * (hardest > self.threshold[known(comparison)[0]][:, None]).to(hardest.dtype))


LEARNING = [Learning(), Learning(form="hard", first=1.5), Learning(attract=True, bins=3)]
learning = pytest.mark.parametrize("correction", LEARNING, ids=str)


def moved_state(correction: Learning) -> LearningState:
    """A state after a few steps."""
    state = correction.start(20)
    for seed in range(3):
        pairs = make_pairs(seed)
        with torch.no_grad():
            state.commit(pairs.query_samples, state.see(pairs))
    return state


@learning
@both_objectives
def test_a_reading_is_a_correction(correction: Learning, objective: ObjectiveName) -> None:
    """Weights with a sum of one, dense as streaming, and the loop of the formula."""
    pairs = make_pairs(7)
    reading = moved_state(correction).read(pairs)
    assert (reading.odds > 0).any()
    assert reading.threshold.unique().numel() > 3
    log_weights, count = normalised_log_weights(reading, pairs.comparison())
    torch.testing.assert_close(log_weights.exp().sum(dim=1)[count > 0], torch.ones(int((count > 0).sum())).double())
    outcomes = [compare(pairs, reading, objective=objective, streaming=way, floor=0.1) for way in (False, True)]
    torch.testing.assert_close(outcomes[0].loss, outcomes[1].loss)
    assert isinstance(outcomes[0].tau_plus, Tensor)
    torch.testing.assert_close(outcomes[0].tau_plus, (reading.odds / (1 + reading.odds)).mean())
    same = Weighted(reading.log_weights, reading.odds, reading.extra_positives)
    outcome = compare(pairs, reading, objective=objective, floor="temperature")
    expected = torch.tensor(loop(pairs, same, objective), dtype=torch.float64)
    torch.testing.assert_close(outcome.loss.detach(), expected)


def test_what_the_state_sees_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    state, pairs = moved_state(Learning()), make_pairs(7)
    in_blocks = state.see(pairs)
    assert len(pairs.blocks()) > 2
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 1 << 20)
    assert len(pairs.blocks()) == 1
    assert torch.equal(state.see(pairs), in_blocks)


def some_views(seed: int) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(seed)
    return [view.float().requires_grad_() for view in related_views(8, 6)], torch.randperm(20)[:8]


def make_loss(**options: Any) -> ContrastiveLoss:
    return ContrastiveLoss(Learning(attract=True), samples=20, **options)


@pytest.mark.parametrize("bank", [0, 16])
@both_ways
def test_a_loss_keeps_what_it_learnt(bank: int, streaming: bool) -> None:
    """It moves after the comparison, in training alone, and goes through `state_dict`."""
    loss = make_loss(memory_bank_size=bank, streaming=streaming)
    fresh = {name: value.clone() for name, value in loss.state_dict().items() if name.startswith("learnt")}
    assert fresh.keys() == {"learnt.threshold", "learnt.above", "learnt.histogram"}
    for seed in range(4):
        views, ids = some_views(seed)
        if seed == 1 and not bank:
            pairs = pair_views(views, ids=ids)
            assert isinstance(loss.learnt, LearningState)
            expected = compare(pairs, loss.learnt.read(pairs)).loss.mean()
            torch.testing.assert_close(loss(*views, ids=ids), expected)
        else:
            loss(*views, ids=ids).backward()
            assert views[0].grad is not None
            assert views[0].grad.isfinite().all()
    saved = {name: value.clone() for name, value in loss.state_dict().items()}
    assert all((saved[name] != value).any() for name, value in fresh.items())
    views, ids = some_views(9)
    with torch.no_grad():
        quiet = loss(*views, ids=ids)
    assert torch.equal(loss.eval()(*views, ids=ids), quiet)
    assert all(torch.equal(value, saved[name]) for name, value in loss.state_dict().items())
    again = make_loss(memory_bank_size=bank, streaming=streaming)
    again.load_state_dict(saved)
    loss.train()
    assert torch.equal(again(*views, ids=ids), loss(*views, ids=ids))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in loss.state_dict().items())


def test_the_gradient_is_that_of_the_reading_before_the_state_moved() -> None:
    """`forward` moves the state, and streaming computes the weights once more in `backward`."""
    gradients = []
    for streaming in (False, True):
        loss = make_loss(streaming=streaming)
        for seed in range(3):
            views, ids = some_views(seed)
            loss(*views, ids=ids).backward()
        gradients.append([view.grad for view in views])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_what_is_missing_is_said(registered: None) -> None:
    with pytest.raises(ValueError, match="expected their number, got none; pass samples="):
        ContrastiveLoss(Learning())
    views, _ = some_views(0)
    with pytest.raises(ValueError, match="this correction remembers samples: expected their ids, got none; pass ids="):
        make_loss()(*views)
    with pytest.raises(ValueError, match="remembers samples"):
        TwoTowerLoss(make_loss())(*views)  # Its ids are places in the batch.
    with pytest.raises(ValueError, match="Learning learns: expected its reading of these pairs, got its settings"):
        compare(make_pairs(), Learning())
    assert NTXentLoss().state_dict() == {}
    with pytest.raises(ValueError, match="'form' should be a text, got 3"):
        recipe("simclr", "none", correction="learning", settings={"form": 3})


def test_places_in_a_batch_are_not_samples() -> None:
    local, whole, graph_of = torch.randn(6, 4), torch.randn(3, 4), torch.tensor([0, 0, 1, 1, 2, 2])
    for temperature in (None, 0.5):
        assert pair_local_global(local, whole, graph_of, temperature=temperature).query_samples is None
    assert pair_views([local, local]).query_samples is None


# Trained by the loop, with every framework.


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the correction into the tables."""
    monkeypatch.setitem(CORRECTIONS, "learning", Learning)
    monkeypatch.setattr(config_module, "ROWS", (*config_module.ROWS, "learning"))
    monkeypatch.setattr(train_command, "SETTINGS", sorted({*train_command.SETTINGS, *Learning.__dataclass_fields__}))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


IMAGES, SIDE = 48, 8
FRAMEWORKS = ("simclr", "moco", "cmc")


def make_image_training(framework: str, **changes: Any) -> Training[Tensor]:
    own = fitting(framework, queue_size=24, draws=30, splits=4)
    options: dict[str, Any] = {"batch_size": 16, "dim": 16, "width": 8, **own}
    settings = {"attract": True}
    config = recipe(framework, "none", **(options | {"correction": "learning", "settings": settings} | changes))
    assert isinstance(config, ImageConfig)
    numbers = np.random.default_rng(0)
    pixels = numbers.integers(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=np.uint8)
    network = build_framework(config, ImageShape(samples=IMAGES, size=SIDE))
    module = network.double()
    for part in module.modules():
        if type(part).__name__ == "ResNet":
            part.register_forward_pre_hook(lambda _, images: (images[0].double(),))
    optimiser = make_optimiser(config.optimiser, module.parameters(), lr=config.learning_rate)
    return Training(network, optimiser, ImageSet(pixels), config.make_correction(), build_plan(config, IMAGES))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("correction", ["plain", "oracle"])
def test_image_frameworks_name_their_samples(registered: None, framework: str, correction: str) -> None:
    """Which sample each anchor and each unlabelled one is; what leaves out pairs is another thing."""
    training = make_image_training(framework, correction=correction, settings={})
    training.labels = torch.arange(IMAGES) % 3 if correction == "oracle" else None
    training.advance()
    batch = training._batch()
    for pairs in training.framework.pairs(batch):
        queries, keys = pairs.sample_ids()
        assert torch.equal(queries, batch.ids.repeat(len(pairs.query) // len(batch.ids)))
        assert keys.shape == (pairs.shape[1],)
        assert ((keys >= 0) & (keys < IMAGES)).all()
        if framework == "simclr":
            assert torch.equal(keys, queries)
            assert pairs.period == (0 if correction == "oracle" else len(batch.ids))  # Left out by place: quicker.
        if framework == "cmc":
            assert isinstance(training.framework, CMC)
            entries = [bank.entries[keys] for bank in (training.framework.colour_bank, training.framework.light_bank)]
            assert any(torch.allclose(pairs.key, each) for each in entries)


def test_graphs_name_their_samples() -> None:
    config = small_run("plain")
    task = GraphTask(config)
    training = make_training(config, build_framework(config, task.shape), task)
    batch = training._batch()
    (pairs,) = training.framework.pairs(batch)
    queries, keys = pairs.sample_ids()
    assert torch.equal(keys, batch.ids)
    assert torch.equal(queries, batch.ids[batch.samples.graph_of])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_goes_on_bit_by_bit(registered: None, framework: str, tmp_path: Path) -> None:
    whole, first, second = (make_image_training(framework, epochs=3) for _ in range(3))
    for _ in range(9):
        whole.advance()
    for _ in range(5):
        first.advance()
    torch.save(first.state(), tmp_path / "state")
    second.load(torch.load(tmp_path / "state", weights_only=True))
    for _ in range(4):
        second.advance()
    one, other = whole.state(), second.state()
    assert one["correction"].keys() == {"threshold", "above", "histogram"}
    assert one["correction"]["threshold"].unique().numel() > 5
    for part in ("framework", "correction"):
        assert all(torch.equal(value, other[part][name]) for name, value in one[part].items())
    assert one["tally"] == other["tally"]


@pytest.mark.parametrize("framework", ["simclr", "infograph"])
def test_the_command_trains_it_and_goes_on(
    registered: None, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings of every type reach the run, and a stopped run ends where one in one go ends."""
    if framework == "simclr":
        data = str(save_pictures(tmp_path / "pictures.npz", 60, 8))
        options = ["--batch-size=12", "--dim=8"]
    else:
        data, options = "shapes", ["--limit=44", "--batch-size=22", "--hidden=8", "--layers=2", "--probes=knn"]
    command = ["train", framework, data, "--epochs=2", *options, "--correction=learning"]
    command += ["--quantile=0.3", "--form=hard", "--attract", "--bins=5", "--first=0.5"]
    assert pucl_command([*command, "--out", str(tmp_path / "whole")]) == 0
    with monkeypatch.context() as context:
        context.setattr("pucl.runs.display.Display.step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert pucl_command([*command, "--out", str(tmp_path / "stopped")]) == 143
    assert pucl_command([*command, "--out", str(tmp_path / "stopped"), "--resume"]) == 0
    whole, stopped = (RunDirectory(tmp_path / name) for name in ("whole", "stopped"))
    config: RunConfig = whole.config()
    assert config.settings == {"quantile": 0.3, "form": "hard", "attract": True, "bins": 5, "first": 0.5}
    assert config.make_correction() == Learning(quantile=0.3, form="hard", attract=True, bins=5, first=0.5)
    assert stopped.config() == config
    assert config.as_json() == read_config(json.loads(json.dumps(config.as_json()))).as_json()
    weights = [(each.path / "encoder.safetensors").read_bytes() for each in (whole, stopped)]
    assert weights[0] == weights[1]
    names = ("loss", "tau_plus")
    assert [[line[name] for name in names] for line in whole.history()] == [
        [line[name] for name in names] for line in stopped.history()
    ]


def test_settings_of_corrections_in_the_table(tmp_path: Path) -> None:
    """Ring's `rescale`, a boolean, is an option as well."""
    data = save_pictures(tmp_path / "pictures.npz", 40, 8)
    command = ["train", "simclr", str(data), "--epochs=1", "--batch-size=12", "--dim=8", "--correction=ring"]
    assert pucl_command([*command, "--upper=0.5", "--rescale", "--out", str(tmp_path / "run")]) == 0
    assert RunDirectory(tmp_path / "run").config().settings == {"upper": 0.5, "rescale": True}
    with pytest.raises(ValueError, match="'rescale' should be true or false, got 0.5"):
        recipe("simclr", "none", correction="ring", settings={"rescale": 0.5})
    with pytest.raises(ValueError, match="'beta' should be a number, got 'much'"):
        recipe("simclr", "none", correction="oracle", settings={"beta": "much"})
    assert recipe("simclr", "none", correction="oracle", settings={"beta": 1}).make_correction() == Hard(
        tau_plus=0.0, beta=1.0
    )


# In several processes.


def train_together() -> dict[str, Any]:
    """First steps of each framework: losses, and the state of the correction in the end."""
    report = {}
    for framework in FRAMEWORKS:
        training = make_image_training(framework, epochs=4)
        losses = []
        for _ in range(8):
            before = training.tally.sums.get("loss", 0.0)
            training.advance()
            losses.append(training.tally.sums.get("loss", 0.0) - before)
        assert training.learnt is not None
        state = {name: value.tolist() for name, value in training.learnt.state_dict().items()}
        report[framework] = {"losses": losses, "state": state, "tau_plus": training.tally.means()["tau_plus"]}
    report["loss"] = lose_together()
    return report


def lose_together() -> dict[str, Any]:
    """The loss for anybody's loop, each process with its part of the batch."""
    loss, losses = make_loss(gather_distributed=True), []
    for seed in range(4):
        views, ids = some_views(seed)
        rows = slice(0, 5) if processes.rank() == 0 else slice(5, 8)
        rows = rows if processes.world_size() > 1 else slice(0, 8)
        losses.append(loss(*(view.double()[rows] for view in views), ids=ids[rows]).item())
    assert loss.learnt is not None
    assert loss.last is not None
    state = {name: value.tolist() for name, value in loss.learnt.state_dict().items()}
    return {"losses": losses, "state": state, "tau_plus": float(loss.last.tau_plus)}


TESTS = Path(__file__).resolve().parents[1]
PROGRAM = f"""
import sys
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS / "corrections")!r}]
import test_stateful
test_stateful.main(sys.argv[1:])
"""


def main(arguments: Sequence[str]) -> None:
    """Join a world, train each framework in it, and print what came of it as JSON."""
    number, count, meeting, seconds = arguments
    register(pytest.MonkeyPatch())
    patience = timedelta(seconds=float(seconds))
    with processes.gloo_world(Path(meeting), number=int(number), count=int(count), timeout=patience):
        json.dump(train_together(), sys.stdout)


@pytest.mark.slow
def test_two_processes_learn_as_one(registered: None) -> None:
    reports = [json.loads(text) for text in doctor.run_together(["-c", PROGRAM], 2)]
    one = train_together()
    for name, alone in one.items():
        assert reports[0][name]["state"] == reports[1][name]["state"]  # Bit by bit.
        assert reports[0][name]["tau_plus"] == reports[1][name]["tau_plus"]
        assert reports[0][name]["losses"] == pytest.approx(alone["losses"], rel=1e-6)
        assert reports[0][name]["tau_plus"] == pytest.approx(alone["tau_plus"], rel=1e-6)
        assert alone["tau_plus"] > 0
        for part, values in alone["state"].items():
            assert reports[0][name]["state"][part] == pytest.approx(values, rel=1e-6, abs=1e-9)
            assert len(set(values)) > 2
