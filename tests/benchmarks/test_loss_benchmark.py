"""The benchmark of the losses: that it measures what it says. How fast anything is, no test says."""

import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import loss as loss_benchmark
from benchmarks import loss_report, machine, timing
from benchmarks.__main__ import main
from benchmarks.loss import LOSSES, BareProducts, Peer, find_peers, make_step, make_views
from benchmarks.memory import available_memory, peak_in_child, peak_memory
from benchmarks.timing import FEWEST, MOST, Spread, Timings, interleave, torch_threads
from pucl.contrast.streaming import TILE
from pucl.corrections import CORRECTIONS

MEGABYTE = 10**6
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="peaks are measured on Linux alone")


def run_bench(tmp_path: Path, *options: str) -> dict[str, Any]:
    """What `python -m benchmarks loss` writes with these options."""
    out = tmp_path / "figures.json"
    # One thread: several would wait for each other where tests run side by side.
    quickly = ["--seconds", "0.02", "--dim", "16", "--threads", "1"]
    assert main(["loss", *quickly, "--out", str(out), *options]) == 0
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def ratios_by_round(row: dict[str, Any], name: str, other: str) -> list[float]:
    turns = [row["contenders"][contender]["nanoseconds_by_round"] for contender in (name, other)]
    return [one / two for one, two in zip(*turns, strict=True) if one is not None and two is not None]


# The command


def test_every_loss_is_measured_at_every_batch_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run_bench(tmp_path, "--batch-sizes", "8,32", "--no-memory")
    rows = record["rows"]
    assert [(row["loss"], row["batch"]) for row in rows] == [(loss, batch) for batch in (8, 32) for loss in LOSSES]
    for row in rows:
        assert {"dense", "streaming", "products"} <= set(row["contenders"])
        assert row["rounds"] >= FEWEST
        assert row["floored"] < 0.5
        for figures in row["contenders"].values():
            turns = [turn / 1e6 for turn in figures["nanoseconds_by_round"] if turn is not None]
            assert len(figures["nanoseconds_by_round"]) == row["rounds"]
            assert len(turns) >= FEWEST
            assert min(turns) > 0
            assert figures["milliseconds"]["median"] == pytest.approx(statistics.median(turns))
            assert (figures["skipped"], figures["peak"]) == (None, None)
    printed = capsys.readouterr()
    assert printed.err.count(" at batch ") == len(rows)  # One line of progress each.
    table = printed.out.split("\n\n")[0].splitlines()
    assert len(table) == 3 + len(rows)
    assert max(map(len, table)) <= 110
    assert "Streaming is faster than dense in" in printed.out


def test_ratios_are_what_the_rounds_say(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "--batch-sizes", "16", "--losses", "hard,pucl", "--no-memory")
    for row in record["rows"]:
        assert set(row["ratios"]) == {"dense/streaming", "streaming/products"}
        for name, spread in row["ratios"].items():
            ratios = ratios_by_round(row, *name.split("/"))
            assert spread["median"] == pytest.approx(statistics.median(ratios))
            assert spread["lower_quartile"] <= spread["median"] <= spread["upper_quartile"]


def test_contenders_compute_the_same_loss(tmp_path: Path) -> None:
    for row in run_bench(tmp_path, "--batch-sizes", "24", "--no-memory")["rows"]:
        values = {name: figures["loss"] for name, figures in row["contenders"].items()}
        assert values.pop("products") is None
        assert values["dense"] > 0
        assert all(value == pytest.approx(values["dense"], rel=1e-5) for value in values.values())


def test_record_says_how_it_was_made(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "--batch-sizes", "4", "--losses", "pucl", "--no-memory")
    assert record["command"].startswith(
        "python -m benchmarks loss --batch-sizes=4 --losses=pucl --dim=16 --temperature=0.5"
    )
    assert "--threads=1 --seconds=0.02" in record["command"]
    assert record["settings"]["batch_sizes"] == [4]
    assert record["versions"]["torch"] == torch.__version__
    assert record["machine"]["threads"] == 1
    assert record["machine"]["cores"] >= 1
    assert record["machine"]["cpu"]
    # The command in the record is itself one that runs, and gives a record of the same form.
    again = tmp_path / "again"
    again.mkdir()
    words = [word for word in record["command"].split()[4:] if not word.startswith("--out")]
    assert run_bench(again, *words)["settings"] == record["settings"]


def test_installed_peer_runs_beside_ours(tmp_path: Path) -> None:
    pytest.importorskip("pytorch_metric_learning")
    record = run_bench(tmp_path, "--batch-sizes", "8,16", "--losses", "plain,deb", "--no-memory", "--peer-limit", "8")
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

    broken = Peer(distribution="broken", loss="plain", load=load, floats=lambda batch: batch)
    monkeypatch.setitem(loss_benchmark.PEERS, "broken", broken)
    assert find_peers()[1]["broken"] == "RuntimeError: operator torchvision::nms does not exist"
    record = run_bench(tmp_path, "--batch-sizes", "4", "--losses", "plain", "--no-memory")
    assert "broken" in record["absent_peers"]
    assert "Not here: broken (RuntimeError" in capsys.readouterr().out


def test_contender_with_another_loss_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(temperature: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        return lambda z0, z1: (z0 * z1).sum()

    wrong = Peer(distribution="wrong", loss="plain", load=load, floats=lambda batch: batch)
    monkeypatch.setattr(loss_benchmark, "PEERS", {"wrong": wrong})
    monkeypatch.setattr(loss_report, "PEERS", {"wrong": wrong})
    assert main(["loss", "--batch-sizes=4", "--losses=plain", "--seconds=0.01", "--threads=1", "--no-memory"]) == 1
    assert "plain at batch 4: wrong gives" in capsys.readouterr().err


def test_dense_is_skipped_where_its_matrices_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loss_benchmark, "available_memory", lambda: 100_000)
    small, large = run_bench(tmp_path, "--batch-sizes", "8,64", "--losses", "pucl", "--no-memory")["rows"]
    assert small["contenders"]["dense"]["skipped"] is None
    assert "0.0 GB are available" in large["contenders"]["dense"]["skipped"]
    assert set(large["ratios"]) == {"streaming/products"}
    printed = capsys.readouterr().out
    assert "Not run: dense: it needs about" in printed
    assert printed.splitlines()[4].split()[2] == "-"


def test_floored_anchors_are_reported_instead_of_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--batch-sizes", "8", "--losses", "pucl", "--no-memory", "--temperature", "0.05"]
    assert run_bench(tmp_path, *options)["rows"][0]["floored"] > 0.5
    assert "of the anchors are at the floor (pucl, batch 8)" in capsys.readouterr().out


@pytest.mark.parametrize("load", [0.5, 2.5])
def test_busy_machine_is_reported(
    load: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    run_bench(tmp_path, "--batch-sizes", "4", "--losses", "pucl", "--no-memory")
    assert ("busy before the benchmark began (load 2.5 on 2 cores)" in " ".join(capsys.readouterr().out.split())) == (
        load > 1
    )


@pytest.mark.slow
@on_linux
def test_peaks_come_from_fresh_processes(tmp_path: Path) -> None:
    (row,) = run_bench(tmp_path, "--batch-sizes", "512", "--losses", "pucl")["rows"]
    peaks = {name: figures["peak"] for name, figures in row["contenders"].items()}
    assert peaks["products"] is None
    assert peaks["dense"]["missing"] is None
    matrix = 4 * (2 * 512) ** 2
    # Dense holds at least the logits, what they were exponentiated from, and their gradient; streaming not even one.
    assert peaks["dense"]["bytes"] > 3 * matrix
    assert 0 < peaks["streaming"]["bytes"] < 3 * matrix


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch-sizes", "1"], "batch sizes are the numbers of samples.* from 2 up, got 1$"),
        (["--batch-sizes", ""], "batch sizes .* got none$"),
        (["--batch-sizes", "8,8"], "expected different numbers from 2 up, got 8, 8$"),
        (["--losses", "plain,dcl"], "losses are what is measured: .*plain, deb, hard, ring, pucl, got plain, dcl$"),
        (["--losses", ""], "losses are what is measured: .* got none$"),
        (["--dim", "0"], "dim is the length of an embedding: expected at least 1, got 0$"),
        (["--temperature", "0"], "temperature is what similarities are divided by: .* got 0.0$"),
        (["--threads", "0"], "threads is how many cores torch may use: expected at least 1, got 0$"),
        (["--seconds", "-1"], "seconds is about how long .* got -1.0$"),
        (["--peer-limit", "-1"], "peer_limit is the largest batch for peers of cubic cost: .* got -1$"),
        (["--out", "/no/such/directory/figures.json"], "out is the file for the figures: .* got /no/such/directory"),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loss", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("benchmarks loss: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(line)


def test_subject_is_one_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "choose from" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["loss", "--batch-sizes=8,many"])
    assert "such as 256,1024, got '8,many'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["loss", "--help"])
    assert "--batch-sizes" in capsys.readouterr().out


def test_every_correction_has_its_loss() -> None:
    assert list(LOSSES) == list(CORRECTIONS)
    assert all(type(LOSSES[name]().correction) is CORRECTIONS[name] for name in LOSSES)


# What is measured


@pytest.mark.parametrize("contender", ["dense", "streaming"])
def test_a_step_is_forward_and_backward(contender: str) -> None:
    views = make_views(6, 4)
    step = make_step(contender, "pucl", views, 0.5)
    first = step()
    gradients = [view.grad for view in views]
    second = step()
    assert first is not None
    assert second is not None
    torch.testing.assert_close(first, second)
    for view, gradient in zip(views, gradients, strict=True):
        assert gradient is not None
        torch.testing.assert_close(view.grad, gradient)  # Not summed up from step to step.
        assert gradient.abs().sum() > 0


def test_views_are_the_same_each_time_and_alike() -> None:
    (first, second), (again, _) = make_views(64, 32), make_views(64, 32)
    torch.testing.assert_close(first, again)
    assert torch.cosine_similarity(first, second).mean() > 0.8
    assert torch.cosine_similarity(first, second.roll(1, dims=0)).mean() < 0.2


@pytest.mark.parametrize("batch", [3, TILE // 2, TILE // 2 + 5, TILE + 1])
def test_bare_products_are_those_of_the_streaming_algorithm(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    products = BareProducts(make_views(batch, 8))
    multiply = torch.mm
    calls: list[tuple[int, ...]] = []

    def counted(left: torch.Tensor, right: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        calls.append((*left.shape, right.shape[1]))
        return multiply(left, right, out=out)

    monkeypatch.setattr(torch, "mm", counted)
    products.run()
    blocks = -(-2 * batch // TILE)
    tiles, above = blocks * (blocks + 1) // 2, blocks * (blocks - 1) // 2
    assert len(calls) == 3 * tiles + above
    # Twice the logits on and above the diagonal, and a gradient that every pair of vectors contributes to.
    heights = [min(TILE, 2 * batch - start) for start in range(0, 2 * batch, TILE)]
    upper = sum(heights[r] * heights[c] for r in range(blocks) for c in range(r, blocks))
    assert sum(a * b * c for a, b, c in calls) == 2 * upper * 8 + (2 * batch) ** 2 * 8


# The instruments


class Clock:
    """Time that passes when told to, in place of the module `time`."""

    def __init__(self) -> None:
        self.now = 0
        self.log: list[str] = []
        self.perf_counter_ns = lambda: self.now

    def step(self, name: str, milliseconds: float) -> Callable[[], None]:
        def run() -> None:
            self.log.append(name)
            self.now += round(milliseconds * 1e6)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=clock.perf_counter_ns))
    return clock


def test_contenders_are_called_in_turn(clock: Clock) -> None:
    timings = interleave({"a": clock.step("a", 1), "b": clock.step("b", 4), "c": clock.step("c", 5)}, seconds=0.1)
    assert clock.log[:6] == ["a", "a", "b", "b", "c", "c"]  # The warm-up.
    assert timings.rounds == 10  # Of 10 ms each.
    assert clock.log[6:] == ["a", "b", "c"] * 10
    assert timings.nanoseconds == {"a": [1_000_000] * 10, "b": [4_000_000] * 10, "c": [5_000_000] * 10}
    assert timings.milliseconds("b") == Spread(lower_quartile=4, median=4, upper_quartile=4)
    assert timings.ratio("b", "a").median == 4


def test_rounds_are_neither_too_few_nor_too_many(clock: Clock) -> None:
    assert interleave({"a": clock.step("a", 1000), "b": clock.step("b", 1000)}, seconds=0.1).rounds == FEWEST
    assert interleave({"a": clock.step("a", 0.001), "b": clock.step("b", 0.001)}, seconds=0.1).rounds == MOST


@pytest.mark.parametrize("quick", [0.001, 1])
def test_slow_contender_sits_most_rounds_out(clock: Clock, quick: float) -> None:
    steps = {"slow": clock.step("slow", 500), "quick": clock.step("quick", quick), "other": clock.step("other", quick)}
    timings = interleave(steps, seconds=0.1)
    assert clock.log.count("slow") == 1 + FEWEST  # Too long to be warmed up twice.
    turns = [number for number, turn in enumerate(timings.nanoseconds["slow"]) if turn is not None]
    assert len(turns) == FEWEST
    assert turns[0] == 0
    assert turns[-1] > timings.rounds / 2  # Spread over the time of the others.
    assert None not in timings.nanoseconds["quick"]
    assert timings.rounds == (MOST if quick < 1 else 50)
    assert timings.ratio("slow", "quick").median == 500 / quick


def test_ratio_is_taken_round_by_round() -> None:
    # The machine gets slower from round to round, by more than the contenders differ.
    timings = Timings({"a": [20, 40, 80, 160, None], "b": [10, 20, 40, 80, 160]})
    assert timings.ratio("a", "b") == Spread(lower_quartile=2, median=2, upper_quartile=2)
    assert timings.milliseconds("a").median == pytest.approx(60e-6)


def test_threads_are_restored() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def allocate(megabytes: int) -> torch.Tensor:
    return torch.ones(megabytes * MEGABYTE // 4)


@on_linux
def test_memory_instrument_sees_an_allocation() -> None:
    peak = peak_memory(lambda: allocate(200).sum())
    assert peak.missing is None
    assert peak.bytes == pytest.approx(200 * MEGABYTE, rel=0.2)


@on_linux
def test_memory_instrument_sees_no_earlier_allocation() -> None:
    kept = allocate(200)
    del kept
    held = allocate(200)
    peak = peak_memory(lambda: allocate(50).sum())
    assert peak.bytes == pytest.approx(50 * MEGABYTE, rel=0.2)
    assert held[0] == 1


def test_memory_that_cannot_be_seen_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, text: str) -> int:
        raise PermissionError(f"{path} is read-only")

    monkeypatch.setattr(Path, "write_text", refuse)
    peak = peak_memory(lambda: None)
    assert peak.bytes is None
    assert peak.missing is not None
    assert "cannot be reset on this system: /proc/self/clear_refs is read-only" in peak.missing


def test_available_memory_is_plausible() -> None:
    available = available_memory()
    assert available is None or 10 * MEGABYTE < available < 10**15


@pytest.mark.slow
@on_linux
def test_child_measures_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("steps.py").write_text(
        "import torch\n"
        "def grow(before, during):\n"
        "    held = torch.ones(before)\n"
        "    return lambda: (torch.ones(during) + held[0]).sum()\n"
        "def fail():\n"
        "    raise KeyError('on purpose')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    peak = peak_in_child("steps:grow", {"before": 50_000_000, "during": 25_000_000})
    assert peak.missing is None
    assert peak.bytes == pytest.approx(200 * MEGABYTE, rel=0.2)  # Two tensors of 100 MB; the one before has 200.
    failed = peak_in_child("steps:fail", {})
    assert (failed.bytes, failed.missing) == (
        None,
        "the process that should measure it ended with 1: KeyError: 'on purpose'",
    )
    late = peak_in_child("steps:fail", {}, patience=0.01)
    assert late.missing == "the process that should measure it took more than 0.01 seconds"
