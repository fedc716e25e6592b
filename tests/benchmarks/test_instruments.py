"""Clock and memory of the benchmarks."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import timing
from benchmarks.memory import available_memory, peak_in_child, peak_memory
from benchmarks.report import Spread
from benchmarks.timing import FEWEST, MOST, Timings, interleave, torch_threads

MEGABYTE = 10**6
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="peaks are measured on Linux alone")


class Clock:
    """Time that passes only in steps, in place of the module `time`."""

    def __init__(self) -> None:
        self.now = 0
        self.log: list[str] = []

    def step(self, name: str, milliseconds: float) -> Callable[[], None]:
        def run() -> None:
            self.log.append(name)
            self.now += round(milliseconds * 1e6)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=lambda: clock.now))
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
def test_slow_contender_skips_most_rounds(clock: Clock, quick: float) -> None:
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
def test_peak_is_of_the_step_alone() -> None:
    kept = allocate(200)
    del kept
    held = allocate(200)
    peak = peak_memory(lambda: allocate(50).sum())
    assert peak.missing is None
    assert peak.bytes == pytest.approx(50 * MEGABYTE, rel=0.2)
    assert held[0] == 1


def test_memory_that_cannot_be_seen_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, text: str) -> int:
        raise PermissionError(f"{path} is read-only")

    monkeypatch.setattr(Path, "write_text", refuse)
    peak = peak_memory(lambda: None)
    assert peak.bytes is None
    assert "cannot be reset on this system: /proc/self/clear_refs is read-only" in (peak.missing or "")


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
    assert failed.missing == "the process that should measure it ended with 1: KeyError: 'on purpose'"
    late = peak_in_child("steps:fail", {}, patience=0.01)
    assert late.missing == "the process that should measure it took more than 0.01 seconds"
