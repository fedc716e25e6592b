"""A grid of runs while it goes on, on a terminal: a block of lines that renews itself."""

import sys
import threading
import unicodedata
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pucl.progress import duration, terminal_size
from pucl.runs.display import PROGRESS, Report, main_accuracy, read_report
from pucl.texts import counted, fixed, printable, table

RENEWAL_SECONDS = 0.5
FRAME = 3  # Lines of a table beside its rows: the head, a rule, and a word on what is not shown.

Positions = Mapping[str, tuple[float, float]]
"""Of runs that go on, by place: which share of the training is done, and how many seconds are left of it."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What the runs of one row in one part came to so far.

    Args:
        runs: How many there are.
        scores: Of those that are finished, in percent.
    """

    runs: int
    scores: tuple[float, ...] = ()

    def __str__(self) -> str:
        if not self.scores:
            return "-"
        return f"{fixed(sum(self.scores) / len(self.scores))} ({len(self.scores)} of {self.runs})"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What is known of a grid at one moment.

    Args:
        runs: How many there are.
        done: How many came to a result.
        failed: How many came to nothing.
        left: How long the rest will take, in words.
        going: By the name of a run that goes on, where it is.
        cells: By row and part of the table.
        latest: Rows and parts with something going on, and then those where something was finished, the last first.
    """

    runs: int
    done: int
    failed: int
    left: str
    going: Mapping[str, str] = field(default_factory=dict)
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)
    latest: Sequence[tuple[str, str]] = ()


def block(picture: Picture, columns: int, lines: int) -> list[str]:
    """The lines that show a grid, none too long and not too many for a terminal of this size.

    Where there is not room for all, half is for the runs that go on and half for the table, of which then only what
    changed last is shown.
    """
    width, room = columns - 1, lines - 1  # The cursor stands below: in the last line, it would make all of it scroll.
    words = [f"{picture.done} of {picture.runs} runs done"]
    words += [f"{picture.failed} failed"] if picture.failed else []
    words += [f"{len(picture.going)} going on", picture.left]
    below = room - 1
    rows = len({row for row, _ in picture.cells})
    going = [f"  {name}: {where}" for name, where in picture.going.items()]
    going = _some(going, max(below // 2, below - rows - 2))
    shown = [", ".join(words), *going, *_table(picture, width, below - len(going))]
    return [_cut(line, width) for line in shown[: max(1, room)]]


def _some(lines: list[str], room: int) -> list[str]:
    """As many as there is room for, and a word on the rest."""
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], f"  and {len(lines) - room + 1} more"] if room > 0 else []


def _table(picture: Picture, width: int, room: int) -> list[str]:
    """Rows and parts, as many as there is room for, and a word on the rest."""
    if room <= FRAME or not picture.cells:
        return []
    cells = {key: str(cell) for key, cell in picture.cells.items()}
    rows, parts = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    recent_rows, recent_parts = ([key[axis] for key in picture.latest] for axis in (0, 1))
    free = width - max(map(len, rows))
    columns = 0
    ranked = _by_recency(parts, recent_parts)
    for part in ranked:
        free -= 2 + max(len(_title(part)), *(len(text) for (_, other), text in cells.items() if other == part))
        if free < 0:
            break
        columns += 1
    if columns < len(parts) and len(parts) > len(rows):  # Many parts go down better than across.
        flipped = {(part, row): cell for (row, part), cell in picture.cells.items()}
        latest = [(part, row) for row, part in picture.latest]
        return _table(replace(picture, cells=flipped, latest=latest), width, room)
    columns = max(1, columns)
    lines = len(rows) if len(rows) + 2 + (columns < len(parts)) <= room else room - FRAME
    shown_rows = [row for row in rows if row in _by_recency(rows, recent_rows)[:lines]]
    shown_parts = [part for part in parts if part in ranked[:columns]]
    head = ["", *map(_title, shown_parts)]
    body = [[row, *(cells.get((row, part), "") for part in shown_parts)] for row in shown_rows]
    hidden = [(len(rows) - len(shown_rows), "row"), (len(parts) - len(shown_parts), "column")]
    words = " and ".join(counted(count, what) for count, what in hidden if count)
    return [*table([head, *body]).splitlines(), *([f"not shown: {words}"] if words else [])]


def _by_recency(names: Sequence[str], recent: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*recent, *names]))


def _title(part: str) -> str:
    """The head of a column; where a grid has one part, that has no name."""
    return part or "accuracy, %"


def _cut(text: str, width: int) -> str:
    """As much of a text as so many columns of a terminal have room for; names may have wide letters in them."""
    kept, used = "", 0
    for letter in printable(text):
        used += _width(letter)
        if used > width:
            break
        kept += letter
    return kept


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


class Live:
    """Shows a grid on the terminal that stderr is, renewing itself, until it is left.

    Args:
        names: By the path of a run, what it is called.
        rows: By the path of a run, its row and the part of its table.
        out: The directory that places are below.
        workers: How many go on at a time.
        left: How long the rest will take, in words.
        score: What the table shows of a result, as a share.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        rows: Mapping[str, tuple[str, str]],
        out: Path,
        workers: int,
        left: Callable[[Positions], str],
        score: Callable[[Mapping[str, Any]], float | None] = main_accuracy,
    ) -> None:
        self.grid = uuid.uuid4().hex
        self._names, self._out, self._workers = names, out, workers
        self._left, self._score = left, score
        self._keys = rows
        self._waiting = dict.fromkeys(names)
        self._sent: list[str] = []
        self._finished: dict[str, float | None] = {}
        self._failed: set[str] = set()
        self._reports: dict[str, dict[str, Any]] = {}
        self._shown: list[str] = []
        self._lock = threading.RLock()
        self._end = threading.Event()
        self._renewal = threading.Thread(target=self._renew, daemon=True, name="pucl-live")

    def __enter__(self) -> "Live":
        self._renewal.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the block away, for whatever is printed next; after Ctrl-C it stays as it was last."""
        self._end.set()
        self._renewal.join()
        if kind is None:
            self._write([])

    def report(self, place: str) -> Report:
        """What a run of this process tells how it goes."""
        return Report(
            label=f"{self._names[place]}: ", file=self._out / place / PROGRESS, grid=self.grid, speak=self.say
        )

    def send(self, place: str) -> None:
        """A run is next for a worker that is free. Where that is not known, it is shown once it tells something."""
        with self._lock:
            self._sent.append(place)

    def finish(self, place: str, result: Mapping[str, Any] | None) -> None:
        """A run is at its end; None where it failed."""
        with self._lock:
            del self._waiting[place]
            if result is None:
                self._failed.add(place)
            else:
                self._finished[place] = self._score(result)

    def say(self, words: str) -> None:
        """Something that stays, above the block."""
        with self._lock:
            self._write(self._shown, above=words)

    def picture(self) -> Picture:
        """What is known now."""
        with self._lock:
            sent = [place for place in self._sent if place in self._waiting]
            for place in sent or self._waiting:
                if report := read_report(self._out / place / PROGRESS, self.grid):
                    self._reports[place] = report
            going = {place: self._reports[place] for place in self._waiting if place in self._reports}
            starting = [place for place in sent if place not in going]  # Some may be sent before a worker is free.
            going |= {place: {} for place in starting[: max(0, self._workers - len(going))]}
            return Picture(
                runs=len(self._names),
                done=len(self._finished),
                failed=len(self._failed),
                left=self._left({place: at for place, report in going.items() if (at := _position(report))}),
                going={self._names[place]: _where(report) for place, report in going.items()},
                cells=self._cells(),
                latest=[self._keys[place] for place in (*going, *reversed(self._finished))],
            )

    def _cells(self) -> dict[tuple[str, str], Cell]:
        scores: dict[tuple[str, str], list[float | None]] = {}
        for place, key in self._keys.items():
            scores.setdefault(key, []).append(self._finished.get(place))
        return {
            key: Cell(runs=len(values), scores=tuple(100 * value for value in values if value is not None))
            for key, values in scores.items()
        }

    def _renew(self) -> None:
        while not self._end.wait(RENEWAL_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            picture = self.picture()
            if not self._shown and not picture.going:
                return  # What connects to workers may have something to say first.
            lines = block(picture, *terminal_size())
            if lines != self._shown:
                self._write(lines)

    def _write(self, lines: list[str], above: str | None = None) -> None:
        """Write these lines over those that are shown, and this above them."""
        columns = max(1, terminal_size().columns)
        # Where the terminal was made narrower, it has broken lines that were whole.
        up = sum(max(1, -(-_width(line) // columns)) for line in self._shown)
        text = (f"\x1b[{up}A" if up else "") + "\r\x1b[J"
        words = [] if above is None else [printable(line) for line in above.split("\n")]
        text += "".join(f"{line}\n" for line in words + lines)
        self._shown = lines
        with suppress(OSError, ValueError):  # A terminal that is gone is no reason to stop a grid.
            sys.stderr.write(text)
            sys.stderr.flush()


def _where(report: Mapping[str, Any]) -> str:
    """Where a run is, the most important first: a narrow terminal cuts the rest."""
    if not report:
        return "starting"
    if "status" in report:
        return str(report["status"])
    words = [f"epoch {report['epoch']:.0f} of {report['epochs']:.0f}", f"{duration(report['seconds_left'])} left"]
    shown = {"loss": "loss {:.4f}", "floored": "floored {:.0%}", "knn": "kNN {:.1%}"}
    return ", ".join(words + [text.format(report[name]) for name, text in shown.items() if name in report])


def _position(report: Mapping[str, Any]) -> tuple[float, float] | None:
    if "status" in report:
        return 1.0, 0.0
    return (report["step"] / report["steps"], float(report["seconds_left"])) if report else None
