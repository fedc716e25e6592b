"""A line that renews itself on a terminal, and words that stay."""

import io
import sys
from typing import Any

import pytest

from pucl.progress import Line, Progress, duration
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
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 150) -> Terminal:
    """Called by the test itself: between a fixture and its test, pytest takes stderr back."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    return screen


def test_live_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    display = Display(Line()).labelled("pucl, seed 0 (1 of 4)")
    display.step(METRICS | {"knn": 0.432})
    display.step(METRICS)  # Too soon after the first: left out.
    display.epoch(METRICS)  # The live line has it already.
    display.say("warning: too hot")
    display.close()
    line, words = terminal.getvalue().removeprefix("\r\x1b[K").split("\r\x1b[K")
    assert line == (
        "pucl, seed 0 (1 of 4): [#####---------------]  25%  epoch 3 of 12, loss 5.3123, floored 2%, kNN 43.2%, "
        "712 images/s, 1 min 20 s left"
    )
    assert words == "pucl, seed 0 (1 of 4): warning: too hot\n"


def test_never_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch, 30)
    Display(Line()).step(METRICS)
    assert len(terminal.getvalue().removeprefix("\r\x1b[K")) == 29


def test_plain_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(Line())
    display.step(METRICS)
    display.status("probing")
    display.epoch(METRICS)
    display.close()
    assert capsys.readouterr().err == "epoch 3 of 12, loss 5.3123, floored 2%, 712 images/s, 1 min 20 s left\n"


def test_silent() -> None:
    display = Display()
    display.say("nobody hears this")
    display.step(METRICS)
    display.close()


def test_progress_counts_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    clock = iter([0.0, 10.0, 10.0, 100.0, 100.0])
    monkeypatch.setattr("pucl.progress.time.monotonic", lambda: next(clock))
    progress = Progress("reading", "pictures")
    progress(100, 1000)
    progress(1000, 1000)
    progress.close()
    assert "reading:  10% of 1,000 pictures" in terminal.getvalue()
    assert terminal.getvalue().endswith("reading: 100% of 1,000 pictures, 1 min 40 s\n")


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "0 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min")])
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
