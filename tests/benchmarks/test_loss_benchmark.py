"""The benchmark of the losses: that it measures what it says."""

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import loss as loss_benchmark
from benchmarks.__main__ import main
from benchmarks.loss import LOSSES, Peer, bare_products, make_step, make_views
from benchmarks.timing import FEWEST
from pucl.contrast.streaming import TILE
from pucl.corrections import CORRECTIONS

# One thread: several would wait for each other where tests run side by side.
QUICKLY = ["--seconds=0.02", "--dim=16", "--threads=1"]


def run_bench(tmp_path: Path, *options: str) -> dict[str, Any]:
    """The record of `python -m benchmarks loss` with these options."""
    out = tmp_path / "figures.json"
    assert main(["loss", *QUICKLY, "--out", str(out), *options]) == 0
    record: dict[str, Any] = json.loads(out.read_text())
    return record


@pytest.mark.slow
def test_every_loss_is_measured_at_every_batch_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_bench(tmp_path, "--batch-sizes=8", "--no-memory")["rows"]
    rows += run_bench(tmp_path, "--batch-sizes=16,32", "--losses=pucl", "--no-memory")["rows"]
    cases = [*((loss, 8) for loss in LOSSES), ("pucl", 16), ("pucl", 32)]
    assert [(row["loss"], row["batch"]) for row in rows] == cases
    for row in rows:
        assert row["rounds"] >= FEWEST
        assert row["floored"] < 0.5
        by_round = {}
        for name, figures in row["contenders"].items():
            by_round[name] = figures["nanoseconds_by_round"]
            turns = [turn / 1e6 for turn in by_round[name] if turn is not None]
            assert len(by_round[name]) == row["rounds"]
            assert len(turns) >= FEWEST
            assert min(turns) > 0
            assert figures["milliseconds"]["median"] == pytest.approx(statistics.median(turns))
            assert (figures["skipped"], figures["peak"]) == (None, None)
        assert {"dense/streaming", "streaming/products"} <= set(row["ratios"])
        for name, spread in row["ratios"].items():
            both = zip(*(by_round[contender] for contender in name.split("/")), strict=True)
            ratios = [one / two for one, two in both if one is not None and two is not None]
            assert spread["median"] == pytest.approx(statistics.median(ratios))
            assert spread["lower_quartile"] <= spread["median"] <= spread["upper_quartile"]
        assert ("streaming/plain" in row["ratios"]) == (row["loss"] != "plain")
        values = {name: figures["loss"] for name, figures in row["contenders"].items()}
        assert values.pop("products") is None
        assert values.pop("plain", None) is None
        assert values["dense"] > 0
        assert all(value == pytest.approx(values["dense"], rel=1e-5) for value in values.values())
    printed = capsys.readouterr()
    assert printed.err.count(" at batch ") == len(rows)  # One line of progress each.
    assert len(printed.out.split("\n\n")[0].splitlines()) == 2 + len(LOSSES)


def test_installed_peer_runs_beside_ours(tmp_path: Path) -> None:
    pytest.importorskip("pytorch_metric_learning")
    record = run_bench(tmp_path, "--batch-sizes=8,16", "--losses=plain,deb", "--no-memory", "--peer-limit=8")
    small, deb, large, _ = record["rows"]
    assert "pytorch-metric-learning" in record["versions"]
    assert small["contenders"]["pml"]["loss"] == pytest.approx(small["contenders"]["dense"]["loss"], rel=1e-5)
    assert small["ratios"]["pml/streaming"]["median"] > 0
    assert "pml" not in deb["contenders"]
    assert "above the limit of 8" in large["contenders"]["pml"]["skipped"]
    assert large["contenders"]["pml"]["milliseconds"] is None
    assert "pml/streaming" not in large["ratios"]


def test_broken_peer_is_listed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(temperature: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(loss_benchmark, "PEERS", {"broken": Peer("broken", load)})
    record = run_bench(tmp_path, "--batch-sizes=4", "--losses=plain", "--no-memory")
    assert record["absent_peers"] == {"broken": "RuntimeError: operator torchvision::nms does not exist"}
    assert "Not here: broken (RuntimeError" in capsys.readouterr().out


def test_contender_with_another_loss_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Peer("wrong", lambda _: lambda z0, z1: (z0 * z1).sum())
    monkeypatch.setattr(loss_benchmark, "PEERS", {"wrong": wrong})
    assert main(["loss", *QUICKLY, "--batch-sizes=4", "--losses=plain", "--no-memory"]) == 1
    assert "plain at batch 4: wrong gives" in capsys.readouterr().err


def test_dense_is_skipped_where_its_matrices_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loss_benchmark, "available_memory", lambda: 100_000)
    small, large = run_bench(tmp_path, "--batch-sizes=8,64", "--losses=pucl", "--no-memory")["rows"]
    assert small["contenders"]["dense"]["skipped"] is None
    assert "0.0 GB are available" in large["contenders"]["dense"]["skipped"]
    assert set(large["ratios"]) == {"streaming/products", "streaming/plain"}
    printed = capsys.readouterr().out
    assert "pucl at batch 64: dense did not run: it needs about" in printed
    assert printed.splitlines()[3].split()[2] == "-"


def test_floored_anchors_are_reported_instead_of_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--batch-sizes=8", "--losses=pucl", "--no-memory", "--temperature=0.05"]
    assert run_bench(tmp_path, *options)["rows"][0]["floored"] > 0.5
    assert "of the anchors are at the floor" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are measured on Linux alone")
def test_peaks_come_from_fresh_processes(tmp_path: Path) -> None:
    (row,) = run_bench(tmp_path, "--batch-sizes=512", "--losses=pucl")["rows"]
    peaks = {name: figures["peak"] for name, figures in row["contenders"].items()}
    assert (peaks["products"], peaks["plain"]) == (None, None)
    assert peaks["dense"]["missing"] is None
    matrix = 4 * (2 * 512) ** 2
    # Dense holds at least the logits, what they were exponentiated from, and their gradient; streaming not even one.
    assert peaks["dense"]["bytes"] > 3 * matrix
    assert 0 < peaks["streaming"]["bytes"] < 3 * matrix


def test_every_correction_has_its_loss() -> None:
    assert list(LOSSES) == [name for name in CORRECTIONS if name != "glofnd"]  # It needs the ids of samples.
    assert all(type(LOSSES[name]().correction) is CORRECTIONS[name] for name in LOSSES)


@pytest.mark.parametrize("contender", ["dense", "streaming"])
def test_a_step_is_forward_and_backward(contender: str) -> None:
    views = make_views(6, 4)
    step = make_step(contender, "pucl", views, 0.5)
    first = step()
    gradients = [view.grad for view in views]
    torch.testing.assert_close(step(), first)
    for view, gradient in zip(views, gradients, strict=True):
        assert gradient is not None
        torch.testing.assert_close(view.grad, gradient)  # Not summed up from step to step.
        assert gradient.abs().sum() > 0


def test_the_yardstick_of_a_corrected_loss_is_plain_streaming() -> None:
    views = make_views(6, 4)
    plain, streaming = (make_step(contender, "hard", views, 0.5)() for contender in ("plain", "streaming"))
    assert plain is not None
    torch.testing.assert_close(plain, make_step("streaming", "plain", views, 0.5)())
    assert plain != streaming


def test_views_are_the_same_each_time_and_alike() -> None:
    (first, second), (again, _) = make_views(64, 32), make_views(64, 32)
    torch.testing.assert_close(first, again)
    assert torch.cosine_similarity(first, second).mean() > 0.8
    assert torch.cosine_similarity(first, second.roll(1, dims=0)).mean() < 0.2


@pytest.mark.parametrize("batch", [3, TILE // 2, TILE // 2 + 5, TILE + 1])
def test_bare_products_are_those_of_the_streaming_algorithm(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    multiply = torch.mm
    calls: list[tuple[int, ...]] = []

    def counted(left: torch.Tensor, right: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        calls.append((*left.shape, right.shape[1]))
        return multiply(left, right, out=out)

    monkeypatch.setattr(torch, "mm", counted)
    bare_products(torch.randn(2 * batch, 8))()
    blocks = -(-2 * batch // TILE)
    tiles, above = blocks * (blocks + 1) // 2, blocks * (blocks - 1) // 2
    assert len(calls) == 3 * tiles + above
    # Twice the logits on and above the diagonal, and a gradient that every pair of vectors contributes to.
    heights = [min(TILE, 2 * batch - start) for start in range(0, 2 * batch, TILE)]
    upper = sum(heights[r] * heights[c] for r in range(blocks) for c in range(r, blocks))
    assert sum(a * b * c for a, b, c in calls) == 2 * upper * 8 + (2 * batch) ** 2 * 8
