"""Tables of several parts: the same rows on several data sets, beside numbers that others published."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Required, TypedDict

from pucl.config import ORACLE, RunConfig, check_once
from pucl.files import write_json, write_whole
from pucl.runs.compare import (
    RowsRecord,
    check_directories,
    check_some_finished,
    collect_finished,
    grid_of,
    has_labels,
    lines_of,
    origin,
    places_of,
)
from pucl.runs.display import Display
from pucl.runs.grid import Done, Means, run_grid
from pucl.runs.lines import SHORT, Line, difference_text, probes_of
from pucl.runs.run import SILENT
from pucl.texts import fixed, percent, table


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a table: several methods on one set of data.

    Args:
        name: What it is called in the table; its directory is the `slug` of the name.
        rows: Configurations by the name of their row; their seeds are replaced.
        base: The row that all are compared with.
        seeds: How many, from 0.
        published: By column, such as ``"paper"``: accuracies in percent by row.
        note: What a reader should know, such as other data that stand in for those which are not there.
    """

    name: str
    rows: Mapping[str, RunConfig]
    base: str
    seeds: int
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""


class TableRecord(TypedDict, total=False):
    """A table as it is kept: its parts by name; it may hold more than this."""

    data: Required[dict[str, RowsRecord]]
    command: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """What each method came to in each part.

    Args:
        parts: What was run.
        lines: By the name of the part, its rows.
        runs: By the name of the part and of the row, where the finished runs are.
    """

    parts: tuple[Part, ...]
    lines: dict[str, tuple[Line, ...]]
    runs: dict[str, dict[str, list[str]]]

    @property
    def seconds(self) -> float:
        """Of all processors together, for all runs."""
        return sum(line.processor_seconds for lines in self.lines.values() for line in lines)

    @property
    def failed(self) -> list[str]:
        """What went wrong."""
        return [words for lines in self.lines.values() for line in lines for words in line.failed]

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return {
            "processor_seconds": self.seconds,
            "data": {
                part.name: {
                    "config": next(iter(part.rows.values())).as_json(),
                    "base": part.base,
                    "note": part.note,
                    "lines": [
                        line.as_json() | {column: numbers.get(line.name) for column, numbers in part.published.items()}
                        for line in self.lines[part.name]
                    ],
                    "runs": self.runs[part.name],
                }
                for part in self.parts
            },
        }


def make_table(
    parts: Sequence[Part],
    out: Path,
    *,
    means: Means | None = None,
    display: Display = SILENT,
    command: str = "",
) -> Table:
    """Run a table, or what is left of it.

    Args:
        parts: What to run, in this order.
        out: Where the runs are kept: ``PART/ROW/seed-N``; the table and the collection of the runs beside them.
        means: With what the runs are made.
        display: Shows how it goes.
        command: What was asked for, for the record.
    """
    means = means or Means()
    check_once("a table has parts, such as data sets", [part.name for part in parts])
    check_directories(part.name for part in parts)
    parts = [_that_can_be(part, means.root) for part in parts]  # Now, and not after hours of the others.
    jobs = [job for part in parts for job in grid_of(part.rows, part.seeds, part.name)]
    done = run_grid(jobs, out, means, display)
    check_some_finished(done)
    collect_finished(out, done, display)
    return write_table(out, parts, done, command)


def _that_can_be(part: Part, root: Path | None) -> Part:
    """The part without its oracle, if that would have no labels to go by."""
    if has_labels(next(iter(part.rows.values())), root):
        return part
    rows = {name: config for name, config in part.rows.items() if config.correction != ORACLE}
    if len(rows) == len(part.rows):
        return part
    if not rows:
        raise ValueError(f"the oracle knows the labels of what it is trained on, which {part.name} has not")
    words = "no oracle, since what is trained on has no labels"
    return replace(part, rows=rows, note=f"{part.note}; {words}" if part.note else words)


def write_table(out: Path, parts: Sequence[Part], done: Sequence[Done], command: str) -> Table:
    """The table that runs come to, also as files.

    Args:
        out: Where the files go.
        parts: What was run.
        done: The runs, each of a job of `grid_of`.
        command: What was asked for, for the record.
    """
    by_part = {part.name: [each for each in done if each.job.part == part.name] for part in parts}
    made = Table(
        parts=tuple(parts),
        lines={part.name: tuple(lines_of(part.rows, by_part[part.name], part.base)) for part in parts},
        runs={part.name: places_of(part.rows, by_part[part.name]) for part in parts},
    )
    write_json(out / "table.json", origin(command) | made.as_json())
    write_whole(out / "table.csv", as_csv(made).encode())
    return made


def as_text(made: Table) -> str:
    """The table for a terminal, one part after the other."""
    return "\n\n".join(
        "\n".join([part.name + (f" ({part.note})" if part.note else ""), _part(part, made.lines[part.name])])
        for part in made.parts
    )


def as_csv(made: Table) -> str:
    """The table for a spreadsheet: a line for each part, row and classifier."""
    columns = list(dict.fromkeys(column for part in made.parts for column in part.published))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["data", "row", "tau_plus", "classifier", "accuracy", "sd", "seeds", "difference", "low", "high"]
    writer.writerow([*head, *columns])
    for part in made.parts:
        for line in made.lines[part.name]:
            for number, (probe, spread) in enumerate(line.scores.items()):
                difference = line.differences.get(probe)
                interval = [difference.mean, difference.low, difference.high] if difference else ["", "", ""]
                # What others published is by the main classifier.
                others = [part.published.get(column, {}).get(line.name) if not number else None for column in columns]
                deviation = spread.deviation if spread.count > 1 else ""
                numbers = [spread.mean, deviation, spread.count, *interval, *others]
                writer.writerow([part.name, line.name, line.tau_plus, probe, *numbers])
    return text.getvalue()


def _part(part: Part, lines: Sequence[Line]) -> str:
    probes = probes_of(lines)
    header = ["row", "tau'", *(f"{SHORT[probe]}, %" for probe in probes), "n"]
    rows = [[*header, f"to {part.base} (95 % interval)", "floored", *part.published]]
    for line in lines:
        spreads = [line.scores.get(probe) for probe in probes]
        published = [numbers.get(line.name) for numbers in part.published.values()]
        rows.append(
            [
                line.name,
                "" if line.tau_plus is None else f"{line.tau_plus:.3f}",
                *("" if spread is None else str(spread) for spread in spreads),
                str(line.count) + (f" ({len(line.failed)} failed)" if line.failed else ""),
                difference_text(line.differences.get(probes[0]) if probes else None),
                "" if line.floored is None else percent(line.floored, 1),
                *("" if number is None else fixed(number) for number in published),
            ]
        )
    return table(rows)
