"""How far a long piece of work is, on stderr: one line that renews itself on a terminal, a few plain ones elsewhere."""

import math
import os
import shutil
import sys
import time
from contextlib import suppress

from pucl.texts import printable, say

RENEWALS_PER_SECOND = 10
PLAIN_UPDATES = 4  # Lines of progress, where one cannot replace the other.
QUIET_SECONDS = 1.0  # Work that is done sooner needs no word.


class Line:
    """A line on stderr that is written over, where stderr is a terminal; elsewhere only what is said stays."""

    def __init__(self) -> None:
        self.renews = sys.stderr.isatty()
        self._shown = False
        self._renewed = -math.inf

    def show(self, text: str, *, at_once: bool = False) -> None:
        """Let the line read so, if it renews itself and was not renewed a moment ago."""
        now = time.monotonic()
        if self.renews and (at_once or now - self._renewed > 1 / RENEWALS_PER_SECOND):
            self._renewed, self._shown = now, True
            width = terminal_size().columns - 1  # A longer line would break, and not be written over.
            _print(f"\r\x1b[K{printable(text)[:width]}", end="")

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if self._shown:
            _print("\r\x1b[K", end="")
            self._shown = False
        with suppress(OSError):
            say(text, error=True)

    def close(self) -> None:
        """End the line that renews itself, as it reads."""
        if self._shown:
            _print("")
            self._shown = False


def _print(text: str, *, end: str = "\n") -> None:
    """Print to stderr. A closed terminal, or a log file on a full disk, is no reason to stop the work."""
    with suppress(OSError):
        print(text, end=end, file=sys.stderr, flush=True)


class Progress:
    """Tell how far a piece of work is and how long the rest will take.

    Args:
        subject: What is being done, e.g. "cifar10: downloading".
        unit: What is counted, e.g. "pictures"; with a total of 1 what it is a share of.
        scale: How many of what is counted make one of the unit, e.g. 1e6 for bytes as MB.
    """

    def __init__(self, subject: str, unit: str, scale: float = 1) -> None:
        self._subject, self._unit, self._scale = subject, unit, scale
        self._began = time.monotonic()
        self._line = Line()
        self._updates = 0
        self._first: float | None = None

    def __call__(self, done: float, total: float) -> None:
        """Report that so many of so many are done; a total of 0 is not known."""
        if self._first is None:
            self._first = done  # Where a download goes on from: not done in the time measured here.
        passed = time.monotonic() - self._began
        if passed < QUIET_SECONDS and not self._updates:
            return
        share = done / total if total else 0.0
        if self._line.renews:
            self._updates += 1
            self._line.show(self._text(done, total, passed), at_once=share >= 1)
        elif share * PLAIN_UPDATES >= self._updates + 1:
            self._updates = math.floor(share * PLAIN_UPDATES)
            self._line.say(self._text(done, total, passed))

    def close(self) -> None:
        """End the line that renews itself."""
        self._line.close()

    def _text(self, done: float, total: float, passed: float) -> str:
        amount = f"{done / self._scale:,.0f}"
        if not total:
            return f"{self._subject}: {amount} {self._unit}"
        whole = self._unit if total == 1 else f"{total / self._scale:,.0f} {self._unit}"
        text = f"{self._subject}: {done / total:4.0%} of {whole}"
        if done >= total:
            return f"{text}, {duration(passed)}"
        fresh = done - (self._first or 0)
        return f"{text}, {duration(passed * (total - done) / fresh)} left" if fresh > 0 else text


def terminal_size() -> os.terminal_size:
    """Columns and lines of the terminal that stderr is, also where stdout is a file."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return shutil.get_terminal_size()
    return size if min(size) > 0 else shutil.get_terminal_size()  # Some terminals do not know how large they are.


def duration(seconds: float) -> str:
    """A time as people say it.

    Example:
        >>> duration(8.4), duration(100), duration(7300)
        ('8 s', '1 min 40 s', '2 h 1 min')
    """
    if not math.isfinite(seconds):
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
