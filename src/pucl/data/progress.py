"""How much of a long piece of work is done, on stderr: one line that renews itself, or a few plain ones."""

import math
import sys
import time

RENEWALS_PER_SECOND = 10
PLAIN_UPDATES = 4  # Lines of progress, where one cannot replace the other.
QUIET_SECONDS = 1.0  # Work that is done sooner needs no word.


class Progress:
    """Tell how far a piece of work is and how long the rest will take.

    Args:
        subject: What is being done, e.g. "cifar10: downloading".
        unit: What is counted, e.g. "pictures".
        scale: How many of what is counted make one of the unit, e.g. 1e6 for bytes as MB.
    """

    def __init__(self, subject: str, unit: str, scale: float = 1) -> None:
        self._subject, self._unit, self._scale = subject, unit, scale
        self._began = time.monotonic()
        self._renewed = 0.0
        self._lines = 0
        self._first: int | None = None
        self._renews = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Report that so many of so many are done; a total of 0 is not known."""
        now = time.monotonic()
        if self._first is None:
            self._first = done  # Where a download goes on from: not done in the time measured here.
        passed, finished = now - self._began, total > 0 and done >= total
        if passed < QUIET_SECONDS and not self._lines:
            return
        share = done / total if total else 0.0
        if self._renews:
            if finished or now - self._renewed > 1 / RENEWALS_PER_SECOND:
                self._renewed, self._lines = now, self._lines + 1
                print(f"\r{self._text(done, total, passed):<78}", end="", file=sys.stderr, flush=True)
        elif share * PLAIN_UPDATES >= self._lines + 1:
            self._lines = math.floor(share * PLAIN_UPDATES)
            print(self._text(done, total, passed), file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the line that renews itself."""
        if self._renews and self._lines:
            print(file=sys.stderr, flush=True)

    def _text(self, done: int, total: int, passed: float) -> str:
        amount = f"{done / self._scale:,.0f}"
        if not total:
            return f"{self._subject}: {amount} {self._unit}"
        text = f"{self._subject}: {done / total:4.0%} of {total / self._scale:,.0f} {self._unit}"
        if done >= total:
            return f"{text}, {passed:.0f} s"
        fresh = done - (self._first or 0)
        return f"{text}, {passed * (total - done) / fresh:.0f} s left" if fresh > 0 else text
