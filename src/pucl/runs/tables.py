"""Comparisons and tables: run several methods with the same seeds, and write what each is worth.

A comparison has one part, one set of data. A table has several, beside accuracies that others published.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Required, TypedDict

import torch

import pucl
from pucl import processes
from pucl.config import NAMED_ROWS, ORACLES, PLAIN, RunConfig, SettingValue, check_known, check_once, row_names
from pucl.files import write_json, write_whole
from pucl.frameworks import modality_of, open_data
from pucl.records import conform
from pucl.runs import rows as table_rows
from pucl.runs.display import SILENT, Display
from pucl.runs.grid import Resources, check_some_finished, run_grid
from pucl.runs.jobs import Done, check_directories, grid_of
from pucl.runs.rows import Results, TableRow, make_row, numbers_of

BASE = PLAIN
"""The row that all others are compared with, unless a table names another one."""


class RowsRecord(TypedDict, total=False):
    """Rows and their runs in a comparison's record, or in one part of a table's; it may hold more than this."""

    lines: Required[list[dict[str, Any]]]
    runs: Required[dict[str, list[str]]]
    base: str | dict[str, Any]
    command: str
    note: str
    yardstick: str


class TableRecord(TypedDict, total=False):
    """A table's record: its parts by name; it may hold more than this."""

    data: Required[dict[str, RowsRecord]]
    command: str


def read_rows(record: Mapping[str, Any]) -> list[tuple[TableRow, dict[str, float | None]]]:
    """The rows of a `RowsRecord`, each with the numbers that others published, by column.

    Raises:
        MismatchError: If a row lacks a field, or has one of another type.
    """
    own = {each.name for each in fields(TableRow)}
    rows = []
    for line in record["lines"]:
        published = {name: conform(line[name], float | None, repr(name)) for name in line if name not in own}
        rows.append((TableRow.from_json({name: line[name] for name in line if name in own}), published))
    return rows


@dataclass(frozen=True, kw_only=True)
class ComparedRows:
    """Rows that are compared with each other, and their runs.

    Args:
        runs: By row: the directories of its finished runs, below that of the grid.
    """

    rows: tuple[TableRow, ...]
    runs: dict[str, list[str]]

    @property
    def failed(self) -> list[str]:
        """The errors of failed runs."""
        return [words for row in self.rows for words in row.failed]

    def as_json(self) -> dict[str, Any]:
        """The rows and runs for a record; see `RowsRecord`."""
        return {"lines": [row.as_json() for row in self.rows], "runs": self.runs}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a table: several methods on one set of data.

    Args:
        name: Its name in the table; its directory is the `slug` of the name.
        rows: Configurations by the name of their row; their seeds are replaced.
        base: The row that all others are compared with.
        seeds: Number of seeds, from 0.
        published: By column, such as ``"paper"``: accuracies in percent by row.
        note: What a reader should know, such as that other data stand in for absent ones.
        yardstick: The number of the runs that published ones are compared with, and that leads the table.
    """

    name: str
    rows: Mapping[str, RunConfig]
    base: str
    seeds: int
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""
    yardstick: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The results of each method in each part."""

    parts: tuple[Part, ...]
    results: dict[str, ComparedRows]

    @property
    def seconds(self) -> float:
        """Processor time of all runs."""
        return sum(row.processor_seconds for each in self.results.values() for row in each.rows)

    @property
    def failed(self) -> list[str]:
        """The errors of failed runs."""
        return [words for each in self.results.values() for words in each.failed]

    def as_json(self) -> dict[str, Any]:
        """The table for its record; see `TableRecord`."""
        data = {}
        for part in self.parts:
            results = self.results[part.name]
            data[part.name] = {
                "config": next(iter(part.rows.values())).as_json(),
                "base": part.base,
                "note": part.note,
                "yardstick": part.yardstick,
                "lines": [
                    row.as_json() | {column: numbers.get(row.name) for column, numbers in part.published.items()}
                    for row in results.rows
                ],
                "runs": results.runs,
            }
        return {"processor_seconds": self.seconds, "data": data}


def compare_corrections(
    base: RunConfig,
    corrections: Sequence[str],
    seeds: int,
    out: Path,
    *,
    settings: dict[str, dict[str, SettingValue]] | None = None,
    resources: Resources | None = None,
    display: Display = SILENT,
    command: str = "",
    yardstick: str = "",
) -> ComparedRows:
    """Train each correction with the same seeds, data order and views, and compare the results.

    Finished runs are not repeated, interrupted runs are resumed.

    Args:
        base: The settings that all runs share.
        corrections: The rows: names of corrections, of `NAMED_ROWS`, ``"oracle"``, ``"oracle-attract"``,
            ``"untrained"``, and for graphs ``"raw"``.
        seeds: Number of seeds, from 0.
        out: The directory of the runs, which have one directory each.
        settings: Settings by name of the row, where they differ from the defaults.
        resources: What the runs may use; default: one run at a time.
        display: Shows the progress.
        command: The command line, for the record.
        yardstick: The number that leads the table and the page; default: the first in the order of tables.
    """
    resources = resources or Resources()
    if yardstick:
        check_known("yardstick", yardstick, base.measured_numbers())
    for name in corrections:
        check_known("correction", name, [*row_names(), *NAMED_ROWS])
    check_once("corrections are the rows", corrections)
    rows = {name: configure_row(base, name, (settings or {}).get(name, {})) for name in corrections}
    if not processes.from_first(lambda: has_labels(base, resources.root)) and set(ORACLES) & set(corrections):
        rest = ",".join(name for name in corrections if name not in ORACLES)
        raise ValueError(
            f"the oracle uses the labels of the training samples: {base.data} has no labels; remove it by "
            f"--corrections {rest}"
        )
    compared = compare_rows(rows, seeds, out, resources=resources, display=display)
    if processes.rank() == 0:
        about = origin(command) | {"base": base.as_json(), "yardstick": yardstick}
        write_json(out / "comparison.json", about | compared.as_json())
        write_whole(out / "comparison.csv", table_rows.as_csv(compared.rows).encode())
    return compared


def configure_row(base: RunConfig, name: str, given: Mapping[str, SettingValue]) -> RunConfig:
    """The configuration of a row: a correction with the given settings, and with those that the row's name fixes."""
    correction, fixed = NAMED_ROWS.get(name, (name, {}))
    return replace(base, correction=correction, settings={**given, **fixed})


def compare_rows(
    rows: Mapping[str, RunConfig],
    seeds: int,
    out: Path,
    *,
    resources: Resources,
    display: Display = SILENT,
) -> ComparedRows:
    """Run each row with the same seeds in ``ROW/seed-N`` below `out`, and compare the results with plain."""
    done = run_grid(grid_of(rows, seeds), out, resources, display)
    check_some_finished(done)
    return compare_results(rows, done, BASE)


def make_table(
    parts: Sequence[Part],
    out: Path,
    *,
    resources: Resources | None = None,
    display: Display = SILENT,
    command: str = "",
) -> Table:
    """Run the unfinished runs of a table in ``PART/ROW/seed-N`` below `out`; write table and collection there."""
    resources = resources or Resources()
    check_once("a table has parts, such as data sets", [part.name for part in parts])
    check_directories(part.name for part in parts)
    parts = [_without_impossible_oracle(part, resources.root) for part in parts]
    jobs = [job for part in parts for job in grid_of(part.rows, part.seeds, part.name)]
    done = run_grid(jobs, out, resources, display)
    check_some_finished(done)
    return write_table(out, parts, done, command)


def write_table(out: Path, parts: Sequence[Part], done: Sequence[Done], command: str) -> Table:
    """Make the table of finished runs, and write it as ``table.json`` and ``table.csv``."""
    by_part = {part.name: [each for each in done if each.job.part == part.name] for part in parts}
    results = {part.name: compare_results(part.rows, by_part[part.name], part.base) for part in parts}
    table = Table(parts=tuple(parts), results=results)
    write_json(out / "table.json", origin(command) | table.as_json())
    write_whole(out / "table.csv", as_csv(table).encode())
    return table


def compare_results(rows: Mapping[str, RunConfig], done: Sequence[Done], base: str = BASE) -> ComparedRows:
    """Make the rows of a table from the runs of `grid_of`.

    Args:
        rows: Configurations by the name of their row.
        done: Their runs.
        base: The row that all others are compared with, if it exists.
    """
    results: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in rows}
    failed: dict[str, list[str]] = {name: [] for name in rows}
    runs: dict[str, list[str]] = {name: [] for name in rows}
    for each in done:
        name = each.job.row
        if each.result is not None:
            results[name][each.job.config.seed] = each.result
            runs[name].append(each.job.path)
        else:
            failed[name].append(f"{each.job.name}: {each.error}")
    against: Results | None = results.get(base)
    made = (
        make_row(name, config.correction, results[name], None if name == base else against, failed[name])
        for name, config in rows.items()
    )
    return ComparedRows(rows=tuple(made), runs=runs)


def has_labels(config: RunConfig, root: Path | None) -> bool:
    """Whether the training samples have labels, which the oracle needs.

    Raises:
        ValueError: If no probe could be fitted, so that there would be nothing to compare.
    """
    task = open_data(config, root)
    if not task.can_be_probed():
        where = modality_of(config).labels_needed
        raise ValueError(
            f"a comparison needs probes: expected labels of two classes or more, {where}, got {config.data} without"
        )
    return task.labels is not None


def _without_impossible_oracle(part: Part, root: Path | None) -> Part:
    """Remove the oracle's rows if the training samples have no labels; now, and not after hours of other runs."""
    if has_labels(next(iter(part.rows.values())), root):
        return part
    rows = {name: config for name, config in part.rows.items() if config.correction not in ORACLES}
    if len(rows) == len(part.rows):
        return part
    if not rows:
        raise ValueError(f"the oracle uses the labels of the training samples: {part.name} has no labels")
    words = "no oracle, since the training samples have no labels"
    return replace(part, rows=rows, note=f"{part.note}; {words}" if part.note else words)


def origin(command: str) -> dict[str, Any]:
    """The beginning of a record: the command and the versions that made it."""
    return {"command": command, "pucl": pucl.__version__, "torch": str(torch.__version__)}


def as_text(table: Table) -> str:
    """The table for a terminal, one part after the other."""
    texts = []
    for part in table.parts:
        rows = table_rows.as_text(table.results[part.name].rows, part.base, part.yardstick, part.published)
        texts.append(f"{part.name}{f' ({part.note})' if part.note else ''}\n{rows}")
    return "\n\n".join(texts)


def as_csv(table: Table) -> str:
    """The table for a spreadsheet: a line for each part, row and classifier."""
    columns = list(dict.fromkeys(column for part in table.parts for column in part.published))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["data", "row", "tau_plus", "classifier", "accuracy", "sd", "seeds", "difference", "low", "high"]
    writer.writerow([*head, *columns])
    for part in table.parts:
        for row in table.results[part.name].rows:
            # Published numbers are compared with the yardstick, which comes first.
            published = [part.published.get(column, {}).get(row.name) for column in columns]
            for name in numbers_of([row], part.yardstick):
                spread, difference = row.scores[name], row.differences.get(name)
                interval = [difference.mean, difference.low, difference.high] if difference else ["", "", ""]
                deviation = spread.deviation if spread.count > 1 else ""
                numbers = [spread.mean, deviation, spread.count, *interval]
                writer.writerow([part.name, row.name, row.tau_plus, name, *numbers, *published])
                published = [None] * len(columns)
    return text.getvalue()
