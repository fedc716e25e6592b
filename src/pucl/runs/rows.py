"""The rows of a table: the results of one method over several seeds, and their difference to plain."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pucl.config import NOT_TRAINED, ORACLE, ORACLES
from pucl.evaluation import PROBES, known_numbers, numbers_in
from pucl.records import conform
from pucl.runs.statistics import Difference, Spread
from pucl.texts import fixed, percent, table

Results = Mapping[int, dict[str, Any]]
"""Results of the finished runs of one row, by seed."""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row of a table.

    Args:
        correction: Its correction, or ``"oracle"``, ``"oracle-attract"``, ``"untrained"`` or ``"raw"``.
        tau_plus: tau' as the loss used it; None if nothing was corrected.
        scores: The numbers of the probes, in percent, by their names in the records of runs.
        seeds: The finished seeds; empty in records of earlier versions.
        differences: To the base row, seed by seed; empty for the base row itself, or if there is none.
        floored: Share of floored anchors in the last epoch; None if nothing was trained.
        seconds: Training time of one seed, on average.
        processor_seconds: Processor time of training and evaluation, of all seeds.
        failed: The errors of failed seeds.
    """

    name: str
    correction: str
    tau_plus: float | None
    scores: dict[str, Spread]
    by_seed: dict[str, tuple[float, ...]]
    differences: dict[str, Difference]
    floored: float | None
    seconds: float
    processor_seconds: float = 0.0
    seeds: tuple[int, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of finished seeds. Runs without labels have no accuracies; earlier records have no `seeds`."""
        return max([len(self.seeds), *map(len, self.by_seed.values())])

    def as_json(self) -> dict[str, Any]:
        """The row for a record."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "TableRow":
        """Read a row back.

        Raises:
            MismatchError: If a field is missing, unknown or of another type.
        """
        row: TableRow = conform(record, cls, "a row")
        return row


def make_row(
    name: str, correction: str, results: Results, base: Results | None = None, failed: Sequence[str] = ()
) -> TableRow:
    """Make a row from the results of its runs, by seed. It is compared with `base`, the results of the base row."""
    runs = list(results.values())
    numbers = [name for name in numbers_in(runs) if all(name in run for run in runs)]
    trained = correction not in NOT_TRAINED and bool(runs)
    common = sorted(results.keys() & base.keys()) if base is not None else []
    return TableRow(
        name=name,
        correction=correction,
        tau_plus=_mean_tau_plus(runs) if trained and correction not in ORACLES else None,
        scores={name: Spread.of([100 * run[name] for run in runs]) for name in numbers},
        by_seed={name: tuple(100 * run[name] for run in runs) for name in numbers},
        differences={
            name: Difference.between(
                [100 * results[seed][name] for seed in common], [100 * base[seed][name] for seed in common]
            )
            for name in numbers
            if base is not None and common and all(name in base[seed] for seed in common)
        },
        floored=sum(run.get("floored", 0.0) for run in runs) / len(runs) if trained else None,
        seconds=sum(run["seconds"] for run in runs) / len(runs) if runs else 0.0,
        processor_seconds=sum(run.get("processor_seconds", 0.0) for run in runs),
        seeds=tuple(results),
        failed=tuple(failed),
    )


def _mean_tau_plus(runs: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean of tau' over the runs: a correction that learns has another one in each; None if none has it."""
    found = [run["tau_plus"] for run in runs if "tau_plus" in run]
    return sum(found) / len(found) if found else None


def numbers_of(rows: Sequence[TableRow], yardstick: str = "") -> list[str]:
    """The names of the numbers that these rows have, in the order of tables, but the yardstick first."""
    return sorted(numbers_in(row.scores for row in rows), key=lambda name: name != yardstick)


def leading_numbers(rows: Sequence[TableRow], yardstick: str = "") -> list[str]:
    """The leading number of each probe, after the yardstick; see `numbers_of`."""
    return [name for name in numbers_of(rows, yardstick) if name in PROBES or name == yardstick]


def as_csv(rows: Sequence[TableRow]) -> str:
    """The rows for a spreadsheet, one line each."""
    numbers = numbers_of(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["row", "correction", "tau_plus", "seeds"]
    for name in numbers:
        columns += [name, f"{name}_sd", f"{name}_difference", f"{name}_difference_low", f"{name}_difference_high"]
    writer.writerow([*columns, "floored", "seconds", "failed"])
    for row in rows:
        cells: list[Any] = [row.name, row.correction, row.tau_plus, row.count]
        for name in numbers:
            spread, difference = row.scores.get(name), row.differences.get(name)
            cells += [spread.mean, spread.deviation if spread.count > 1 else ""] if spread else ["", ""]
            cells += [difference.mean, difference.low, difference.high] if difference else ["", "", ""]
        writer.writerow([*cells, row.floored, row.seconds, len(row.failed)])
    return text.getvalue()


def as_text(
    rows: Sequence[TableRow],
    base: str = "plain",
    yardstick: str = "",
    published: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """The rows for a terminal, with the leading number of each probe; then a table of all other numbers.

    Args:
        rows: The rows.
        base: The name of the row that all others are compared with.
        yardstick: The number that leads, if the rows have it: it comes first, and differences are shown of it.
        published: By column, such as ``"paper"``: accuracies in percent by row.
    """
    everything, known, published = numbers_of(rows, yardstick), known_numbers(), published or {}
    shown = leading_numbers(rows, yardstick)
    leading, others = shown[:1], shown[1:]
    shares = [share_of_lead(row, rows, *leading) if leading else None for row in rows]
    closed = any(share is not None for share in shares)
    header = ["row", "tau'", *(f"{known[name].short}, %" for name in leading), f"to {base} (95 % interval)"]
    header += [*(["of oracle's lead"] if closed else []), *(f"{known[name].short}, %" for name in others)]
    lines = [[*header, "n", "floored", "s/run", *published]]
    for row, share in zip(rows, shares, strict=True):
        cells = [row.name, "" if row.tau_plus is None else f"{row.tau_plus:.3f}"]
        cells += [_score_text(row, name) for name in leading]
        cells += [_difference_text(row.differences.get(leading[0]) if leading else None)]
        cells += ["" if share is None else percent(share, 0)] if closed else []
        cells += [_score_text(row, name) for name in others]
        cells += [str(row.count) + (f" ({len(row.failed)} failed)" if row.failed else "")]
        cells += ["" if row.floored is None else percent(row.floored, 1), f"{row.seconds:.0f}"]
        numbers = (column.get(row.name) for column in published.values())
        lines.append([*cells, *("" if number is None else fixed(number) for number in numbers)])
    rest = [name for name in everything if name not in shown]
    return table(lines) + (f"\n\n{_transposed(rows, rest)}" if rest else "")


def share_of_lead(row: TableRow, rows: Sequence[TableRow], number: str) -> float | None:
    """How much of the oracle's lead over the base a row has; None if there is no oracle, or its lead may be chance."""
    oracle = next((each for each in rows if each.correction == ORACLE), None)
    lead = None if oracle is None else oracle.differences.get(number)
    own = row.differences.get(number)
    if own is None or lead is None or lead.sign < 1 or row.correction in NOT_TRAINED:
        return None
    return own.mean / lead.mean


def _score_text(row: TableRow, number: str) -> str:
    spread = row.scores.get(number)
    return "" if spread is None else str(spread)


def _transposed(rows: Sequence[TableRow], names: Sequence[str]) -> str:
    """A table with a line for each number and a column for each row."""
    known = known_numbers()
    lines = [
        [known[name].short, *(str(row.scores[name]) if name in row.scores else "" for row in rows)] for name in names
    ]
    return table([["%", *(row.name for row in rows)], *lines])


def _difference_text(difference: Difference | None) -> str:
    """A difference with its interval, in percentage points."""
    if difference is None:
        return ""
    return f"{difference} (no interval)" if difference.low is None else str(difference)
