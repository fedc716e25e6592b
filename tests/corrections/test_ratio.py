"""Ratio: plain until it knows enough, the true posterior where positives are real pairs, and a state like any other."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from examples import related_views
from image_trainings import FRAMEWORKS, make_image_training, resume_bit_by_bit
from pucl import NTXentLoss, RatioLoss, processes
from pucl.cli import main as pucl_command
from pucl.contrast.pairs import Pairs
from pucl.contrast.pointwise import PointwiseTable, bins_of
from pucl.corrections import Plain, Ratio
from pucl.corrections.ratio import BINS, RatioState
from pucl.functional import corrected_loss, pair_up, pair_views
from pucl.runs.directory import RunDirectory
from small_runs import save_pictures
from worlds import results_together

both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
small_tiles = pytest.mark.usefixtures("small_tiles")

CLASSES, DIM = 5, 12


def real_pairs(batch: int, seed: int) -> tuple[list[Tensor], Tensor]:
    """Two different samples of one class for each row: SCAR holds. The last result are the classes."""
    generator = torch.Generator().manual_seed(seed)
    centres = 1.2 * torch.eye(CLASSES, DIM, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (batch,), generator=generator)
    noise = 0.3 * torch.randn(2, batch, DIM, dtype=torch.float64, generator=generator)
    return [centres[labels] + noise[0], centres[labels] + noise[1]], labels


@torch.no_grad()
def trained_state(settings: Ratio, steps: int = 12, batch: int = 60) -> RatioState:
    state = settings.start(None)
    for step in range(steps):
        pairs = pair_views(real_pairs(batch, step)[0])
        state.commit(None, state.see(pairs))
    return state


def reading_of(state: RatioState, pairs: Pairs) -> PointwiseTable:
    reading = state.read(pairs)
    assert isinstance(reading, PointwiseTable)
    return reading


@small_tiles
@both_ways
def test_plain_to_the_bit_until_enough_was_counted(streaming: bool) -> None:
    loss, plain = RatioLoss(tau_plus=0.2, warm_up=60, streaming=streaming), NTXentLoss(streaming=streaming)
    for step in range(5):
        views = [view.requires_grad_() for view in real_pairs(10, step)[0]]
        values = [each(*views) for each in (loss, plain)]
        gradients = [torch.autograd.grad(value, views) for value in values]
        same = torch.equal(values[0], values[1]) and torch.equal(gradients[0][0], gradients[1][0])
        assert same == (step < 3)  # Twenty positives in each step.
        assert (loss.tau_plus > 0) == (step >= 3)
        report = loss.end_epoch()
        assert report is not None
        if step < 2:
            assert report.sentence == f"nothing is corrected yet: {20 * (step + 1)} of 60 positives were counted"
        assert (report.numbers["removed"] > 0) == (step >= 3)
    assert report is not None
    assert "of plain's sum was removed, at tau' 0.2 (given)" in report.sentence
    assert 0 < report.numbers["removed"] <= 0.5


def test_real_pairs_give_the_posterior_and_tau_plus() -> None:
    """r is what labels say, in every tenth of the pairs, and the estimate of tau' is right."""
    given, estimated = (trained_state(Ratio(tau_plus=tau)) for tau in (1 / CLASSES, None))
    assert float(estimated.tau_plus) == pytest.approx(1 / CLASSES, abs=0.05)
    views, labels = real_pairs(200, 99)
    pairs = pair_views(views)
    comparison = pairs.comparison()
    assert comparison.mask is not None
    same = (labels.repeat(2)[:, None] == labels.repeat(2)[None])[comparison.mask]
    for state in (given, estimated):
        r = reading_of(state, pairs).hidden(comparison)[comparison.mask]
        assert float(((r - same.double()) ** 2).mean()) < 0.5 * float(same.double().var())
        for low in (0.0, 0.3, 0.7):
            part = (r >= low) & (r <= low + 0.3)
            assert float(r[part].mean()) == pytest.approx(float(same[part].double().mean()), abs=0.12)
        assert (state.table.diff() >= 0).all()


def test_augmentations_are_too_close() -> None:
    """Documented: where two views are far more alike than two samples of a class, the estimate is far too low."""
    state = Ratio(warm_up=100).start(None)
    for step in range(10):
        first, _ = real_pairs(60, step)[0]
        state.commit(None, state.see(pair_views([first, first + 0.15 * torch.randn(60, DIM, dtype=torch.float64)])))
    assert 0 < float(state.tau_plus) < 0.25 / CLASSES
    state.end_epoch()
    assert state.report().sentence.endswith("(estimated)")


def test_an_encoder_that_does_not_separate_is_left_alone() -> None:
    state = Ratio(warm_up=100).start(None)
    for _ in range(10):
        pairs = pair_views([torch.randn(60, DIM), torch.randn(60, DIM)])
        state.commit(None, state.see(pairs))
    assert float(state.tau_plus) > 0.5
    assert isinstance(state.read(pairs), Plain)
    assert state.report().sentence.startswith("nothing is corrected: the encoder does not separate positives")
    zero = trained_state(Ratio(tau_plus=0.0))
    assert isinstance(zero.read(pairs), Plain)
    assert "no unlabelled pair looks like a positive" in zero.report().sentence


def test_every_pair_is_counted_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against loops: positives always, every third unlabelled sample in a step, all of them after three steps."""
    monkeypatch.setattr("pucl.corrections.ratio.SEEN", 6)
    query, positive = related_views(7, 5)
    pairs = pair_up(query, positive, torch.randn(17, 5, dtype=torch.float64), mask=torch.rand(7, 17) > 0.2)
    state = Ratio(half_life=10**9).start(None)
    for _ in range(3):
        state.commit(None, state.see(pairs))
    comparison, expected = pairs.comparison(), [[0] * BINS, [0] * BINS]
    for similarity in (comparison.positive * comparison.temperature).flatten().tolist():
        expected[0][min(int((similarity + 1) / 2 * BINS), BINS - 1)] += 3
    assert comparison.mask is not None
    for similarity in (comparison.unlabelled * comparison.temperature)[comparison.mask].tolist():
        expected[1][min(int((similarity + 1) / 2 * BINS), BINS - 1)] += 1
    torch.testing.assert_close(state.positive, torch.tensor(expected[0]).double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(state.unlabelled, torch.tensor(expected[1]).double(), rtol=1e-6, atol=0)
    assert state.removed[2] == 21


def test_older_counts_weigh_less() -> None:
    state = Ratio(half_life=20).start(None)
    pairs = pair_views(real_pairs(10, 0)[0])
    seen = state.see(pairs)
    state.commit(None, seen)
    first = state.positive.clone()
    state.commit(None, seen)
    torch.testing.assert_close(state.positive, 1.5 * first)


@small_tiles
def test_what_is_seen_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    state, pairs = trained_state(Ratio(tau_plus=0.2)), pair_views(real_pairs(20, 3)[0])
    in_blocks = state.see(pairs)
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 1 << 20)
    torch.testing.assert_close(state.see(pairs), in_blocks)
    twice = state.see(replace(pairs, copies=torch.full((40,), 2.0)))
    torch.testing.assert_close(twice, 2 * in_blocks)


def test_it_removes_hidden_positives_and_the_oracle_is_closer() -> None:
    """The weighted mean is closer to the oracle's than plain's is, for nearly every anchor."""
    state, (views, labels) = trained_state(Ratio(tau_plus=1 / CLASSES)), real_pairs(80, 50)
    pairs = pair_views(views, temperature=0.3)
    same = labels.repeat(2)
    oracle = replace(pairs, mask=same[:, None] != same[None])
    outcomes = [
        corrected_loss(each, correction)
        for each, correction in ((pairs, reading_of(state, pairs)), (pairs, Plain()), (oracle, Plain()))
    ]
    assert all(outcome.floored == 0 for outcome in outcomes)
    counts = [158.0, 158.0, oracle.comparison().count]
    ours, plain, truth = (
        torch.expm1(outcome.loss).log() - torch.as_tensor(count, dtype=torch.float64).log()
        for outcome, count in zip(outcomes, counts, strict=True)
    )
    assert ((ours - truth).abs() < (plain - truth).abs()).double().mean() > 0.9
    assert ((plain - ours) <= math.log(2) + 1e-9).all()


@small_tiles
def test_the_gradient_is_that_before_the_state_moved() -> None:
    gradients = []
    for streaming in (False, True):
        loss = RatioLoss(tau_plus=0.2, warm_up=10, streaming=streaming)
        for step in range(4):
            views = [view.requires_grad_() for view in real_pairs(10, step)[0]]
            loss(*views).backward()
        gradients.append([view.grad for view in views])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_refused() -> None:
    with pytest.raises(ValueError, match="tau_plus is the share .*: expected 0 <= tau_plus < 1, or None, got 1.0"):
        Ratio(tau_plus=1.0)
    with pytest.raises(ValueError, match="warm_up is the positives to count first: expected at least 1, got 0"):
        Ratio(warm_up=0)
    with pytest.raises(ValueError, match="half_life"):
        Ratio(half_life=0)
    assert "tau'=0" in repr(RatioLoss())


# Trained by the loop.


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_is_resumed_bit_by_bit(framework: str, tmp_path: Path) -> None:
    settings = {"tau_plus": 0.2, "warm_up": 20}
    state = resume_bit_by_bit(
        lambda: make_image_training(framework, correction="ratio", settings=settings, epochs=4), tmp_path
    )
    assert state["correction"]["table"].any()
    assert state["correction"]["last"].all()  # Something was removed.


@pytest.mark.parametrize("framework", ["simclr", "infograph"])
def test_the_command_reports_what_is_removed(framework: str, tmp_path: Path) -> None:
    if framework == "simclr":
        data, options = str(save_pictures(tmp_path / "pictures.npz", 60, 8)), ["--batch-size=12", "--dim=8"]
    else:
        data, options = "shapes", ["--limit=44", "--batch-size=22", "--hidden=8", "--layers=2"]
    command = ["train", framework, data, "--epochs=2", *options, "--probes=knn", "--correction=ratio"]
    assert pucl_command([*command, "--tau-plus=0.2", "--warm-up=20", "--out", str(tmp_path / "run")]) == 0
    run = RunDirectory(tmp_path / "run")
    assert run.config().make_correction() == Ratio(tau_plus=0.2, warm_up=20)
    last, result = run.history()[-1], run.result()
    assert last["correction.tau_plus"] == 0.2
    assert 0 < last["correction.removed"] <= 0.5
    assert 0 < last["correction.hidden"] < 0.5
    assert result is not None
    assert result["correction.report"].endswith("of plain's sum was removed, at tau' 0.2 (given)")


# In several processes.


def lose_together() -> dict[str, Any]:
    """The loss for anybody's loop, each process with its part of the batch, with and without a queue."""
    report = {}
    for bank in (0, 24):
        loss = RatioLoss(warm_up=40, memory_bank_size=bank, gather_distributed=True)
        losses = []
        for step in range(6):
            part = torch.arange(13).tensor_split([5, 9] if processes.world_size() == 3 else [6])
            rows = part[processes.rank()] if processes.world_size() > 1 else torch.arange(13)
            losses.append(loss(*(view[rows].requires_grad_() for view in real_pairs(13, step)[0])).item())
        ended = loss.end_epoch()
        assert ended is not None
        assert loss.learnt is not None
        state = {name: value.flatten().tolist() for name, value in loss.learnt.state_dict().items()}
        report[str(bank)] = {"losses": losses, "state": state, "numbers": dict(ended.numbers)}
    return report


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_processes_count_as_one(count: int) -> None:
    reports = results_together(__file__, "lose_together", count)
    for bank, alone in lose_together().items():
        for report in reports[1:]:
            assert report[bank]["state"] == reports[0][bank]["state"]  # Bit by bit.
        assert reports[0][bank]["losses"] == pytest.approx(alone["losses"], rel=1e-9)
        assert reports[0][bank]["numbers"] == pytest.approx(alone["numbers"], rel=1e-9)
        assert alone["numbers"]["removed"] > 0
        for name, values in alone["state"].items():
            assert reports[0][bank]["state"][name] == pytest.approx(values, rel=1e-9, abs=1e-12)


def test_bins_are_those_of_the_table() -> None:
    comparison = pair_views(real_pairs(4, 0)[0]).comparison()
    r = PointwiseTable(table=torch.linspace(0, 1, BINS).double()).hidden(comparison)
    assert torch.equal((r * (BINS - 1)).round().long(), bins_of(comparison.unlabelled, comparison, BINS))
