"""The benchmark of training: that it measures what it says. How fast anything is, no test says."""

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
from benchmarks import views as views_benchmark
from benchmarks.__main__ import main
from benchmarks.memory import Peak
from benchmarks.timing import FEWEST, MOST, Spread
from benchmarks.train import BareEncoder, BareLoss, Settings, Witness, make_steps, make_training, witness_step
from benchmarks.train_report import train_sentences
from benchmarks.views import ViewsCost
from pucl.contrast.compare import compare
from pucl.training.loop import Training

CONTENDERS = {"step", "encoder", "encoder_plain_format", "views", "loss", "optimiser"}


def run_bench(tmp_path: Path, *options: str) -> dict[str, Any]:
    """What `python -m benchmarks train` writes with these options."""
    out = tmp_path / "figures.json"
    quickly = ["--encoders=small", "--batch-size=4", "--size=8", "--seconds=0.02", "--threads=1"]
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


# The record


def test_record_has_every_part_of_every_framework(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    record = run_bench(tmp_path, "--frameworks=simclr,moco,cmc", "--no-memory")
    assert [(row["framework"], row["encoder"]) for row in record["rows"]] == [
        ("simclr", "small"),
        ("moco", "small"),
        ("cmc", "small"),
    ]
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
    assert views["speedup"]["median"] > views["lean_speedup"]["median"] > 0


def test_record_says_how_it_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run_bench(tmp_path, "--no-memory", "--no-views")
    assert record["command"].startswith(
        "python -m benchmarks train --encoders=small --frameworks=simclr --batch-size=4 --size=8 --threads=1 "
        "--seconds=0.02 --no-memory --no-views --out="
    )
    assert record["versions"]["torch"] == torch.__version__
    assert record["machine"]["threads"] == 1
    assert (record["views"], record["views_missing"]) == ([], None)
    printed = capsys.readouterr()
    assert "1 of 1: simclr with small at batch 4" in printed.err
    assert printed.out.splitlines()[3].split()[:3] == ["simclr", "small", "4"]
    assert "A step of simclr with small takes" in printed.out
    words = record["command"].split()[4:-1]
    assert run_bench(tmp_path, *words)["settings"] == record["settings"]


def test_without_pillow_views_are_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else find(name))
    record = run_bench(tmp_path, "--no-memory")
    assert record["views"] == []
    assert "not installed" in record["views_missing"]
    assert "Not run: views are timed against Pillow" in capsys.readouterr().out


def test_all_threads_and_one_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    asked: list[int | None] = []

    def measured(batch: int, size: int, *, seconds: float, threads: int | None) -> ViewsCost:
        asked.append(threads)
        return views_benchmark.measure_views(batch, size, seconds=seconds, threads=1)

    monkeypatch.setattr(train, "measure_views", measured)
    settings = Settings(batch_size=4, size=8, threads=3, seconds=0.01)
    costs, missing = train._measure_views(settings, lambda _: None)
    assert asked == [1, 3]
    assert [cost.batch for cost in costs] == [4, 4]
    assert missing is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are measured on Linux alone")
def test_peaks_come_from_fresh_processes(tmp_path: Path) -> None:
    (row,) = run_bench(tmp_path, "--batch-size=32", "--size=32", "--no-views")["rows"]
    peaks = {name: figures["peak"] for name, figures in row["contenders"].items()}
    assert {name for name, peak in peaks.items() if peak is not None} == {"step", "encoder"}
    # At least what the first stage keeps of both views: four planes of activations of 32 channels each.
    assert min(peaks["step"]["bytes"], peaks["encoder"]["bytes"]) > 4 * 2 * 32 * 32 * 32 * 32 * 4
    assert peaks["step"]["missing"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoders", "resnet19"], "'resnet19' is no encoder: .* Did you mean 'resnet18'"),
        (["--encoders", ""], "encoders are what is measured: expected different names, got none$"),
        (["--encoders", "small,small"], "expected different names, got small, small$"),
        (["--frameworks", "byol"], "'byol' is no framework: expected one of simclr, moco, cmc"),
        (["--frameworks", ""], "frameworks are what is measured: expected different names, got none$"),
        (["--batch-size", "3"], "batch_size is the number of images in a step: expected at least 4, got 3$"),
        (["--size", "2"], "size is the side of the images in pixels: expected at least 4, got 2$"),
        (["--threads", "0"], "threads is how many cores torch may use: expected at least 1, got 0$"),
        (["--seconds", "0"], "seconds is about how long .* got 0.0$"),
        (["--out", "/no/such/directory/figures.json"], "out is the file for the figures: .* got /no/such/directory"),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("benchmarks train: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(line)


def test_aim_is_that_of_its_case() -> None:
    figures: dict[str, Any] = {"contenders": {}, "ratios": {}, "rounds": 3, "images_per_second": 1.0}
    case: dict[str, Any] = {"framework": "simclr", "encoder": "resnet18", "batch": 256, "size": 32}
    assert train.Row(**case, **figures).aim == 1.15
    for other in ({"batch": 128}, {"size": 64}, {"framework": "moco"}, {"encoder": "resnet50"}):
        assert train.Row(**(case | other), **figures).aim is None


def test_missing_peak_and_aim_are_told() -> None:
    spread = Spread(lower_quartile=1.0, median=1.1, upper_quartile=1.2)
    peak = Peak(bytes=None, missing="it ended with 1")
    row = train.Row(
        framework="simclr",
        encoder="small",
        batch=256,
        size=32,
        rounds=3,
        images_per_second=100.0,
        contenders={"step": train.Figures(milliseconds=spread, nanoseconds_by_round=[1], peak=peak)},
        ratios={"step/encoder": spread},
    )
    machine: dict[str, object] = {"load_average_before": 0.0, "cores": 2}
    sentences = train_sentences(train.Report(versions={}, machine=machine, rows=[row], views=[], views_missing=None))
    assert sentences == [
        "A step of simclr with small takes 1.10 (1.00-1.20) times as long as the bare encoder; the aim is 1.35 at "
        "most.",
        "No peak of simclr with small: it ended with 1.",
    ]


# What is measured


@pytest.mark.parametrize(("framework", "trained", "watched"), [("simclr", 2, 0), ("moco", 4, 4), ("cmc", 2, 0)])
def test_bare_encoder_does_what_the_step_did(
    framework: str, trained: int, watched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of MoCo's batch of eight there are four parts, for queries and for keys."""
    monkeypatch.setattr(train, "LEARNING_RATE", 1e-30)  # The step shall not move what its gradients are of.
    witness = witness_step(training_of(framework, batch_size=8, size=16))
    gradients = [call.gradient is not None for call in witness.calls]
    assert (sum(gradients), len(gradients) - sum(gradients)) == (trained, watched)
    encoders = {call.encoder for call in witness.calls if call.gradient is not None}
    parameters = [parameter for encoder in encoders for parameter in encoder.parameters()]
    of_step = [parameter.grad for parameter in parameters]
    assert all(gradient is not None for gradient in of_step)
    bare = BareEncoder(witness.calls)
    # Batch norms of few numbers magnify rounding, and another format rounds otherwise.
    for run, tolerance in ((bare.run, 1e-4), (bare.run, 1e-4), (lambda: bare.run_in(torch.contiguous_format), 0.05)):
        run()
        for parameter, expected in zip(parameters, of_step, strict=True):
            assert parameter.grad is not None
            assert expected is not None
            assert (parameter.grad - expected).norm() <= tolerance * expected.norm() + 1e-6
    assert all(getattr(encoder, "memory_format") == torch.channels_last for encoder in encoders)  # noqa: B009


def test_witness_is_no_obstacle() -> None:
    """A step that is watched moves the weights as one that is not."""
    watched, alone = training_of("simclr"), training_of("simclr")
    witness_step(watched)
    alone.advance()
    for one, two in zip(watched.module.parameters(), alone.module.parameters(), strict=True):
        assert torch.equal(one, two)
    assert not any(module._forward_hooks for module in watched.module.modules())
    witness = Witness(alone.framework)
    assert witness.ready
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    witness.eval()
    assert torch.equal(witness(images), alone.module(images))


def test_bare_loss_is_forward_and_backward_of_all_comparisons() -> None:
    training = training_of("cmc")
    comparisons = witness_step(training).comparisons
    assert len(comparisons) == 2
    loss = BareLoss(comparisons, training.correction)
    loss.run()
    first = [pairs.query.grad for pairs in loss.comparisons]
    loss.run()
    for pairs, gradient, original in zip(loss.comparisons, first, comparisons, strict=True):
        assert gradient is not None
        torch.testing.assert_close(pairs.query.grad, gradient)  # Not summed up from step to step.
        assert gradient.abs().sum() > 0
        query = original.query.detach().clone().requires_grad_()
        fixed = replace(original, query=query, key=original.key.detach(), positive=original.positive.detach())
        compare(fixed, training.correction).loss.mean().backward()
        torch.testing.assert_close(query.grad, gradient)
        assert pairs.key.grad is None  # Entries of a bank are no part of a graph.


def test_queue_of_moco_is_full_from_the_start() -> None:
    training = training_of("moco")
    assert training.framework.ready
    keys = training.module.get_buffer("queue.keys")
    torch.testing.assert_close(keys.norm(dim=1), torch.ones(len(keys)))


def test_steps_go_on_for_as_long_as_rounds_can() -> None:
    training = training_of("simclr")
    assert training.steps > MOST + 10
    steps = make_steps(training, 2)
    before = [parameter.detach().clone() for parameter in training.module.parameters()]
    for _ in range(2):
        for step in steps.values():
            step()
    assert training.step == 2
    after = [parameter.detach() for parameter in training.module.parameters()]
    assert all(parameter.isfinite().all() for parameter in after)
    assert max(float((one - two).abs().max()) for one, two in zip(before, after, strict=True)) < 1e-3


def test_encoders_of_the_user_have_one_format() -> None:
    training = make_training(framework="simclr", encoder=f"{__name__}:Tiny", batch_size=4, size=8)
    assert set(make_steps(training, 2)) == CONTENDERS - {"encoder_plain_format"}
