"""The displays of runs: of one training, of a training that reports to its grid by a file, and of a whole grid."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pucl.evaluation import known_numbers, numbers_in
from pucl.progress import StatusArea, bar_lines, duration, one_line
from pucl.records import read_record
from pucl.texts import counted, fixed

if TYPE_CHECKING:
    from rich.console import RenderableType

PROGRESS = ".progress"  # A file in the directory of an unfinished run: its position and latest metrics.
POSITION = ("epoch", "epochs", "step", "steps", "seconds_left")  # Fields that every training reports.
WRITE_SECONDS = 0.5
MOST_LINES = 8  # Running trainings that are shown. Rich cuts what is higher than the terminal.

Positions = Mapping[str, tuple[float, float]]
"""For each running training, by its directory: the finished share of its training, and the seconds left."""

Key = tuple[str, str]
"""Row and column of the table."""


def main_accuracy(result: Mapping[str, Any]) -> float | None:
    """The first number of a probe that a result has; None if it has none."""
    return next((result[name] for name in numbers_in([result])), None)


@dataclass
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
            row = self.label.rstrip(), share, f"{share:4.0%}  {describe(metrics)}"
            self.area.show(lambda: bar_lines([row], below=metrics.get("correction.report", "")))

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """Print the metrics of an epoch and what the correction believes, unless the training is shown live."""
        if self.area and not self.area.live:
            report = metrics.get("correction.report")
            self.area.say(self.label + describe(metrics) + (f"\n  {report}" if report else ""))

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.area:
            self.area.close(erase=kind is None)


SILENT = Display()
"""Shows nothing."""


@dataclass(kw_only=True)
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
    known: dict[str, Any] = field(default_factory=dict)
    written: float = -WRITE_SECONDS  # When, on the clock of `time.monotonic`.

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
        if time.monotonic() - self.written >= WRITE_SECONDS:
            self.written = time.monotonic()
            self._write(self.known)

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """Remember the metrics of an epoch; the next epoch begins without a loss."""
        names = (*POSITION, "loss", "floored", "correction.removed", *known_numbers())
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
    """Metrics of a training as one line, the most important first; a narrow terminal cuts the rest."""
    words = [f"epoch {metrics['epoch']:.0f} of {metrics['epochs']:.0f}"]
    if metrics["seconds_left"]:
        words.append(f"{duration(metrics['seconds_left'])} left")
    if "loss" in metrics:
        words += [f"loss {metrics['loss']:.4f}", f"floored {metrics['floored']:.0%}"]
    if "correction.removed" in metrics:
        words.append(f"removed {metrics['correction.removed']:.0%}")
    words += [f"{number.short} {metrics[name]:.1%}" for name, number in known_numbers().items() if name in metrics]
    if "samples_per_second" in metrics:
        words.append(f"{metrics['samples_per_second']:.0f} {metrics.get('unit', 'samples')}/s")
    return ", ".join(words)


class Dashboard:
    """Shows a grid in a status area until the context ends.

    Args:
        names: Displayed names of the runs, by directory.
        rows: The row of each run and the part of its table, by directory.
        left: Returns the time left, in words.
        score: The accuracy of a result, from 0 to 1; None if it has none.
    """

    def __init__(
        self,
        area: StatusArea,
        names: Mapping[str, str],
        rows: Mapping[str, Key],
        out: Path,
        workers: int,
        left: Callable[[Positions], str],
        score: Callable[[Mapping[str, Any]], float | None] = main_accuracy,
    ) -> None:
        self.grid = uuid.uuid4().hex
        self._area, self._names, self._out, self._workers = area, names, out, workers
        self._left, self._score = left, score
        self._keys = rows
        self._waiting = dict.fromkeys(names)
        self._sent: list[str] = []
        self._finished: dict[str, float | None] = {}
        self._failed = 0
        self._progress: dict[str, dict[str, Any]] = {}
        self._lock = threading.RLock()  # The area draws from another thread.

    def __enter__(self) -> "Dashboard":
        self._area.show(self.draw)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._area.close(erase=kind is None)

    def writer(self, path: str) -> ProgressWriter:
        """The display for a run in this process."""
        return ProgressWriter(
            label=f"{self._names[path]}: ", file=self._out / path / PROGRESS, grid=self.grid, speak=self.say
        )

    def send(self, path: str) -> None:
        """Note that a run goes to the next free worker. Without this note, a run appears with its first report."""
        with self._lock:
            self._sent.append(path)

    def finish(self, path: str, result: Mapping[str, Any] | None) -> None:
        """Note the result of a run; None if it failed."""
        with self._lock:
            del self._waiting[path]
            if result is None:
                self._failed += 1
            else:
                self._finished[path] = self._score(result)

    def say(self, words: str) -> None:
        """Print a line that stays above the dashboard."""
        self._area.say(words)

    def running(self) -> dict[str, dict[str, Any]]:
        """Latest progress of each running training, by directory; empty if it has not reported yet."""
        with self._lock:
            sent = [path for path in self._sent if path in self._waiting]
            for path in sent or self._waiting:
                if progress := read_progress(self._out / path / PROGRESS, self.grid):
                    self._progress[path] = progress
            running = {path: self._progress[path] for path in self._waiting if path in self._progress}
            starting = [path for path in sent if path not in running]  # Some are sent before a worker is free.
            return running | {path: {} for path in starting[: max(0, self._workers - len(running))]}

    def draw(self) -> "RenderableType":
        """Heading, one line for each running training, and the table."""
        from rich.console import Group  # noqa: PLC0415 (an extra)

        with self._lock:
            running = self.running()
            lines = [(f"  {self._names[path]}:", *_share_and_text(each)) for path, each in running.items()]
            parts = [one_line(self._heading(running)), bar_lines(lines[:MOST_LINES])]
            if len(lines) > MOST_LINES:
                parts.append(one_line(f"  {counted(len(lines) - MOST_LINES, 'more run')}"))
            return Group(*parts, self._table())

    def _heading(self, running: Mapping[str, Mapping[str, Any]]) -> str:
        words = [f"{len(self._finished)} of {len(self._names)} runs done"]
        words += [f"{self._failed} failed"] if self._failed else []
        positions = {path: at for path, progress in running.items() if (at := _position(progress))}
        return ", ".join([*words, f"{len(running)} running", self._left(positions)])

    def _table(self) -> "RenderableType":
        """Mean accuracy in percent and the number of finished runs, by row and part."""
        from rich.box import SIMPLE_HEAD  # noqa: PLC0415 (an extra)
        from rich.table import Table  # noqa: PLC0415 (an extra)

        paths: dict[Key, list[str]] = {}
        for path, (row, part) in self._keys.items():
            paths.setdefault((row, part), []).append(path)
        rows, columns = (list(dict.fromkeys(names)) for names in zip(*paths, strict=True))
        if len(columns) > len(rows):  # Terminals have more lines than columns.
            rows, columns = columns, rows
            paths = {(part, row): each for (row, part), each in paths.items()}
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for header in ("", *(column or "accuracy, %" for column in columns)):
            table.add_column(one_line(header))
        for row in rows:
            table.add_row(one_line(row), *(one_line(self._cell(paths.get((row, column), []))) for column in columns))
        return table

    def _cell(self, paths: Sequence[str]) -> str:
        scores = [score for path in paths if (score := self._finished.get(path)) is not None]
        nothing = "-" if paths else ""
        return f"{fixed(100 * sum(scores) / len(scores))} ({len(scores)} of {len(paths)})" if scores else nothing


def _share_and_text(progress: Mapping[str, Any]) -> tuple[float | None, str]:
    """Finished share of a training, None if it is unknown, and its metrics."""
    if not progress or "status" in progress:
        return None, str(progress.get("status", "starting"))
    return progress["step"] / progress["steps"], describe(progress)


def _position(progress: Mapping[str, Any]) -> tuple[float, float] | None:
    if "status" in progress:
        return 1.0, 0.0
    return (progress["step"] / progress["steps"], float(progress["seconds_left"])) if progress else None
