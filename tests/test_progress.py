"""Progress on stderr: a live area on a terminal, plain lines elsewhere."""

import errno
import io
import re
import sys
from typing import Any

import pytest

from pucl.progress import Progress, StatusArea, bar_lines, duration
from pucl.runs.display import Display

METRICS: dict[str, Any] = {
    "epoch": 3,
    "epochs": 12,
    "step": 30,
    "steps": 120,
    "loss": 5.31234,
    "floored": 0.024,
    "samples_per_second": 712.3,
    "seconds_left": 80.4,
    "unit": "images",
}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def words(self) -> str:
        """What was written, without the sequences for colours and for the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


class BrokenLog(io.StringIO):
    """A file that cannot be written to: on a full disk, or a closed terminal."""

    def write(self, _: str) -> int:
        raise OSError(errno.EIO, "Input/output error")

    def flush(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


class BrokenTerminal(BrokenLog, Terminal):
    """A terminal that was closed."""


def open_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 150, name: str = "xterm") -> Terminal:
    """Called by the test itself: between a fixture and its test, pytest restores stderr."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", name)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "24")
    return screen


def set_clock(monkeypatch: pytest.MonkeyPatch, *times: float) -> None:
    """Let `Progress` read these times, one after the other."""
    monkeypatch.setattr("pucl.progress.time.monotonic", iter(times).__next__)


def test_live_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Display(StatusArea()).labelled("pucl, seed 0 (1 of 4)") as display:
        display.step(METRICS | {"knn": 0.432})
        display.epoch(METRICS)  # The live area shows it already.
        assert re.fullmatch(
            r"pucl, seed 0 \(1 of 4\): .{20}  25%  epoch 3 of 12, 1 min 20 s left, loss 5\.3123, floored 2%, "
            r"kNN 43\.2%, 712 images/s",
            terminal.words().strip(),
        )
        display.say("warning: too hot")
        assert "pucl, seed 0 (1 of 4): warning: too hot\n" in terminal.words()
        assert sys.stderr is not terminal
    assert sys.stderr is terminal
    assert terminal.getvalue().endswith("\x1b[1A\x1b[2K")  # Erased.


def test_what_a_correction_believes_is_below_the_bar_or_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = METRICS | {"correction.removed": 0.37, "correction.report": "9 communities"}
    terminal = open_terminal(monkeypatch)
    with Display(StatusArea()) as display:
        display.step(metrics)
        first, second = terminal.words().strip().splitlines()
    assert "floored 2%, removed 37%, " in first
    assert second.strip() == "9 communities"
    terminal = open_terminal(monkeypatch, name="dumb")
    with Display(StatusArea()) as display:
        display.step(metrics)
        display.epoch(metrics)
    first, second = terminal.getvalue().splitlines()
    assert "floored 2%, removed 37%, " in first
    assert second == "  9 communities"


def test_the_last_state_stays_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    area = StatusArea()

    def fail() -> None:
        with area:
            area.show_text("half done")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert terminal.getvalue().endswith("half done\n")
    assert sys.stderr is terminal


def test_the_cursor_is_never_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed could not show it again."""
    terminal = open_terminal(monkeypatch)
    with StatusArea() as area:
        area.show_text("working")
    assert "\x1b[?25l" not in terminal.getvalue()


def test_prints_of_others_go_above_the_area(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with StatusArea() as area:
        area.show_text("working")
        print("[bold]a library's[/bold] note", file=sys.stderr)
        assert terminal.words().split("\r")[-1].splitlines() == ["[bold]a library's[/bold] note", "working"]


def test_an_area_below_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a run of a grid first has to read a folder."""
    terminal = open_terminal(monkeypatch)
    with StatusArea() as outer:
        outer.show_text("the grid")
        inner = StatusArea()
        inner.show_text("reading")
        outer.say("note")
        inner.close(erase=False)
    assert terminal.words().count("reading") == 1
    assert sys.stderr is terminal


def test_never_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch, 50)
    with Display(StatusArea()).labelled("plain") as display:
        display.step(METRICS)
        (line,) = terminal.words().strip().splitlines()
    assert len(line) <= 50
    assert line.startswith("plain: ")
    assert "25%  epoch" in line


def test_names_are_neither_markup_nor_control_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    name = "[red]runs[/red] :smile: [/] \x1b[2J"
    with StatusArea() as area:
        area.show(lambda: bar_lines([(name, 0.5, name)]))
        area.say(name)
        area.say("two\nlines")
    assert terminal.words().count("[red]runs[/red] :smile: [/] \\x1b[2J") >= 3
    assert "\x1b[2J" not in terminal.getvalue()
    assert "two\nlines" in terminal.words()


def show_everything() -> None:
    with Display(StatusArea()) as display:
        display.step(METRICS)
        display.status("probing")
        display.epoch(METRICS)
        display.say("note")


@pytest.mark.parametrize("place", ["a log", "a terminal that cannot redraw", "a terminal without rich"])
def test_plain_lines(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    terminal: io.StringIO = open_terminal(monkeypatch, name="dumb" if "redraw" in place else "xterm")
    if place == "a log":
        monkeypatch.setenv("FORCE_COLOR", "1")  # As CI services set it: a log is still no terminal.
        terminal = io.StringIO()
        monkeypatch.setattr(sys, "stderr", terminal)
    elif "rich" in place:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    show_everything()
    assert terminal.getvalue() == "epoch 3 of 12, 1 min 20 s left, loss 5.3123, floored 2%, 712 images/s\nnote\n"


@pytest.mark.parametrize("closed", [BrokenTerminal, BrokenLog])
def test_a_closed_terminal_or_a_full_disk_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, closed: type[io.StringIO]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", closed())
    show_everything()
    set_clock(monkeypatch, 0.0, 10.0)
    reading = Progress("reading", "pictures")
    reading(500, 1000)
    reading.close()


def test_silent() -> None:
    with Display() as display:
        display.say("nobody hears this")
        display.step(METRICS)


def test_progress_counts_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    set_clock(monkeypatch, 0.0, 10.0, 100.0)
    reading = Progress("reading", "pictures")
    reading(100, 1000)
    assert re.search(r"reading: .{20}  10% of 1,000 pictures", terminal.words())
    reading(1000, 1000)
    reading.close()
    assert re.search(r"reading: .{20} 100% of 1,000 pictures, 1 min 40 s *\n$", terminal.words())


def test_progress_in_a_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    set_clock(monkeypatch, 0.0, *(10.0 * number for number in range(101)))
    reading = Progress("reading", "MB", 1e6)
    for number in range(101):
        reading(1e6 * number, 1e8)
    reading.close()
    assert capsys.readouterr().err.splitlines() == [
        "reading:  25% of 100 MB, 12 min 30 s left",
        "reading:  50% of 100 MB, 8 min 20 s left",
        "reading:  75% of 100 MB, 4 min 10 s left",
        "reading: 100% of 100 MB, 16 min 40 s",
    ]


@pytest.mark.parametrize("live", [True, False])
def test_short_work_prints_nothing(monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    terminal = open_terminal(monkeypatch) if live else io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    set_clock(monkeypatch, 0.0, 0.5, 0.9)
    reading = Progress("reading", "pictures")
    reading(1, 2)
    reading(2, 2)
    reading.close()
    assert terminal.getvalue() == ""


def test_progress_of_what_was_begun_before(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate counts only what was done since."""
    set_clock(monkeypatch, 0.0, 0.0, 10.0)
    reading = Progress("reading", "MB")
    reading(400, 1000)
    reading(500, 1000)
    assert capsys.readouterr().err == "reading:  50% of 1,000 MB, 50 s left\n"


def test_progress_without_a_total(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    set_clock(monkeypatch, 0.0, 10.0)
    reading = Progress("reading", "MB", 1e6)
    reading(3e6, 0)
    reading.close()
    assert re.search(r"reading: .{20} 3 MB", terminal.words())


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "0 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min")])
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
