"""GloFND: a threshold for each sample, learnt step by step, saved and the same in all processes."""

import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from examples import related_views
from golden_cases import golden_arrays, golden_cases
from image_trainings import FRAMEWORKS, learn_in, make_image_training, resume_bit_by_bit
from pucl import GloFNDLoss
from pucl.cli import main as pucl_command
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import Pairs
from pucl.corrections import GloFND, Plain
from pucl.corrections.glofnd import GloFNDState
from pucl.functional import corrected_loss, pair_up
from pucl.runs.directory import RunDirectory
from small_runs import save_pictures
from worlds import results_together

both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
both_objectives = pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
pytestmark = pytest.mark.usefixtures("small_tiles")

SAMPLES = 20
DROPPING = GloFND(dropped=0.3, wait=0)


@both_ways
@pytest.mark.parametrize("case", golden_cases("glofnd"))
def test_the_reference_step_by_step(case: dict[str, Any], streaming: bool) -> None:
    arrays, hyper, tolerance = golden_arrays(case), case["hyper"], case["tolerance"]
    correction = GloFND(dropped=hyper["alpha"], threshold_rate=hyper["lr_lda"], wait=hyper["lda_start"])
    loss = GloFNDLoss(SAMPLES, temperature=hyper["temperature"], streaming=streaming)
    state = correction.start(SAMPLES)
    loss.learnt = state
    state.threshold.copy_(arrays["lda0"][:, 0])
    if hyper["init_quantile"]:  # In the first step, which is in the epoch `start_update`.
        state.threshold[arrays["index"][0]] = math.inf
    for step, ids in enumerate(arrays["index"]):
        state.epochs.fill_(step + 1)
        views = [arrays[name][step].clone().requires_grad_() for name in ("Z1", "Z2")]
        value = 2 * loss(*views, ids=ids)  # The reference adds the two views' losses.
        value.backward()
        assert loss.last is not None
        assert loss.last.floored == 0
        found = [value.detach(), views[0].grad, views[1].grad, state.threshold, state.first, state.second]
        wanted = [arrays["losses"][step], arrays["grad_Z1"][step], arrays["grad_Z2"][step]]
        wanted += [arrays[f"{name}_after"][step, :, 0] for name in ("lda", "m", "v")]
        torch.testing.assert_close(found, wanted, rtol=tolerance["rtol"], atol=tolerance["atol"])


def make_pairs(seed: int) -> Pairs:
    torch.manual_seed(seed)
    samples = torch.randperm(SAMPLES)
    query, positive = related_views(7, 5)
    unlabelled = torch.randn(13, 5, dtype=torch.float64)
    return pair_up(query, positive, unlabelled, query_ids=samples[:7], unlabelled_ids=samples[7:])


@torch.no_grad()
def moved_state(correction: GloFND, steps: int = 8) -> GloFNDState:
    state = correction.start(SAMPLES)
    for step in range(steps):
        pairs = make_pairs(step)
        state.commit(pairs.query_samples, state.see(pairs))
    state.end_epoch()
    return state


@both_objectives
def test_what_is_above_the_threshold_is_left_out(objective: ObjectiveName) -> None:
    state, pairs = moved_state(DROPPING), make_pairs(9)
    reading = state.read(pairs)
    outcomes = [corrected_loss(pairs, reading, objective=objective, streaming=way) for way in (False, True)]
    torch.testing.assert_close(outcomes[0].loss, outcomes[1].loss)
    state.commit(pairs.query_samples, state.see(pairs))
    comparison = pairs.comparison()
    assert pairs.query_samples is not None
    kept = comparison.unlabelled * comparison.temperature <= state.threshold[pairs.query_samples][:, None]
    assert comparison.mask is not None
    assert 0.4 < float(kept[comparison.mask].double().mean()) < 0.95
    masked = replace(pairs, mask=kept, drawn=comparison.count)
    torch.testing.assert_close(outcomes[0].loss, corrected_loss(masked, Plain(), objective=objective).loss)


@both_ways
@both_objectives
def test_gradients(streaming: bool, objective: ObjectiveName) -> None:
    """The mask has no gradient, so finite differences agree with it."""
    reading = moved_state(DROPPING).read(make_pairs(9))

    def loss(query: Tensor, key: Tensor, positive: Tensor) -> Tensor:
        again = replace(pairs, query=query, key=key, positive=positive)
        return corrected_loss(again, reading, objective=objective, streaming=streaming).loss.sum()

    pairs = make_pairs(9)
    inputs = [tensor.detach().requires_grad_() for tensor in (pairs.query, pairs.key, pairs.positive)]
    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)


def test_the_share_above_becomes_what_is_asked_for() -> None:
    """Of a fixed distribution of similarities, about the share `dropped` lies above the thresholds in the end."""
    state = GloFND(dropped=0.2, threshold_rate=0.05).start(4)
    shares = []
    for step in range(100):
        torch.manual_seed(step)
        query, positive = related_views(4, 5)
        pairs = pair_up(
            query,
            positive,
            torch.randn(60, 5).double(),
            query_ids=torch.arange(4),
            unlabelled_ids=torch.full((60,), -1),
        )
        state.commit(pairs.query_samples, state.see(pairs))
        state.epochs += 1
        shares.append(float(state.above.mean()))
    assert sum(shares[50:]) / 50 == pytest.approx(0.2, abs=0.05)
    assert set(state.report().numbers) == {"threshold", "above"}


@both_ways
def test_without_a_share_or_while_it_waits_it_is_plain(streaming: bool) -> None:
    for correction in (GloFND(dropped=0.0, wait=0), GloFND(dropped=0.5, wait=2)):
        pairs = make_pairs(9)
        reading, plain = moved_state(correction).read(pairs), corrected_loss(pairs, Plain(), streaming=streaming)
        assert torch.equal(corrected_loss(pairs, reading, streaming=streaming).loss, plain.loss)
    state = moved_state(GloFND(dropped=0.5, wait=2))
    assert "left out from epoch 3 on" in state.report().sentence
    state.end_epoch()
    assert (corrected_loss(pairs, state.read(pairs)).loss != plain.loss).any()
    assert state.report().sentence.endswith("of an anchor's samples")
    assert GloFND().start(3).report().sentence == "no sample has a threshold yet"


def test_masked_samples_do_not_count() -> None:
    state, pairs = GloFND(dropped=0.3, wait=0).start(SAMPLES), make_pairs(2)
    kept = torch.arange(13) % 2 == 0
    masked = replace(pairs, mask=kept.expand(7, 13))
    assert pairs.key_ids is not None
    assert pairs.key_samples is not None
    fewer = replace(pairs, key=pairs.key[kept], key_ids=pairs.key_ids[kept], key_samples=pairs.key_samples[kept])
    torch.testing.assert_close(state.see(masked), state.see(fewer))
    expected = torch.quantile(fewer.comparison().unlabelled * 0.5, 0.7, dim=1)
    torch.testing.assert_close(state.see(fewer)[:, 1], expected)


def test_wrong_settings_and_missing_ids_are_refused() -> None:
    for settings, words in (
        ({"dropped": 1.0}, "0 <= dropped < 1, got 1.0"),
        ({"threshold_rate": 0.0}, "expected above 0"),
        ({"wait": -1}, "expected 0 or more, got -1"),
    ):
        with pytest.raises(ValueError, match=words):
            GloFND(**settings)
    with pytest.raises(ValueError, match="expected their number, got none; pass samples="):
        GloFND().start(None)
    with pytest.raises(ValueError, match="pass ids="):
        GloFNDLoss(8)(*related_views(4, 3))


# Trained by the loop.

TRAINED: dict[str, Any] = {"correction": "glofnd", "settings": {"dropped": 0.3, "wait": 1}}


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_is_resumed_bit_by_bit(framework: str, tmp_path: Path) -> None:
    state = resume_bit_by_bit(lambda: make_image_training(framework, epochs=4, **TRAINED), tmp_path)
    assert state["correction"]["threshold"].unique().numel() > 3


@pytest.mark.slow
def test_the_command_trains_is_killed_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = save_pictures(tmp_path / "pictures.npz", 40, 8)
    command = ["train", "simclr", str(data), "--epochs=2", "--batch-size=12", "--dim=8", "--correction=glofnd"]
    command += ["--dropped=0.2", "--wait=1", "--probes=knn"]
    assert pucl_command([*command, "--out", str(tmp_path / "whole")]) == 0
    with monkeypatch.context() as context:
        context.setattr("pucl.runs.display.Display.step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert pucl_command([*command, "--out", str(tmp_path / "stopped")]) == 143
    assert pucl_command([*command, "--out", str(tmp_path / "stopped"), "--resume"]) == 0
    whole, stopped = (RunDirectory(tmp_path / name) for name in ("whole", "stopped"))
    assert whole.config().make_correction() == GloFND(dropped=0.2, wait=1)
    weights = [(each.path / "encoder.safetensors").read_bytes() for each in (whole, stopped)]
    assert weights[0] == weights[1]
    result = whole.result()
    assert result is not None
    assert 0 < result["correction.above"] < 1
    assert result["correction.report"].startswith("similarities above ")


# In several processes.


def train_together() -> dict[str, Any]:
    """MoCo with equal parts of each batch, of which 1, 2 and 3 processes have the same number."""
    changes = {"moco": {"batch_size": 24, "splits": 6}}
    return {framework: learn_in(framework, **TRAINED, **changes.get(framework, {})) for framework in FRAMEWORKS}


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_many_processes_learn_as_one(count: int) -> None:
    reports = results_together(__file__, "train_together", count)
    for name, alone in train_together().items():
        assert all(report[name]["state"] == reports[0][name]["state"] for report in reports)  # Bit by bit.
        assert reports[0][name]["losses"] == pytest.approx(alone["losses"], rel=1e-5)
        for part, values in alone["state"].items():
            assert reports[0][name]["state"][part] == pytest.approx(values, rel=1e-4, abs=1e-5)
        assert len(set(alone["state"]["threshold"])) > 3
