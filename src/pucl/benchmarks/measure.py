"""Two instruments: the times of several contenders taken in turn, and the peak memory of one step.

Run as a module it is the far end of `peak_in_child`: a fresh interpreter that takes one step and prints its peak.
"""

import ctypes
import gc
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import pucl
from pucl.contrast.correction import check_range
from pucl.devices import usable_cores

Step = Callable[[], object]
"""Something to be measured: called without arguments, again and again."""

FEWEST = 3  # Rounds below which a median says nothing.
MOST = 200  # Rounds above which it says nothing more.
PATIENCE = 600.0  # Seconds after which a child process is given up.


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The middle of some measurements, and the two values between which half of them lie."""

    lower_quartile: float
    median: float
    upper_quartile: float


def spread_of(values: list[float]) -> Spread:
    """The quartiles of two values or more."""
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(lower_quartile=lower, median=median, upper_quartile=upper)


@dataclass(frozen=True)
class Timings:
    """What every contender took in every round, in nanoseconds; None where it sat the round out."""

    nanoseconds: dict[str, list[int | None]]

    @property
    def rounds(self) -> int:
        """How often the turn went round."""
        return max((len(turns) for turns in self.nanoseconds.values()), default=0)

    def milliseconds(self, name: str) -> Spread:
        """The time of one contender."""
        return spread_of([turn / 1e6 for turn in self.nanoseconds[name] if turn is not None])

    def ratio(self, name: str, other: str) -> Spread:
        """How many times as long one contender takes as another, round by round.

        What slows a whole round down, another program or a processor that gets warm, slows both and cancels; in the
        quotient of two medians it would not.
        """
        turns = zip(self.nanoseconds[name], self.nanoseconds[other], strict=True)
        return spread_of([one / two for one, two in turns if one is not None and two is not None])


def interleave(contenders: Mapping[str, Step], *, seconds: float) -> Timings:
    """Time all contenders in turn, round after round, for about this long.

    Each is called twice beforehand, for warmth. One that would need more than the whole time for the fewest rounds
    allowed comes along in so many and sits the others out: a slow peer shall not leave the rest with three rounds.

    Args:
        contenders: What is timed, by name, in the order of a round.
        seconds: For how long, slow contenders not counted; at least `FEWEST` and at most `MOST` rounds are made.
    """
    expected = {name: _warm_up(step, seconds) for name, step in contenders.items()}
    slow = {name for name, duration in expected.items() if FEWEST * duration > seconds}
    if len(slow) == len(contenders):
        slow = set()
    turns: dict[str, list[int | None]] = {name: [] for name in contenders}
    taken = dict.fromkeys(contenders, 0)
    spent, rounds = 0.0, 0
    with _collector_at_rest():
        while min(taken.values(), default=FEWEST) < FEWEST or (spent < seconds and rounds < MOST):
            done = max(spent / seconds, rounds / MOST)
            for name, step in contenders.items():
                # The few turns of a slow contender are spread evenly over the time of the others.
                if name in slow and (taken[name] == FEWEST or done < taken[name] / FEWEST):
                    turns[name].append(None)
                    continue
                duration = _nanoseconds(step)
                turns[name].append(duration)
                taken[name] += 1
                spent += 0.0 if name in slow else duration / 1e9
            rounds += 1
            gc.collect()  # Garbage of this round shall not weigh on the next.
    return Timings(turns)


def _warm_up(step: Step, seconds: float) -> float:
    """Seconds that a step takes once it is warm, as far as two calls tell; one call, if that is too long already."""
    first = _nanoseconds(step) / 1e9
    return first if first > seconds else min(first, _nanoseconds(step) / 1e9)


def _nanoseconds(step: Step) -> int:
    start = time.perf_counter_ns()
    step()
    return time.perf_counter_ns() - start


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """No garbage collection except on demand, and then a quick one that looks at new objects alone."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use this many threads, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class Peak:
    """By how many bytes memory rose at most; None, and the reason, where that could not be seen."""

    bytes: int | None
    missing: str | None = None


def peak_memory(step: Step) -> Peak:
    """By how much the resident memory of this process rises at most while a step runs.

    What was in memory before does not count, nor does a peak that imports left behind: Linux can forget the highest
    mark so far, and elsewhere nothing is reported.

    Note:
        Memory that was freed and is still held by the allocator can be used again unseen. Where small peaks matter,
        measure in a fresh process, with `peak_in_child`.
    """
    gc.collect()
    _give_back_free_memory()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Sets the highest mark to the present size.
        before = _status_bytes("VmRSS")
    except OSError as error:
        return Peak(bytes=None, missing=f"the peak of resident memory cannot be reset on this system: {error}")
    step()
    return Peak(bytes=max(0, _status_bytes("VmHWM") - before))


def peak_in_child(target: str, settings: Mapping[str, object], *, patience: float = PATIENCE) -> Peak:
    """The peak memory of a step in an interpreter of its own, which no earlier step has left its traces in.

    Args:
        target: ``"module:function"``, of a function that makes everything ready and returns the step.
        settings: Its keyword arguments, such as JSON can carry.
        patience: Seconds after which the child is given up.
    """
    # The child finds the modules that this process has, and nothing else that lies in the current directory.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
    command = [sys.executable, "-P", "-m", "pucl.benchmarks.measure", target, json.dumps(dict(settings))]
    try:
        child = subprocess.run(  # noqa: S603 (this interpreter, and arguments of our own)
            command, env=environment, capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return Peak(bytes=None, missing=f"the process that should measure it took more than {patience:g} seconds")
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        return Peak(bytes=None, missing=f"the process that should measure it ended with {child.returncode}: {last[0]}")
    answer: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return Peak(**answer)


def available_memory() -> int | None:
    """Bytes that can be had without swapping, within what this container may use; None if unknown."""
    try:
        available = _field_bytes(Path("/proc/meminfo"), "MemAvailable")
    except OSError:
        return None
    control_group = Path("/sys/fs/cgroup")
    try:
        limit = (control_group / "memory.max").read_text().strip()
        used = int((control_group / "memory.current").read_text())
    except (OSError, ValueError):
        return available
    return available if limit == "max" else max(0, min(available, int(limit) - used))


def machine_facts() -> dict[str, object]:
    """What a figure depends on and a reader cannot guess: processor, cores, memory, and how busy they were."""
    return {
        "cpu": _processor_name(),
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "available_memory_bytes": available_memory(),
        "load_average_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def library_versions() -> dict[str, str]:
    """Of what every figure depends on."""
    return {"pucl": pucl.__version__, "torch": torch.__version__, "python": platform.python_version()}


def check_effort(threads: int, seconds: float, timed: str) -> None:
    """Refuse settings with which nothing could be timed.

    Args:
        threads: Of torch.
        seconds: About how long.
        timed: What is: ``"a loss is timed at a batch size"``.
    """
    check_range("threads", "how many cores torch may use", threads, "at least 1", threads >= 1)
    check_range("seconds", f"about how long {timed}", seconds, "0 < seconds < inf", 0 < seconds < float("inf"))


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _give_back_free_memory() -> None:
    """Return what the allocator keeps for later, which a step could otherwise use unseen (glibc alone can)."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def _status_bytes(field: str) -> int:
    return _field_bytes(Path("/proc/self/status"), field)


def _field_bytes(path: Path, field: str) -> int:
    """The number behind ``field:`` in a file of /proc that counts in kB."""
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise OSError(f"{path} has no {field}")


def _measure_for_parent(target: str, settings: str) -> None:
    module, _, function = target.partition(":")
    step: Step = getattr(importlib.import_module(module), function)(**json.loads(settings))
    print(json.dumps(asdict(peak_memory(step))))


if __name__ == "__main__":
    _measure_for_parent(*sys.argv[1:])
