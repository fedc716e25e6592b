"""Progress of long work on stderr: a live area drawn by rich on a terminal, a few plain lines elsewhere."""

import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from pucl.texts import printable, say

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

REDRAWS_PER_SECOND = 2
PLAIN_UPDATES = 4  # Progress lines per piece of work, where lines cannot be redrawn.
QUIET_SECONDS = 1.0  # Work that ends sooner prints nothing.
BAR_WIDTH = 20


class StatusArea:
    """A live area at the bottom of the terminal, and lines that stay above it.

    The area is live only if stderr is a terminal and rich is installed. Elsewhere `show` does nothing. As a context
    manager, it erases the area on success and leaves the last state on the screen after an exception.
    """

    def __init__(self) -> None:
        self._console = _console()
        self._drawing: Live | None = None
        self._draw: Callable[[], RenderableType] = str

    @property
    def live(self) -> bool:
        """Whether the area can be redrawn."""
        return self._console is not None

    def show(self, draw: "Callable[[], RenderableType]") -> None:
        """Set what the area shows: `draw` is called for each redraw, from another thread."""
        self._draw = draw
        if self._console and self._drawing is None:
            from rich.live import Live  # noqa: PLC0415 (an extra)

            self._drawing = Live(
                console=self._console,
                get_renderable=lambda: self._draw(),  # noqa: PLW0108 - `_draw` changes.
                refresh_per_second=REDRAWS_PER_SECOND,
                redirect_stdout=False,  # Stdout may be a file.
            )
            self._drawing.start(refresh=True)

    def show_text(self, text: str) -> None:
        """Show one line of text."""
        self.show(lambda: one_line(text))

    def say(self, text: str) -> None:
        """Print a line that stays. Errors of stderr, such as a closed terminal or a full disk, are ignored."""
        if self._console:
            self._console.print("\n".join(map(printable, text.split("\n"))), soft_wrap=True)
        else:
            with suppress(OSError):
                say(text, error=True)

    def close(self, *, erase: bool) -> None:
        """Stop drawing, and erase the area or leave its last state on the screen."""
        if self._drawing:
            if erase:
                self._draw = str  # Rich draws once more. It could not erase an area higher than the terminal.
            self._drawing.transient = erase
            self._drawing.stop()
            self._drawing = None

    def __enter__(self) -> "StatusArea":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(erase=kind is None)


class Progress:
    """Show how far a piece of work is and how long the rest will take.

    Args:
        subject: What is being done, e.g. "cifar10: downloading".
        unit: What is counted, e.g. "pictures". If the total is 1, the name of the whole, e.g. "the work".
        scale: Counts per displayed unit, e.g. 1e6 for bytes shown as MB.
    """

    def __init__(self, subject: str, unit: str, scale: float = 1) -> None:
        self._subject, self._unit, self._scale = subject, unit, scale
        self._began = time.monotonic()
        self._area = StatusArea()
        self._plain_updates = 0
        self._first: float | None = None

    def __call__(self, done: float, total: float) -> None:
        """Report the amount done so far. A total of 0 means that the total is unknown."""
        if self._first is None:
            self._first = done  # A resumed download starts here. The estimate counts only what is downloaded now.
        elapsed = time.monotonic() - self._began
        if elapsed < QUIET_SECONDS:
            return
        text = self._text(done, total, elapsed)
        share = done / total if total else None
        if self._area.live:
            self._area.show(lambda: bar_lines([(f"{self._subject}:", share, text)]))
        elif share is not None and share * PLAIN_UPDATES >= self._plain_updates + 1:
            self._plain_updates = math.floor(share * PLAIN_UPDATES)
            self._area.say(f"{self._subject}: {text}")

    def close(self) -> None:
        """Stop drawing. The last state stays on the screen."""
        self._area.close(erase=False)

    def _text(self, done: float, total: float, elapsed: float) -> str:
        if not total:
            return f"{done / self._scale:,.0f} {self._unit}"
        whole = self._unit if total == 1 else f"{total / self._scale:,.0f} {self._unit}"
        text = f"{done / total:4.0%} of {whole}"
        if done >= total:
            return f"{text}, {duration(elapsed)}"
        fresh = done - (self._first or 0)
        return f"{text}, {duration(elapsed * (total - done) / fresh)} left" if fresh > 0 else text


def one_line(text: str) -> "RenderableType":
    """Text on one line of the terminal, cut where the terminal ends. Markup in it is not interpreted."""
    from rich.text import Text  # noqa: PLC0415 (an extra)

    return Text(printable(text), no_wrap=True, overflow="ellipsis")


def bar_lines(rows: Sequence[tuple[str, float | None, str]], *, below: str = "") -> "RenderableType":
    """One line for each label, finished share and text, with a progress bar; a share of None draws a moving bar.

    Args:
        rows: Labels, shares and texts.
        below: A line of text that follows them; empty for none.
    """
    from rich.console import Group  # noqa: PLC0415 (an extra)
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 (an extra)
    from rich.table import Table  # noqa: PLC0415 (an extra)

    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column()  # On a narrow terminal, rich makes this column narrower before the others.
    for label, share, text in rows:
        progress_bar = ProgressBar(total=None if share is None else 1, completed=share or 0, width=BAR_WIDTH)
        grid.add_row(one_line(label), progress_bar, one_line(text))
    return Group(grid, one_line(below)) if below else grid


@functools.lru_cache(maxsize=1)  # One console for all areas, so that rich can stack an area below another.
def _console_of(stderr: Any) -> "Console | None":
    try:
        from rich.console import Console  # noqa: PLC0415 (an extra)
    except ImportError:
        return None

    class SteadyConsole(Console):
        """A console that never hides the cursor: a killed process could not bring it back."""

        def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
            return False

    file = cast(TextIO, _SteadyFile(stderr))
    console = SteadyConsole(file=file, force_terminal=True, markup=False, emoji=False, highlight=False)
    return None if console.is_dumb_terminal else console


def _console() -> "Console | None":
    """The console of rich for stderr; None if stderr is no terminal, cannot redraw lines, or rich is not installed."""
    stderr = getattr(sys.stderr, "rich_proxied_file", sys.stderr)  # Rich replaces stderr while an area is live.
    return _console_of(stderr) if stderr.isatty() else None


class _SteadyFile:
    """A file whose write errors are ignored: a closed terminal must not stop the work."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: the file is closed.
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()


def duration(seconds: float) -> str:
    """A time in words.

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
