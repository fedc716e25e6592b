"""What a training shows while it goes on, and what it leaves for a grid to show."""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pucl.progress import Line, duration
from pucl.records import read_record
from pucl.runs.lines import PROBES

BAR = 20  # Characters.
PROGRESS = ".progress"  # In the directory of a run that goes on: where it is.
POSITION = ("epoch", "epochs", "step", "steps", "seconds_left")  # What is always known of a training.
REPORT_SECONDS = 0.5


def main_accuracy(result: Mapping[str, Any]) -> float | None:
    """By the first classifier that a run has; None where it has none."""
    return next((result[probe] for probe in PROBES if probe in result), None)


@dataclass(frozen=True)
class Display:
    """Shows where a training is: live on a terminal, one line an epoch elsewhere.

    Args:
        line: Where to; None shows nothing.
        label: What comes before everything, such as the row and the seed of a comparison.
        score: What the table of a grid that goes on shows of a result.
    """

    line: Line | None = None
    label: str = ""
    score: Callable[[Mapping[str, Any]], float | None] = main_accuracy

    @property
    def renews(self) -> bool:
        """Whether what is shown can be written over."""
        return self.line is not None and self.line.renews

    def labelled(self, label: str) -> "Display":
        """The same display, for one of several pieces of work."""
        return Display(self.line, f"{label}: ", self.score)

    def say(self, words: str) -> None:
        """Something that is to be read later too, such as a warning."""
        if self.line:
            self.line.say(self.label + words)

    def status(self, words: str) -> None:
        """What is going on now."""
        if self.line:
            self.line.show(self.label + words, at_once=True)

    def step(self, metrics: Mapping[str, Any]) -> None:
        """Where the training is after a step; see `pucl.training.loop.Training.position`."""
        if self.line and self.line.renews:
            done = metrics["step"] / metrics["steps"]
            bar = "#" * round(BAR * done)
            self.line.show(f"{self.label}[{bar:-<{BAR}}] {done:4.0%}  {describe(metrics)}")

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """What an epoch came to, where there is no live line."""
        if self.line and not self.line.renews:
            self.line.say(self.label + describe(metrics))

    def close(self) -> None:
        """Leave the live line, for whatever is printed next."""
        if self.line:
            self.line.close()


@dataclass
class Pace:
    """Lets something happen now and then only.

    Args:
        seconds: How often at most.
    """

    seconds: float
    last: float = -math.inf

    def due(self) -> bool:
        """Whether it is time again."""
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True


@dataclass(frozen=True, kw_only=True)
class Report(Display):
    """Leaves in a file where a training is, for the grid that it belongs to and whatever process that is in.

    Args:
        file: Which; see `read_report`.
        grid: What tells the grid from others, such as one that was killed and left its files.
        speak: Where words go that are to be read later too; None for nowhere.
    """

    file: Path
    grid: str
    speak: Callable[[str], None] | None = None
    pace: Pace = field(default_factory=lambda: Pace(REPORT_SECONDS))
    known: dict[str, Any] = field(default_factory=dict)

    def say(self, words: str) -> None:
        """Hand on what is to be read later too."""
        if self.speak is not None:
            self.speak(self.label + words)

    def status(self, words: str) -> None:
        """What is going on now."""
        self._write({"status": words})

    def step(self, metrics: Mapping[str, Any]) -> None:
        """Where the training is after a step, if that was not told a moment ago."""
        self.epoch(metrics)
        if self.pace.due():
            self._write(self.known)

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """What an epoch came to: known until the next has something to say."""
        names = (*POSITION, "loss", "floored", "knn")
        self.known.update({name: metrics[name] for name in names if name in metrics})

    def _write(self, record: dict[str, Any]) -> None:
        with suppress(OSError):  # A full disk is for the run itself to tell.
            self.file.write_text(json.dumps({"grid": self.grid, **record}))


def read_report(file: Path, grid: str) -> dict[str, Any] | None:
    """Where a run of this grid is; None where that cannot be read, or not just now."""
    try:
        record = read_record(file, dict)
    except (OSError, ValueError):
        return None
    if record.get("grid") != grid:
        return None
    return record if "status" in record or all(name in record for name in POSITION) else None


def describe(metrics: Mapping[str, Any]) -> str:
    """Metrics of a training in one line."""
    words = [f"epoch {metrics['epoch']:.0f} of {metrics['epochs']:.0f}"]
    if "loss" in metrics:
        words += [f"loss {metrics['loss']:.4f}", f"floored {metrics['floored']:.0%}"]
    if "knn" in metrics:
        words.append(f"kNN {metrics['knn']:.1%}")
    words.append(f"{metrics['samples_per_second']:.0f} {metrics.get('unit', 'samples')}/s")
    if metrics["seconds_left"]:
        words.append(f"{duration(metrics['seconds_left'])} left")
    return ", ".join(words)
