"""The benchmark of training: that it measures what it says."""

import importlib.util
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks import train
from benchmarks.__main__ import main
from benchmarks.learning import measure_learning
from benchmarks.memory import Peak
from benchmarks.report import Figures
from benchmarks.steps import repeat_loss
from benchmarks.timing import FEWEST, MOST
from benchmarks.train import BareEncoder, TrainReport, TrainRow, make_steps, make_training, take_step
from pucl.contrast.loss import outcome_of
from pucl.training.loop import Training

CONTENDERS = {"step", "encoder", "encoder_plain_format", "views", "loss", "optimiser"}


def run_bench(tmp_path: Path, *options: str) -> dict[str, Any]:
    """The record of `python -m benchmarks train` with these options."""
    out = tmp_path / "figures.json"
    quickly = ["--encoders=small", "--batch-size=4", "--size=8", "--seconds=0.02", "--threads=1", "--no-auto"]
    assert main(["train", *quickly, "--out", str(out), *options]) == 0
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def training_of(framework: str, batch_size: int = 4, size: int = 8) -> Training[Tensor]:
    return make_training(framework=framework, encoder="small", batch_size=batch_size, size=size)


class Tiny(nn.Module):
    """An encoder of the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.linear(images.mean((2, 3)))
        return features


@pytest.mark.slow
def test_record_has_every_part_of_every_framework(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL")
    record = run_bench(tmp_path, "--frameworks=simclr,moco,cmc", "--no-memory")
    assert [row["framework"] for row in record["rows"]] == ["simclr", "moco", "cmc"]
    for row in record["rows"]:
        assert set(row["contenders"]) == CONTENDERS
        assert set(row["ratios"]) == {f"{name}/encoder" for name in CONTENDERS - {"encoder"}}
        assert row["rounds"] >= FEWEST
        for figures in row["contenders"].values():
            assert 0 < figures["milliseconds"]["lower_quartile"] <= figures["milliseconds"]["upper_quartile"]
            assert figures["peak"] is None
        turns = [row["contenders"][name]["nanoseconds_by_round"] for name in ("step", "encoder")]
        by_round = [one / two for one, two in zip(*turns, strict=True) if one is not None and two is not None]
        assert row["ratios"]["step/encoder"]["median"] == pytest.approx(statistics.median(by_round))
        step = row["contenders"]["step"]["milliseconds"]["median"]
        assert row["images_per_second"] == pytest.approx(4 / step * 1000)
    (views,) = record["views"]
    assert (views["batch"], views["size"], views["threads"]) == (4, 8, 1)
    assert min(views["speedup"]["median"], views["lean_speedup"]["median"]) > 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split()[:3] == ["simclr", "small", "4"]
    assert "Views of 4 images take" in printed


def test_without_pillow_views_are_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else find(name))
    record = run_bench(tmp_path, "--no-memory")
    assert record["views"] == []
    assert "not installed" in record["views_missing"]
    assert "Not run: views are timed against Pillow" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are measured on Linux alone")
def test_peaks_come_from_fresh_processes(tmp_path: Path) -> None:
    (row,) = run_bench(tmp_path, "--batch-size=16", "--size=32", "--no-views")["rows"]
    peaks = {name: figures["peak"] for name, figures in row["contenders"].items()}
    assert {name for name, peak in peaks.items() if peak is not None} == {"step", "encoder"}
    # At least what the first stage keeps of both views: four planes of activations of 32 channels each.
    assert min(peaks["step"]["bytes"], peaks["encoder"]["bytes"]) > 4 * 2 * 16 * 32 * 32 * 32 * 4
    assert peaks["step"]["missing"] is None


def test_missing_peak_is_reported() -> None:
    step = Figures(peak=Peak(bytes=None, missing="it ended with 1"))
    row = TrainRow(
        framework="simclr",
        encoder="small",
        batch=256,
        size=32,
        rounds=3,
        images_per_second=100.0,
        contenders={"step": step},
        ratios={},
    )
    notes = TrainReport(rows=[row], learning=[], views=[], views_missing=None).notes()
    assert notes == ["simclr with small: no peak memory of step: it ended with 1."]


@pytest.mark.parametrize(("framework", "trained", "watched"), [("simclr", 2, 0), ("moco", 1, 1), ("cmc", 2, 0)])
def test_bare_encoder_repeats_the_step(
    framework: str, trained: int, watched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MoCo's encoders take all parts of a batch in one pass, queries and keys."""
    monkeypatch.setattr(train, "LEARNING_RATE", 1e-30)  # The step shall not move what its gradients are of.
    _, calls = take_step(training_of(framework, batch_size=8, size=16))
    gradients = [call.gradient is not None for call in calls]
    assert (sum(gradients), len(gradients) - sum(gradients)) == (trained, watched)
    encoders = {call.encoder for call in calls if call.gradient is not None}
    parameters = [parameter for encoder in encoders for parameter in encoder.parameters()]
    of_step = [parameter.grad for parameter in parameters]
    assert all(gradient is not None for gradient in of_step)
    bare = BareEncoder(calls)
    # Batch norms of few numbers magnify rounding, and another format rounds otherwise.
    for run, tolerance in ((bare.run, 1e-4), (bare.run, 1e-4), (lambda: bare.run_in(torch.contiguous_format), 0.05)):
        run()
        for parameter, expected in zip(parameters, of_step, strict=True):
            assert parameter.grad is not None
            assert expected is not None
            assert (parameter.grad - expected).norm() <= tolerance * expected.norm() + 1e-6
    assert all(getattr(encoder, "memory_format") == torch.channels_last for encoder in encoders)  # noqa: B009


def test_a_recorded_step_moves_the_weights_as_another() -> None:
    watched, alone = training_of("simclr"), training_of("simclr")
    take_step(watched)
    alone.advance()
    for one, two in zip(watched.framework.parameters(), alone.framework.parameters(), strict=True):
        assert torch.equal(one, two)
    assert not any(module._forward_hooks for module in watched.framework.modules())


def test_repeated_loss_is_forward_and_backward_of_all_comparisons() -> None:
    training = training_of("cmc")
    comparisons = take_step(training)[0].comparisons
    assert len(comparisons) == 2
    for pairs, original in zip(repeat_loss(comparisons, training), comparisons, strict=True):
        query = original.query.detach().clone().requires_grad_()
        fixed = replace(original, query=query, key=original.key.detach(), positive=original.positive.detach())
        outcome_of(fixed, training.correction).loss.mean().backward()
        torch.testing.assert_close(query.grad, pairs.query.grad)
        assert pairs.key.grad is None  # Entries of a bank are no part of a graph.


def test_queue_of_moco_is_full_from_the_start() -> None:
    training = training_of("moco")
    assert training.framework.ready
    keys = training.framework.get_buffer("queue.keys")
    torch.testing.assert_close(keys.norm(dim=1), torch.ones(len(keys)))


def test_there_are_steps_for_all_rounds() -> None:
    training = training_of("simclr")
    assert training.steps > MOST + 10
    steps = make_steps(training, 2)
    before = [parameter.detach().clone() for parameter in training.framework.parameters()]
    for _ in range(2):
        for step in steps.values():
            step()
    assert training.step == 3  # One of them was recorded.
    after = [parameter.detach() for parameter in training.framework.parameters()]
    assert all(parameter.isfinite().all() for parameter in after)
    assert max(float((one - two).abs().max()) for one, two in zip(before, after, strict=True)) < 1e-3


def test_encoders_of_the_user_have_one_format() -> None:
    training = make_training(framework="simclr", encoder=f"{__name__}:Tiny", batch_size=4, size=8)
    assert set(make_steps(training, 2)) == CONTENDERS - {"encoder_plain_format"}


@pytest.mark.slow
def test_what_auto_adds_is_timed_in_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--batch-size=64", "--no-memory", "--no-views", "--auto", "--epoch=3200", "--seconds=0.5"]
    (cost,) = run_bench(tmp_path, *options)["learning"]
    assert (cost["encoder"], cost["batch"], cost["samples"], cost["steps"]) == ("small", 64, 3200, 50)
    parts = {name: figures["milliseconds"]["median"] for name, figures in cost["contenders"].items()}
    assert set(parts) == {"step", "plain", "auto", "learning", "end"}
    assert all(time > 0 for time in parts.values())
    assert "The aim is 5 % at most" in " ".join(capsys.readouterr().out.split())


def test_auto_is_timed_while_it_corrects() -> None:
    """With too few samples for communities it would be plain, and cheap."""
    with pytest.raises(ValueError, match="expected enough samples in an epoch for communities, got 16"):
        measure_learning(lambda: None, encoder="small", batch=8, samples=16, seconds=0.01)
