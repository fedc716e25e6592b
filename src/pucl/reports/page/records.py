"""What run directories and collections hold, put together to what a page is about.

What cannot be read is named, and left out.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pucl.config import RunConfig
from pucl.records import DAMAGED, DamagedError, MismatchError, read_record
from pucl.runs.collection import (
    ENVIRONMENTS,
    METRICS,
    RUNS,
    Collection,
    Run,
    check_below,
    open_collection,
    read_run,
)
from pucl.runs.compare import BASE, RowsRecord
from pucl.runs.lines import Line, make_line
from pucl.runs.tables import TableRecord
from pucl.texts import counted

UNREADABLE = (ValueError, OSError)
"""What reading a file that is damaged, or of another version, raises."""

LINE_FIELDS = {each.name for each in dataclasses.fields(Line)}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table with the runs that it was made of.

    Args:
        line: Its numbers.
        runs: One for each seed that could be read.
        published: By column, such as ``"paper"``, what others have in its place.
    """

    line: Line
    runs: tuple[Run, ...]
    published: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that are compared with each other: one framework on one set of data.

    Args:
        name: Of the data.
        place: The directory that the runs are in; None where they were given one by one.
        rows: What is compared.
        base: The row that differences are taken to.
        command: What made the runs; empty where it is not known.
        note: What a reader should know.
    """

    name: str
    place: Path | None
    rows: tuple[Row, ...]
    base: str = BASE
    command: str = ""
    note: str = ""

    @property
    def config(self) -> RunConfig | None:
        """Of the first run that could be read."""
        return next((run.config for row in self.rows for run in row.runs), None)


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Everything that was asked for.

    Args:
        groups: What could be read.
        skipped: What could not, or not as a whole: where it is, and why.
    """

    groups: tuple[Group, ...]
    skipped: tuple[tuple[Path, str], ...]


def gather(places: Sequence[Path]) -> Gathered:
    """Read runs, comparisons, tables and collections.

    Args:
        places: Directories. The runs of a collection without a table count as given one by one. Runs that are given
            one by one and agree in framework and data become one group.
    """
    groups: list[Group] = []
    loose: list[Run] = []
    skipped: list[tuple[Path, str]] = []

    def skip(path: Path, error: object) -> None:
        if isinstance(error, DamagedError):  # Without directories of this machine: the page may be sent to others.
            if error.file.name in (RUNS, METRICS, ENVIRONMENTS):  # Of all runs together: report it once.
                path = error.file.parent
            error = f"{error.file.name} {DAMAGED}: {error.why}"
        if (told := (path, str(error) or type(error).__name__)) not in skipped:
            skipped.append(told)

    for place in places:
        try:
            stored = _Stored(place, skip)
            if (file := place / "comparison.json").is_file():
                groups.append(_comparison(file, read_record(file, RowsRecord), stored))
            elif (file := place / "table.json").is_file():
                table = read_record(file, TableRecord)
                for name, part in table["data"].items():
                    groups.append(_comparison(file, {"command": table.get("command", ""), **part}, stored, name))
            elif (place / "config.json").is_file():
                loose.append(read_run(place))
            elif stored.collection is not None:
                loose += stored.readable(stored.collection, place / RUNS)
            else:
                skip(place, "is neither a run nor a comparison, table or collection: it has none of their files")
        except UNREADABLE as error:
            skip(place, error)
    groups += _grouped(loose)
    for group in groups:
        for run in (run for row in group.rows for run in row.runs):
            if run.result is None:
                skip(run.path, f"is not finished: {len(run.history)} of {counted(run.config.epochs, 'epoch')} shown")
    return Gathered(groups=tuple(group for group in groups if group.rows), skipped=tuple(skipped))


class _Stored:
    """The runs below a directory, each in a directory of its own or in the collection.

    Args:
        place: The directory.
        skip: Is given what cannot be read, and why.
    """

    def __init__(self, place: Path, skip: Callable[[Path, object], None]) -> None:
        self._place, self._skip = place, skip
        self.collection: Collection | None = None
        try:
            self.collection = open_collection(place)
        except UNREADABLE as error:
            skip(place, error)
        if self.collection is not None:
            for damaged in self.collection.damaged:
                skip(place, damaged)

    def readable(self, paths: Iterable[str], file: Path) -> list[Run]:
        """The runs at these paths that can be read.

        Args:
            paths: Below the directory.
            file: The record that lists them.
        """
        found = []
        for path in paths:
            try:
                check_below(path, file)
                found.append(self._read(path))
            except UNREADABLE as error:
                self._skip(self._place / path, error)
        return found

    def _read(self, path: str) -> Run:
        """A directory has more than the collection that was made of it: encoder and embeddings."""
        if self.collection is None or path not in self.collection or (self._place / path).is_dir():
            return read_run(self._place / path)
        return self.collection.run(path)


def _comparison(file: Path, record: RowsRecord, stored: _Stored, name: str | None = None) -> Group:
    """The rows that a comparison or one part of a table lists, with their runs."""
    place = file.parent
    runs: dict[str, tuple[Run, ...]] = {}
    for row, places in record["runs"].items():
        runs[row] = tuple(stored.readable(places, file))
    given = record.get("base")
    base = given if isinstance(given, str) else BASE
    rows = []
    for line in record["lines"]:
        published = {
            column: number
            for column, number in line.items()
            if column not in LINE_FIELDS and (number is None or _is_number(number))
        }
        try:
            known = Line.from_json({column: value for column, value in line.items() if column in LINE_FIELDS})
        except MismatchError as error:
            raise DamagedError(file, str(error)) from error
        rows.append(Row(line=known, runs=runs.get(known.name, ()), published=published))
    config = next((run.config for row in rows for run in row.runs), None)
    return Group(
        name=name or (Path(config.data).name if config else place.name),
        place=place,
        rows=tuple(rows),
        base=base,
        command=record.get("command", ""),
        note=record.get("note", ""),
    )


def _grouped(runs: Sequence[Run]) -> list[Group]:
    """Runs that were given one by one, as groups of rows of seeds."""
    by_data: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_data.setdefault((run.config.framework, run.config.data), []).append(run)
    groups = []
    for (_, data), members in by_data.items():
        rows: dict[str, list[Run]] = {}
        for run in members:
            rows.setdefault(_row_name(run, members), []).append(run)
        results = {
            name: {run.config.seed: run.result for run in of_row if run.result is not None}
            for name, of_row in rows.items()
        }
        made = tuple(
            Row(
                line=make_line(
                    name,
                    of_row[0].config.correction,
                    results[name],
                    None if name == _plain(of_row[0], members) else results.get(_plain(of_row[0], members)),
                ),
                runs=tuple(of_row),
            )
            for name, of_row in rows.items()
        )
        groups.append(Group(name=Path(data).name, place=None, rows=made))
    return groups


def _row_name(run: Run, members: Sequence[Run]) -> str:
    """The correction, its settings where others have it with other ones, and what else is not the same in all runs."""
    config, same = run.config, [each.config for each in members if each.config.correction == run.config.correction]
    told = [
        f"{name} {value}" for name, value in config.settings.items() if any(c.settings.get(name) != value for c in same)
    ]
    return ", ".join([config.correction, *told, *_apart(run, members)])


def _plain(run: Run, members: Sequence[Run]) -> str:
    """The row that this run is to be compared with: plain, and in all else the same."""
    return ", ".join([BASE, *_apart(run, members)])


def _apart(run: Run, members: Sequence[Run]) -> list[str]:
    """What, beside correction and seed, is not the same in all runs."""
    fields = {
        name: value for name, value in run.config.as_json().items() if name not in ("seed", "correction", "settings")
    }
    return [
        f"{name} {value}" for name, value in fields.items() if any(getattr(m.config, name) != value for m in members)
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: object) -> float | None:
    """A number that can be shown; None for one that is none, such as the loss of a run that went astray."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
