"""Times of several contenders, taken in turn so that they can be compared on a machine that is not quiet."""

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from benchmarks.memory import Step
from benchmarks.report import Figures, Spread, spread_of

FEWEST = 3  # With fewer rounds a median has no meaning.
MOST = 200  # More rounds do not make it more exact.


@dataclass(frozen=True)
class Timings:
    """Nanoseconds of each contender in each round; None in rounds that it skipped."""

    nanoseconds: dict[str, list[int | None]]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return max(map(len, self.nanoseconds.values()))

    def milliseconds(self, name: str) -> Spread:
        """The time of one contender."""
        return spread_of([turn / 1e6 for turn in self.nanoseconds[name] if turn is not None])

    def figures(self, name: str) -> Figures:
        """The times of one contender, for a report."""
        return Figures(milliseconds=self.milliseconds(name), nanoseconds_by_round=self.nanoseconds[name])

    def ratio(self, name: str, other: str) -> Spread:
        """The time of one contender divided by the time of another in the same round.

        What slows down a whole round (another program, a hot processor) slows down both and cancels. In the quotient of
        two medians it would not.
        """
        turns = zip(self.nanoseconds[name], self.nanoseconds[other], strict=True)
        return spread_of([one / two for one, two in turns if one is not None and two is not None])


def interleave(contenders: Mapping[str, Step], *, seconds: float) -> Timings:
    """Time all contenders in turn, round after round.

    Each contender is called twice before the first round, to warm up. A contender that needs more than the whole time
    for `FEWEST` rounds takes part in only so many, so that one slow library does not leave the others with few rounds.

    Args:
        contenders: What is timed, by name, in the order of a round.
        seconds: Total time of all but the slow contenders; there are `FEWEST` to `MOST` rounds.
    """
    expected = {name: _warm_up(step, seconds) for name, step in contenders.items()}
    slow = {name for name, duration in expected.items() if FEWEST * duration > seconds}
    if len(slow) == len(contenders):
        slow = set()
    turns: dict[str, list[int | None]] = {name: [] for name in contenders}
    taken = dict.fromkeys(contenders, 0)
    spent, rounds = 0.0, 0
    with _garbage_collection_on_demand():
        while min(taken.values()) < FEWEST or (spent < seconds and rounds < MOST):
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
            gc.collect()  # So that garbage of this round does not slow down the next.
    return Timings(turns)


def _warm_up(step: Step, seconds: float) -> float:
    """Seconds of a warm step, from two calls; from one call if that takes too long already."""
    first = _nanoseconds(step) / 1e9
    return first if first > seconds else min(first, _nanoseconds(step) / 1e9)


def _nanoseconds(step: Step) -> int:
    start = time.perf_counter_ns()
    step()
    return time.perf_counter_ns() - start


@contextmanager
def _garbage_collection_on_demand() -> Iterator[None]:
    """Collect garbage only when asked to, and then among new objects only, which is quick."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use this many threads, and restore the number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
