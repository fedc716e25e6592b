"""The dashboard of a grid on a terminal: the runs that are going on, and a table of the accuracies so far."""

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pucl.progress import StatusArea, bar_lines, duration, one_line
from pucl.runs.display import PROGRESS, ProgressWriter, main_accuracy, read_progress
from pucl.texts import counted, fixed

if TYPE_CHECKING:
    from rich.console import RenderableType

TABLE_FRAME = 3  # Lines of the table besides its rows: header, rule, and the number of hidden rows.

Positions = Mapping[str, tuple[float, float]]
"""For each run that is going on, by its directory: the finished share of its training, and the seconds left."""

Key = tuple[str, str]
"""Row and column of the table."""


class Dashboard:
    """Shows a grid in a status area until the context ends.

    Args:
        area: Where it is shown.
        names: Displayed names of the runs, by directory.
        rows: The row of each run and the part of its table, by directory.
        out: The directory of the grid.
        workers: How many runs go on at a time.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._area.close(erase=kind is None)

    def writer(self, place: str) -> ProgressWriter:
        """The display for a run in this process."""
        return ProgressWriter(
            label=f"{self._names[place]}: ", file=self._out / place / PROGRESS, grid=self.grid, speak=self.say
        )

    def send(self, place: str) -> None:
        """Note that a run goes to the next free worker. Without this note, a run appears with its first report."""
        with self._lock:
            self._sent.append(place)

    def finish(self, place: str, result: Mapping[str, Any] | None) -> None:
        """Note the result of a run; None if it failed."""
        with self._lock:
            del self._waiting[place]
            if result is None:
                self._failed += 1
            else:
                self._finished[place] = self._score(result)

    def say(self, words: str) -> None:
        """Print a line that stays above the dashboard."""
        self._area.say(words)

    def running(self) -> dict[str, dict[str, Any]]:
        """Latest progress of each run that is going on, by directory; empty if it has not reported yet."""
        with self._lock:
            sent = [place for place in self._sent if place in self._waiting]
            for place in sent or self._waiting:
                if progress := read_progress(self._out / place / PROGRESS, self.grid):
                    self._progress[place] = progress
            running = {place: self._progress[place] for place in self._waiting if place in self._progress}
            starting = [place for place in sent if place not in running]  # Some are sent before a worker is free.
            return running | {place: {} for place in starting[: max(0, self._workers - len(running))]}

    def draw(self) -> "RenderableType":
        """Heading, one line for each run that is going on, and the table; not higher than the terminal."""
        from rich.console import Group  # noqa: PLC0415 (an extra)

        with self._lock:
            running = self.running()
            room = self._area.height - 2  # Below the heading, and above the line of the cursor.
            lines = [(f"  {self._names[place]}:", *_share_and_text(each)) for place, each in running.items()]
            shown = lines if len(lines) <= room // 2 else lines[: max(0, room // 2 - 1)]
            parts = [one_line(self._heading(running)), bar_lines(shown)]
            if hidden := len(lines) - len(shown):
                parts.append(one_line(f"  {counted(hidden, 'more run')}"))
            rows = room - len(shown) - bool(hidden) - TABLE_FRAME
            return Group(*parts, *self._table(rows, running)) if rows > 0 else Group(*parts)

    def _heading(self, running: Mapping[str, Mapping[str, Any]]) -> str:
        words = [f"{len(self._finished)} of {len(self._names)} runs done"]
        words += [f"{self._failed} failed"] if self._failed else []
        positions = {place: at for place, progress in running.items() if (at := _position(progress))}
        return ", ".join([*words, f"{len(running)} running", self._left(positions)])

    def _table(self, most_rows: int, running: Mapping[str, Any]) -> "list[RenderableType]":
        """The table of accuracies; if it has too many rows, those that changed last."""
        from rich.box import SIMPLE_HEAD  # noqa: PLC0415 (an extra)
        from rich.table import Table  # noqa: PLC0415 (an extra)

        cells = self._cells()
        latest = [self._keys[place] for place in (*running, *reversed(self._finished), *self._keys)]
        if len({part for _, part in cells}) > len({row for row, _ in cells}):  # Terminals have more lines than columns.
            cells = {(part, row): text for (row, part), text in cells.items()}
            latest = [(part, row) for row, part in latest]
        rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
        chosen = set(list(dict.fromkeys(row for row, _ in latest))[:most_rows])
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for header in ("", *(column or "accuracy, %" for column in columns)):
            table.add_column(one_line(header))
        for row in rows:
            if row in chosen:
                table.add_row(one_line(row), *(one_line(cells.get((row, column), "")) for column in columns))
        hidden = len(rows) - len(chosen)
        return [table, one_line(counted(hidden, "more row"))] if hidden else [table]

    def _cells(self) -> dict[Key, str]:
        """Mean accuracy in percent and the number of finished runs, as text."""
        places: dict[Key, list[str]] = {}
        for place, key in self._keys.items():
            places.setdefault(key, []).append(place)
        return {key: self._cell(each) for key, each in places.items()}

    def _cell(self, places: Sequence[str]) -> str:
        scores = [score for place in places if (score := self._finished.get(place)) is not None]
        return f"{fixed(100 * sum(scores) / len(scores))} ({len(scores)} of {len(places)})" if scores else "-"


def _share_and_text(progress: Mapping[str, Any]) -> tuple[float | None, str]:
    """Finished share of a training and its metrics, the most important first; a narrow terminal cuts the rest."""
    if not progress or "status" in progress:
        return None, str(progress.get("status", "starting"))
    words = [f"epoch {progress['epoch']:.0f} of {progress['epochs']:.0f}", f"{duration(progress['seconds_left'])} left"]
    shown = {"loss": "loss {:.4f}", "floored": "floored {:.0%}", "knn": "kNN {:.1%}"}
    words += [text.format(progress[name]) for name, text in shown.items() if name in progress]
    return progress["step"] / progress["steps"], ", ".join(words)


def _position(progress: Mapping[str, Any]) -> tuple[float, float] | None:
    if "status" in progress:
        return 1.0, 0.0
    return (progress["step"] / progress["steps"], float(progress["seconds_left"])) if progress else None
