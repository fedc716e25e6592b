"""What run directories hold, put together to what a page is about. What cannot be read is named, and left out."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pucl.config import RunConfig
from pucl.records import DAMAGED, DamagedError, MismatchError, read_record
from pucl.runs.compare import BASE, RowsRecord
from pucl.runs.directory import RunDirectory
from pucl.runs.lines import Line, make_line
from pucl.runs.tables import TableRecord
from pucl.texts import counted

UNREADABLE = (ValueError, OSError)
"""What reading a file that is damaged, or of another version, raises."""

LINE_FIELDS = {each.name for each in dataclasses.fields(Line)}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the directory of one run says.

    Args:
        path: The directory.
        config: What was run.
        result: What it came to; None while it is not finished.
        history: The metrics of each epoch.
        environment: With what it was made.
    """

    path: Path
    config: RunConfig
    result: dict[str, Any] | None
    history: list[dict[str, Any]]
    environment: dict[str, Any]


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
    """Read runs, comparisons and tables.

    Args:
        places: Directories. Runs that are given one by one and agree in framework and data become one group.
    """
    groups: list[Group] = []
    loose: list[Run] = []
    skipped: list[tuple[Path, str]] = []

    def skip(path: Path, error: object) -> None:
        if isinstance(error, DamagedError):  # Without directories of this machine: the page may be sent to others.
            error = f"{error.file.name} {DAMAGED}: {error.why}"
        skipped.append((path, str(error) or type(error).__name__))

    for place in places:
        try:
            if (file := place / "comparison.json").is_file():
                groups.append(_comparison(file, read_record(file, RowsRecord), skip))
            elif (file := place / "table.json").is_file():
                table = read_record(file, TableRecord)
                for name, part in table["data"].items():
                    groups.append(_comparison(file, {"command": table.get("command", ""), **part}, skip, name))
            elif (place / "config.json").is_file():
                loose.append(read_run(place))
            else:
                skip(place, "is neither a run nor a comparison or table: it has none of their files")
        except UNREADABLE as error:
            skip(place, error)
    groups += _grouped(loose)
    for group in groups:
        for run in (run for row in group.rows for run in row.runs):
            if run.result is None:
                skip(run.path, f"is not finished: {len(run.history)} of {counted(run.config.epochs, 'epoch')} shown")
    return Gathered(groups=tuple(group for group in groups if group.rows), skipped=tuple(skipped))


def read_run(path: Path) -> Run:
    """What the directory of a run says.

    Raises:
        ValueError: If it is damaged, or of a version that is not known here.
        OSError: If it cannot be read.
    """
    directory = RunDirectory(path)
    if not path.is_dir():
        raise ValueError("there is no such directory")
    return Run(
        path=path,
        config=directory.config(),
        result=directory.result(),
        history=directory.history(),
        environment=directory.environment(),
    )


def _comparison(file: Path, record: RowsRecord, skip: Callable[[Path, object], None], name: str | None = None) -> Group:
    """The rows that a comparison or one part of a table lists, with their runs."""
    place = file.parent
    runs: dict[str, tuple[Run, ...]] = {}
    for row, places in record["runs"].items():
        readable = []
        for each in places:
            try:
                _check_below(each, file)
                readable.append(read_run(place / each))
            except UNREADABLE as error:
                skip(place / each, error)
        runs[row] = tuple(readable)
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


def _check_below(place: str, file: Path) -> None:
    """Refuse a path that leads out of the directory of its record: a page shows what is in that directory."""
    if Path(place).is_absolute() or ".." in Path(place).parts:
        raise DamagedError(file, f"runs are below it: expected a relative path, got {place!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: object) -> float | None:
    """A number that can be shown; None for one that is none, such as the loss of a run that went astray."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
