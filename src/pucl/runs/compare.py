"""Several methods on the same data and the same seeds: what each was worth."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Required, TypedDict

import torch

import pucl
from pucl import processes
from pucl.config import ORACLE, PLAIN, ROWS, RunConfig, Setting, check_once, choose
from pucl.files import write_json, write_whole
from pucl.runs.build import modality_of, open_data
from pucl.runs.collection import Run, read_run, write_collection
from pucl.runs.display import Display
from pucl.runs.grid import Done, Job, Means, run_grid
from pucl.runs.lines import Line, Results, as_csv, make_line
from pucl.runs.run import SILENT
from pucl.texts import slug

BASE = PLAIN  # What differences are taken to.


class RowsRecord(TypedDict, total=False):
    """Rows and their runs, as a comparison and a part of a table keep them; it may hold more than this."""

    lines: Required[list[dict[str, Any]]]
    runs: Required[dict[str, list[str]]]
    base: str | dict[str, Any]
    command: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The table, and the runs it was made of.

    Args:
        lines: The rows.
        runs: By row, where its runs are, one for each seed.
    """

    lines: tuple[Line, ...]
    runs: dict[str, list[str]]

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return {"lines": [line.as_json() for line in self.lines], "runs": self.runs}


def compare_corrections(
    base: RunConfig,
    corrections: Sequence[str],
    seeds: int,
    out: Path,
    *,
    settings: dict[str, dict[str, Setting]] | None = None,
    means: Means | None = None,
    display: Display = SILENT,
    command: str = "",
) -> Comparison:
    """Train each correction with the same seeds, data order and views, and put the results side by side.

    What is finished is not run again, what was interrupted goes on.

    Args:
        base: Everything that the runs have in common.
        corrections: Which rows to run, of the table of corrections, ``"oracle"``, ``"untrained"``, and for graphs
            ``"raw"``.
        seeds: How many seeds, from 0.
        out: Where the runs are kept, each in a directory of its own.
        settings: Settings of corrections by name, where the defaults will not do.
        means: With what the runs are made; None for one at a time.
        display: Shows how it goes.
        command: What was asked for, for the record.
    """
    means = means or Means()
    for name in corrections:
        choose("correction", name, ROWS)
    check_once("corrections are the rows", corrections)
    rows = {name: replace(base, correction=name, settings=(settings or {}).get(name, {})) for name in corrections}
    if not processes.from_first(lambda: has_labels(base, means.root)) and ORACLE in corrections:  # Now, not in hours.
        rest = ",".join(name for name in corrections if name != ORACLE)
        raise ValueError(
            f"the oracle knows the labels of what it is trained on, which {base.data} has not: leave it out with "
            f"--corrections {rest}"
        )
    comparison = compare_rows(rows, seeds, out, means=means, display=display)
    if processes.rank() > 0:
        return comparison
    write_json(out / "comparison.json", origin(command) | {"base": base.as_json()} | comparison.as_json())
    write_whole(out / "comparison.csv", as_csv(comparison.lines).encode())
    return comparison


def compare_rows(
    rows: Mapping[str, RunConfig],
    seeds: int,
    out: Path,
    *,
    means: Means,
    display: Display = SILENT,
    base: str = BASE,
) -> Comparison:
    """Run each row with the same seeds, and put the results side by side.

    Args:
        rows: Configurations by the name of their row; their seeds are replaced.
        seeds: How many seeds, from 0.
        out: Where the runs are kept: ``ROW/seed-N``, and their collection.
        means: With what.
        display: Shows how it goes.
        base: The row that all are compared with, where it is there.
    """
    jobs = grid_of(rows, seeds)
    done = run_grid(jobs, out, means, display)
    check_some_finished(done)
    if processes.rank() == 0:
        collect_finished(out, done, display)
    return Comparison(lines=tuple(lines_of(rows, done, base)), runs=places_of(rows, done))


def grid_of(rows: Mapping[str, RunConfig], seeds: int, prefix: str = "") -> list[Job]:
    """All rows with all seeds: seed after seed, so that what is done at any time can be compared.

    Args:
        rows: Configurations by the name of their row.
        seeds: How many seeds, from 0.
        prefix: The part of a table that these are, such as the data; a slash separates levels of directories.

    Raises:
        ValueError: If two rows would have the same directory.
    """
    if seeds < 1:
        raise ValueError(f"seeds is how often each training is repeated: expected at least 1, got {seeds}")
    above = Path(*(slug(level) for level in Path(prefix).parts))
    check_directories(rows)
    return [
        Job(
            name=f"{f'{prefix}, ' if prefix else ''}{name}, seed {seed}",
            place=str(above / slug(name) / f"seed-{seed}"),
            config=replace(config, seed=seed),
            row=name,
            part=prefix,
        )
        for seed in range(seeds)
        for name, config in rows.items()
    ]


def check_directories(names: Iterable[str]) -> None:
    """Refuse names of rows, or of parts of a table, that would share a directory."""
    taken: dict[str, str] = {}
    for name in names:
        other = taken.setdefault(slug(name), name)
        if other != name:
            raise ValueError(
                "rows and parts have directories of their own: expected names that differ in letters or digits, got "
                f"{other!r} and {name!r}, which are both {slug(name)!r}"
            )


def collect_finished(out: Path, done: Sequence[Done], display: Display) -> None:
    """Write the collection of a grid's finished runs beside their directories.

    Args:
        out: The directory of the grid.
        done: Its runs.
        display: Says which runs are left out because their files are damaged.
    """
    runs: dict[str, Run] = {}
    for each in done:
        if each.result is not None:
            try:
                runs[each.job.place] = read_run(out / each.job.place)
            except (ValueError, OSError) as error:
                display.say(f"{each.job.name} is left out of the collection: {error}")
    write_collection(out, runs)


def check_some_finished(done: Sequence[Done]) -> None:
    """Raise the first error if no run came to anything: then all failed by the same mistake, most likely."""
    if all(each.error is not None for each in done):
        raise ValueError(done[0].error)


def lines_of(rows: Mapping[str, RunConfig], done: Sequence[Done], base: str = BASE) -> list[Line]:
    """The rows of a table, from the jobs of `grid_of`."""
    results: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in rows}
    failed: dict[str, list[str]] = {name: [] for name in rows}
    for each in done:
        name = each.job.row
        if each.result is not None:
            results[name][each.job.config.seed] = each.result
        else:
            failed[name].append(f"{each.job.name}: {each.error}")
    against: Results | None = results.get(base)
    return [
        make_line(name, config.correction, results[name], None if name == base else against, failed[name])
        for name, config in rows.items()
    ]


def places_of(rows: Mapping[str, RunConfig], done: Sequence[Done]) -> dict[str, list[str]]:
    """By row, where its runs are; where one failed may be another's."""
    finished = [each.job for each in done if each.result is not None]
    return {name: [job.place for job in finished if job.row == name] for name in rows}


def origin(command: str) -> dict[str, Any]:
    """Where a record comes from."""
    return {"command": command, "pucl": pucl.__version__, "torch": str(torch.__version__)}


def has_labels(base: RunConfig, root: Path | None) -> bool:
    """Whether the samples that are trained on have labels; data of which there is nothing to compare are refused."""
    task = open_data(base, root)
    if not task.can_be_probed():
        where = modality_of(base).labels_needed
        raise ValueError(
            f"a comparison is of accuracies: expected labels of two classes or more, {where}, got {base.data} without"
        )
    return task.labels is not None
