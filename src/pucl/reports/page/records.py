"""Read the runs of a page from run directories and collections.

What cannot be read is reported and left out.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

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
from pucl.runs.rows import TableRow, make_row
from pucl.runs.tables import BASE, RowsRecord, TableRecord
from pucl.texts import counted

UNREADABLE = (ValueError, OSError)
"""Errors of reading a file that is damaged or of another version."""

SUMMARY_FIELDS = {each.name for each in dataclasses.fields(TableRow)}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the page: its numbers, and the runs they come from."""

    summary: TableRow
    runs: tuple[Run, ...]  # One for each seed that could be read.
    published: dict[str, float | None] = field(default_factory=dict)  # By column, such as "paper".


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that are compared with each other: one framework on one set of data."""

    name: str  # Of the data.
    path: Path | None  # Directory of the runs; None if they were given one by one.
    rows: tuple[Row, ...]
    base: str = BASE  # Name of the row that differences are taken to.
    command: str = ""  # Made the runs; empty if it is unknown.
    note: str = ""
    yardstick: str = ""  # The number that leads; empty for the first in the order of tables.

    @property
    def config(self) -> RunConfig | None:
        """Configuration of the first run that could be read."""
        return next((run.config for row in self.rows for run in row.runs), None)


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """All runs of a page."""

    directories: tuple[Path, ...]  # As the user gave them.
    groups: tuple[Group, ...]
    skipped: tuple[tuple[Path, str], ...]  # Paths that could not be read, or only in part, and why.


Skip = Callable[[Path, object], None]
"""Called with a path that cannot be read, and an error or a reason."""


def gather(directories: Sequence[Path]) -> Gathered:
    """Read runs, comparisons, tables and collections.

    Args:
        directories: Where they are. A collection without a table counts as runs given one by one. Runs that are
            given one by one become one group if they have the same framework and data.
    """
    groups: list[Group] = []
    loose: list[Run] = []
    skipped: dict[tuple[Path, str], None] = {}  # Each reason once, in order.

    def skip(path: Path, error: object) -> None:
        if isinstance(error, DamagedError):  # Without directories of this machine: the page may be sent to others.
            if error.file.name in (RUNS, METRICS, ENVIRONMENTS):  # Of all runs together: report it once.
                path = error.file.parent
            error = f"{error.file.name} {DAMAGED}: {error.why}"
        skipped[path, str(error) or type(error).__name__] = None

    for directory in directories:
        collection = _open(directory, skip)
        read = partial(_read_runs, directory, collection, skip)
        try:
            if (file := directory / "comparison.json").is_file():
                groups.append(_comparison(file, read_record(file, RowsRecord), read))
            elif (file := directory / "table.json").is_file():
                table = read_record(file, TableRecord)
                for name, part in table["data"].items():
                    groups.append(_comparison(file, {"command": table.get("command", ""), **part}, read, name))
            elif (directory / "config.json").is_file():
                loose.append(read_run(directory))
            elif collection is not None:
                loose += read(collection, directory / RUNS)
            else:
                skip(directory, "is neither a run nor a comparison, table or collection: it has none of their files")
        except UNREADABLE as error:
            skip(directory, error)
    groups += _grouped(loose)
    for group in groups:
        for run in (run for row in group.rows for run in row.runs):
            if run.result is None:
                skip(run.path, f"is not finished: {len(run.history)} of {counted(run.config.epochs, 'epoch')} shown")
    return Gathered(
        directories=tuple(directories),
        groups=tuple(group for group in groups if group.rows),
        skipped=tuple(skipped),
    )


def _open(directory: Path, skip: Skip) -> Collection | None:
    """The collection in a directory, if there is one that can be read."""
    try:
        collection = open_collection(directory)
    except UNREADABLE as error:
        skip(directory, error)
        return None
    for damaged in collection.damaged if collection is not None else ():
        skip(directory, damaged)
    return collection


def _read_runs(
    directory: Path, collection: Collection | None, skip: Skip, paths: Iterable[str], file: Path
) -> tuple[Run, ...]:
    """Those runs that can be read, each from its own directory or, if that does not exist, from the collection.

    Args:
        directory: The directory of all runs.
        collection: The collection of the directory. It has no encoders and no embeddings.
        skip: Called for runs that cannot be read.
        paths: Paths of the runs, relative to the directory.
        file: The record that lists them.
    """
    found = []
    for path in paths:
        try:
            check_below(path, file)
            if collection is not None and path in collection and not (directory / path).is_dir():
                found.append(collection.run(path))
            else:
                found.append(read_run(directory / path))
        except UNREADABLE as error:
            skip(directory / path, error)
    return tuple(found)


def _comparison(
    file: Path, record: RowsRecord, read: Callable[[Iterable[str], Path], tuple[Run, ...]], name: str = ""
) -> Group:
    """The rows of a comparison, or of one part of a table, with their runs."""
    runs = {row: read(paths, file) for row, paths in record["runs"].items()}
    rows = []
    for fields in record["lines"]:
        published = {
            column: number
            for column, number in fields.items()
            if column not in SUMMARY_FIELDS and (number is None or type(number) in (int, float))
        }
        try:
            known = TableRow.from_json({column: value for column, value in fields.items() if column in SUMMARY_FIELDS})
        except MismatchError as error:
            raise DamagedError(file, str(error)) from error
        rows.append(Row(summary=known, runs=runs.get(known.name, ()), published=published))
    config = next((run.config for row in rows for run in row.runs), None)
    base = record.get("base")  # That of a comparison is a configuration.
    return Group(
        name=name or (Path(config.data).name if config else file.parent.name),
        path=file.parent,
        rows=tuple(rows),
        base=base if isinstance(base, str) else BASE,
        command=record.get("command", ""),
        note=record.get("note", ""),
        yardstick=record.get("yardstick", ""),
    )


def _grouped(runs: Sequence[Run]) -> list[Group]:
    """Group runs that were given one by one by framework and data, and their seeds by row.

    A row has the name of its correction, followed by those settings and other fields that differ between the runs. It
    is compared with plain, with all other fields equal.
    """
    by_data: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_data.setdefault((run.config.framework, run.config.data), []).append(run)
    groups = []
    for (_, data), members in by_data.items():
        rows: dict[str, list[Run]] = {}
        bases: dict[str, str] = {}
        for run in members:
            correction = run.config.correction
            same = [each.config.settings for each in members if each.config.correction == correction]
            others = _differing(_other_fields(run), [_other_fields(each) for each in members])
            name = ", ".join([correction, *_differing(run.config.settings, same), *others])
            rows.setdefault(name, []).append(run)
            bases[name] = ", ".join([BASE, *others])
        results = {
            name: {run.config.seed: run.result for run in of_row if run.result is not None}
            for name, of_row in rows.items()
        }
        made = []
        for name, of_row in rows.items():
            base = results.get(bases[name]) if name != bases[name] else None
            summary = make_row(name, of_row[0].config.correction, results[name], base)
            made.append(Row(summary=summary, runs=tuple(of_row)))
        groups.append(Group(name=Path(data).name, path=None, rows=tuple(made)))
    return groups


def _other_fields(run: Run) -> dict[str, Any]:
    ours = ("seed", "correction", "settings")
    return {name: value for name, value in run.config.as_json().items() if name not in ours}


def _differing(values: Mapping[str, Any], all_values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of the values that are different elsewhere, with their names."""
    return [f"{name} {value}" for name, value in values.items() if any(v.get(name) != value for v in all_values)]
