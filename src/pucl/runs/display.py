"""What a training shows while it runs, and the file in which it reports its progress to a grid."""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pucl.progress import StatusArea, bar_lines, duration
from pucl.records import read_record
from pucl.runs.lines import PROBES

PROGRESS = ".progress"  # File in the directory of a run that is going on: its position and latest metrics.
POSITION = ("epoch", "epochs", "step", "steps", "seconds_left")  # Fields that every training reports.
WRITE_SECONDS = 0.5


def main_accuracy(result: Mapping[str, Any]) -> float | None:
    """Accuracy of the first probe that a result has; None if it has none."""
    return next((result[probe] for probe in PROBES if probe in result), None)


@dataclass(frozen=True)
class Display:
    """Shows a training: live on a terminal, one line per epoch elsewhere. It is a context manager as `StatusArea` is.

    Args:
        area: Where to show it; None shows nothing.
        label: Printed before everything, such as the row and the seed of a comparison.
        score: The accuracy of a result that a grid's table shows.
    """

    area: StatusArea | None = None
    label: str = ""
    score: Callable[[Mapping[str, Any]], float | None] = main_accuracy

    def labelled(self, label: str) -> "Display":
        """The same display with a label."""
        return replace(self, label=f"{label}: ")

    def say(self, words: str) -> None:
        """Print a line that stays, such as a warning."""
        if self.area:
            self.area.say(self.label + words)

    def status(self, words: str) -> None:
        """Show what is being done now."""
        if self.area:
            self.area.show_text(self.label + words)

    def step(self, metrics: Mapping[str, Any]) -> None:
        """Show the position of the training after a step; see `pucl.training.loop.Training.position`."""
        if self.area:
            share = metrics["step"] / metrics["steps"]
            self.area.show(lambda: bar_lines([(self.label.rstrip(), share, f"{share:4.0%}  {describe(metrics)}")]))

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """Print the metrics of an epoch, unless the training is shown live."""
        if self.area and not self.area.live:
            self.area.say(self.label + describe(metrics))

    def __enter__(self) -> "Display":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.area:
            self.area.close(erase=kind is None)


@dataclass
class Pace:
    """Limits how often something happens.

    Args:
        seconds: Shortest time between two events.
    """

    seconds: float
    last: float = -math.inf

    def due(self) -> bool:
        """Whether enough time has passed since the last event."""
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True


@dataclass(frozen=True, kw_only=True)
class ProgressWriter(Display):
    """Writes the progress of a training to a file, which the driver of its grid reads from any process.

    Args:
        file: The file; see `read_progress`.
        grid: Identifies the grid, so that files of a killed grid are not mistaken for its own.
        speak: Prints a line that stays; None drops such lines.
    """

    file: Path
    grid: str
    speak: Callable[[str], None] | None = None
    pace: Pace = field(default_factory=lambda: Pace(WRITE_SECONDS))
    known: dict[str, Any] = field(default_factory=dict)

    def say(self, words: str) -> None:
        """Pass on a line that stays."""
        if self.speak is not None:
            self.speak(self.label + words)

    def status(self, words: str) -> None:
        """Write what is being done now."""
        self._write({"status": words})

    def step(self, metrics: Mapping[str, Any]) -> None:
        """Write the position of the training, at most every `WRITE_SECONDS`."""
        self.epoch(metrics)
        if self.pace.due():
            self._write(self.known)

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """Remember the metrics of an epoch; the next epoch begins without a loss."""
        names = (*POSITION, "loss", "floored", "knn")
        self.known.update({name: metrics[name] for name in names if name in metrics})

    def _write(self, record: dict[str, Any]) -> None:
        with suppress(OSError):  # The run itself reports a full disk.
            self.file.write_text(json.dumps({"grid": self.grid, **record}))


def read_progress(file: Path, grid: str) -> dict[str, Any] | None:
    """Progress of a run of this grid; None if there is no such file, or it is damaged or half written."""
    try:
        record = read_record(file, dict)
    except (OSError, ValueError):
        return None
    if record.get("grid") != grid:
        return None
    return record if "status" in record or all(name in record for name in POSITION) else None


def describe(metrics: Mapping[str, Any]) -> str:
    """Metrics of a training as one line."""
    words = [f"epoch {metrics['epoch']:.0f} of {metrics['epochs']:.0f}"]
    if "loss" in metrics:
        words += [f"loss {metrics['loss']:.4f}", f"floored {metrics['floored']:.0%}"]
    if "knn" in metrics:
        words.append(f"kNN {metrics['knn']:.1%}")
    words.append(f"{metrics['samples_per_second']:.0f} {metrics.get('unit', 'samples')}/s")
    if metrics["seconds_left"]:
        words.append(f"{duration(metrics['seconds_left'])} left")
    return ", ".join(words)
