"""The rows of a table: what several seeds of one method came to, and how far that is from plain."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pucl.config import NOT_TRAINED, ORACLE
from pucl.records import conform
from pucl.runs.statistics import Difference, Spread
from pucl.texts import percent, table

PROBES = {
    "svm": "SVM",
    "svm_scaled": "SVM on scaled features",
    "linear": "linear classifier",
    "knn": "nearest neighbours",
}
"""Classifiers in the order in which they stand in a table; the first that a run has is its main one."""

SHORT = {"svm": "SVM", "svm_scaled": "SVM scaled", "linear": "linear", "knn": "kNN"}
"""The same as heads of columns."""

Results = Mapping[int, dict[str, Any]]
"""What the runs of one row came to, by seed; a run that failed is not there."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row of a table.

    Args:
        name: What it is called.
        correction: Its correction, or ``"oracle"``, ``"untrained"`` or ``"raw"``.
        tau_plus: tau', as it reached the loss; None where nothing was corrected.
        scores: Accuracy by classifier, in percent.
        by_seed: The same for each seed.
        seeds: Which these are; empty in records of earlier versions.
        differences: To the row that all are compared with, seed by seed; empty for that row itself, or without it.
        floored: Share of anchors at the floor in the last epoch; None where nothing was trained.
        seconds: Of training, for one seed.
        processor_seconds: Of all processors together, for training and evaluation with all seeds.
        failed: What went wrong with other seeds.
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
        """How many seeds were finished. Without labels these have no accuracies; earlier records have no `seeds`."""
        return max([len(self.seeds), *map(len, self.by_seed.values())])

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Line":
        """Read a row back, of known fields with the right types.

        Raises:
            MismatchError: If it is no such record.
        """
        line: Line = conform(record, cls, "a row")
        return line


def make_line(
    name: str, correction: str, results: Results, base: Results | None = None, failed: Sequence[str] = ()
) -> Line:
    """One row from its runs.

    Args:
        name: What it is called.
        correction: Its correction.
        results: Of its runs, by seed.
        base: Of the runs that it is compared with; None for no comparison.
        failed: What went wrong with other runs of it.
    """
    runs = list(results.values())
    probes = [probe for probe in PROBES if runs and probe in runs[0]]
    trained = correction not in NOT_TRAINED and bool(runs)
    common = sorted(results.keys() & base.keys()) if base is not None else []
    return Line(
        name=name,
        correction=correction,
        tau_plus=runs[0].get("tau_plus") if trained and correction != ORACLE else None,
        scores={probe: Spread.of([100 * run[probe] for run in runs]) for probe in probes},
        by_seed={probe: tuple(100 * run[probe] for run in runs) for probe in probes},
        differences={
            probe: Difference.between(
                [100 * results[seed][probe] for seed in common], [100 * base[seed][probe] for seed in common]
            )
            for probe in probes
            if base is not None and common
        },
        floored=sum(run.get("floored", 0.0) for run in runs) / len(runs) if trained else None,
        seconds=sum(run["seconds"] for run in runs) / len(runs) if runs else 0.0,
        processor_seconds=sum(run.get("processor_seconds", 0.0) for run in runs),
        seeds=tuple(results),
        failed=tuple(failed),
    )


def probes_of(lines: Sequence[Line]) -> list[str]:
    """The classifiers that these rows have."""
    return [probe for probe in PROBES if any(probe in line.scores for line in lines)]


def as_csv(lines: Sequence[Line]) -> str:
    """The rows for a spreadsheet."""
    probes = probes_of(lines)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["row", "correction", "tau_plus", "seeds"]
    for probe in probes:
        columns += [probe, f"{probe}_sd", f"{probe}_difference", f"{probe}_difference_low", f"{probe}_difference_high"]
    writer.writerow([*columns, "floored", "seconds", "failed"])
    for line in lines:
        cells: list[Any] = [line.name, line.correction, line.tau_plus, line.count]
        for probe in probes:
            spread, difference = line.scores.get(probe), line.differences.get(probe)
            cells += [spread.mean, spread.deviation if spread.count > 1 else ""] if spread else ["", ""]
            cells += [difference.mean, difference.low, difference.high] if difference else ["", "", ""]
        writer.writerow([*cells, line.floored, line.seconds, len(line.failed)])
    return text.getvalue()


def as_text(lines: Sequence[Line], base: str = "plain") -> str:
    """The rows for a terminal.

    Args:
        lines: The rows.
        base: What the row is called that all are compared with.
    """
    probes = probes_of(lines)
    header = ["row", "tau'", *(f"{SHORT[probe]}, %" for probe in probes), "n", f"to {base} (95 % interval)"]
    rows = [[*header, "floored", "s/run"]]
    for line in lines:
        spreads = [line.scores.get(probe) for probe in probes]
        rows.append(
            [
                line.name,
                "" if line.tau_plus is None else f"{line.tau_plus:.3f}",
                *("" if spread is None else str(spread) for spread in spreads),
                str(line.count) + (f" ({len(line.failed)} failed)" if line.failed else ""),
                difference_text(line.differences.get(probes[0]) if probes else None),
                "" if line.floored is None else percent(line.floored, 1),
                f"{line.seconds:.0f}",
            ]
        )
    return table(rows)


def difference_text(difference: Difference | None) -> str:
    """A difference with its interval, in percentage points."""
    if difference is None:
        return ""
    return f"{difference} (no interval)" if difference.low is None else str(difference)
