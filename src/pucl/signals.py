"""Signals that ask a process to stop: Ctrl-C (SIGINT), SIGTERM, and SIGHUP (its terminal was closed).

All three do the same, wherever the program is: save or clean up, then leave with the exit code that shells use.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REPEAT_SECONDS = 5.0  # One request often comes several times: from the terminal, the scheduler and the grid's driver.


class Stopped(KeyboardInterrupt):
    """A signal asked this process to stop. It is a KeyboardInterrupt: what cleans up after Ctrl-C cleans up here too.

    Args:
        number: The signal.
        words: What was saved, and how to continue.
    """

    def __init__(self, number: int = signal.SIGINT, words: str = "") -> None:
        super().__init__(words)
        self.number = number


def signal_of(stop: KeyboardInterrupt) -> int:
    """The signal that caused a stop."""
    return stop.number if isinstance(stop, Stopped) else signal.SIGINT


def exit_code(stop: KeyboardInterrupt) -> int:
    """What shells report for a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + signal_of(stop)


class Stop:
    """Whether a signal has asked this process to stop, and which."""

    def __init__(self) -> None:
        self.number: int | None = None

    def is_set(self) -> bool:
        """Whether one has."""
        return self.number is not None

    def note(self, number: int) -> None:
        """Remember the first signal."""
        if self.number is None:
            self.number = number

    def exception(self, words: str) -> Stopped:
        """The exception to raise. In a process that got no signal itself, it is that of Ctrl-C."""
        return Stopped(signal.SIGINT if self.number is None else self.number, words)


class _Raising:
    """A handler that raises `Stopped`; repeats of the same request do not interrupt the cleaning up."""

    def __init__(self) -> None:
        self.held = False
        self.pending: int | None = None
        self.asked = -REPEAT_SECONDS

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.asked < REPEAT_SECONDS:
            return
        self.asked = now
        if self.held:
            self.pending = number
        else:
            raise Stopped(number)


_active: _Raising | None = None


@contextmanager
def raised() -> Iterator[None]:
    """Let signals raise `Stopped` where the program is. Inside of another such context this changes nothing."""
    global _active  # noqa: PLW0603 - Signal handlers belong to the whole process.
    if _active is not None or not _in_main_thread():
        yield
        return
    _active = _Raising()
    try:
        with _handled(_active):
            yield
    finally:
        _active = None


@contextmanager
def held() -> Iterator[None]:
    """Let signals wait until the end of this context, for steps that cannot be undone half way."""
    handler = _active
    if handler is None or handler.held or not _in_main_thread():
        yield
        return
    handler.held, handler.pending = True, None
    try:
        yield
    finally:
        handler.held = False
    if handler.pending is not None:
        raise Stopped(handler.pending)


@contextmanager
def noted() -> Iterator[Stop]:
    """Let signals only be noted, for loops that look between steps, where the state is complete."""
    stop = Stop()
    if not _in_main_thread():
        yield stop
        return
    try:
        with _handled(lambda number, _frame: stop.note(number)):
            yield stop
    finally:
        if stop.is_set() and _active is not None:
            _active.asked = time.monotonic()


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Install a handler, except for signals that are ignored on purpose, such as SIGHUP under nohup."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    ours = [number for number, handler_before in before.items() if handler_before not in (signal.SIG_IGN, None)]
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _in_main_thread() -> bool:
    """Python allows handlers in the main thread only."""
    return threading.current_thread() is threading.main_thread()
