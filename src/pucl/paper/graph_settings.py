"""Search for settings in which a correction of InfoGraph helps, on validation folds alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pucl.config import ORACLE, PLAIN, UNTRAINED, RunConfig, check_known, check_once
from pucl.estimation.shares import collision
from pucl.evaluation import known_numbers
from pucl.files import write_json
from pucl.frameworks.recipes import recipe
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.tu_collection import known_graphs
from pucl.runs.display import SILENT, Display
from pucl.runs.grid import Resources, check_some_finished, run_grid
from pucl.runs.jobs import grid_of
from pucl.runs.rows import TableRow
from pucl.runs.statistics import Difference, Spread
from pucl.runs.tables import Part, origin, write_table
from pucl.texts import percent, table

VARIANTS: dict[str, dict[str, Any]] = {
    "reference": {},
    "learning rate 0.01": {"learning_rate": 0.01},
    "100 epochs": {"epochs": 100},
    "5 layers": {"layers": 5},
    "floor per node": {"share": "node"},
    "floor per batch": {"share": "batch"},
    "floor 0.1 of the mean": {"floor": 0.1},
    "InfoNCE, t 0.2": {"objective": "infonce", "temperature": 0.2},
    "InfoNCE, t 0.5": {"objective": "infonce", "temperature": 0.5},
    "InfoNCE, t 1": {"objective": "infonce", "temperature": 1.0},
    "InfoNCE, t 0.5, 100 epochs": {"objective": "infonce", "temperature": 0.5, "epochs": 100},
    "InfoNCE, t 0.5, tilt 1": {"objective": "infonce", "temperature": 0.5, "tilt": 1.0},
}
"""Changes to the reference settings, by name; ``tilt`` is beta of PUCL and of the oracle."""

DATA = ("PTC_MR", "ENZYMES")
SEEDS = 3
BASE = "InfoGraph"  # The row of Table 2 that all others are compared with.
LABEL_FREQUENCY = 0.02  # c: the paper does not report it for graphs; this value is in its grid for images.
PROBES = ("svm", "svm_scaled")
YARDSTICK = "svm_scaled"  # The probe that compares settings.


@dataclass(frozen=True, kw_only=True)
class VariantResult:
    """The result of one variant on one set of graphs: validation accuracies in percent."""

    data: str
    variant: str
    probe: str  # One of `PROBES`.
    plain: Spread
    pucl: Difference  # PUCL minus plain, paired by seed.
    oracle: Difference  # The oracle minus plain: the most that a correction can gain.
    floored: float  # Share of PUCL's anchors at the floor.


def search_settings(
    out: Path,
    *,
    data: Sequence[str] = DATA,
    variants: Sequence[str] = tuple(VARIANTS),
    seeds: int = SEEDS,
    resources: Resources,
    display: Display = SILENT,
    command: str = "",
) -> tuple[list[VariantResult], list[str]]:
    """Run plain, PUCL and the oracle in each variant, and compare them on the inner folds, which also choose C.

    No SVM is evaluated on its own test fold. But over ten folds, the label of each graph contributes to the mean, and
    so to the choice of a variant. The choice is among few variants, but it is not blind. PUCL's prior comes from the
    classes: the probability that two graphs have the same class. So the prior is not part of the search.

    Args:
        out: Directory of the runs: ``DATA/VARIANT/ROW/seed-N``.
        data: Sets of graphs.
        variants: Some of `VARIANTS`.
        seeds: Number of seeds, from 0.
        resources: What the runs may use.
        display: Shows the progress.
        command: The command, for the record.

    Returns:
        The result of each variant whose three rows have seeds in common, and the failures.
    """
    for name in variants:
        check_known("variant", name, VARIANTS)
    check_once("variants are the settings to compare", variants)
    check_once("a search has sets of graphs", [short_name(path) for path in data])
    priors = {short_name(path): prior_of(path, resources.root) for path in data}
    parts = [
        Part(
            name=f"{short_name(path)}/{variant}",
            rows=_rows(path, rows_at(priors[short_name(path)], **VARIANTS[variant])),
            base=PLAIN,
            seeds=seeds,
            note="accuracy on validation folds",
        )
        for path in data
        for variant in variants
    ]
    done = run_grid([job for part in parts for job in grid_of(part.rows, seeds, part.name)], out, resources, display)
    check_some_finished(done)
    made = write_table(out, parts, [replace(each, result=_validated(each.result)) for each in done], command)
    results = [result for part in parts for result in _results(part.name, made.results[part.name].rows)]
    about = {"priors": priors, "variants": {name: VARIANTS[name] for name in variants}}
    write_json(out / "settings.json", origin(command) | about | {"settings": [asdict(each) for each in results]})
    return results, made.failed


def _rows(data: str, known: Mapping[str, dict[str, Any]]) -> dict[str, RunConfig]:
    common: dict[str, Any] = {"monitor": 0, "probes": ",".join(PROBES)}
    chosen = {PLAIN: known[BASE], "pucl": known["+PUCL"], ORACLE: known["oracle"]}
    return {name: recipe("infograph", data, **(common | changes)) for name, changes in chosen.items()}


def _results(part: str, rows: Sequence[TableRow]) -> Iterator[VariantResult]:
    """The results of one variant by each probe, from the three rows of its part."""
    (data, variant), (plain, corrected, oracle) = part.split("/"), rows
    for probe in PROBES:
        if probe in corrected.differences and probe in oracle.differences:
            yield VariantResult(
                data=data,
                variant=variant,
                probe=probe,
                plain=plain.scores[probe],
                pucl=corrected.differences[probe],
                oracle=oracle.differences[probe],
                floored=corrected.floored or 0.0,
            )


def _validated(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """The result with accuracies on validation folds instead of those on test folds."""
    if result is None:
        return None
    validation: dict[str, float] = result["validation"]
    return {name: value for name, value in result.items() if name not in known_numbers()} | validation


def prior_of(data: str, root: Path | None = None) -> float:
    """The probability that two of these graphs have the same class."""
    labels = load_graphs(data, root=root).labels
    if labels is None:
        raise ValueError(
            f"the prior is computed from the classes: expected graphs with labels, got {data} without labels"
        )
    return collision(labels)


def short_name(path: str) -> str:
    """The name of a set of graphs in directories and tables."""
    source = known_graphs(path)
    return Path(path).expanduser().resolve().name if source is None else source.name


def as_text(results: Sequence[VariantResult]) -> str:
    """The table for a terminal, one part for each set of graphs."""
    parts = []
    for data in dict.fromkeys(each.data for each in results):
        rows = [["variant", "plain, %", "PUCL minus plain", "oracle minus plain", "floored"]]
        rows += [
            [each.variant, str(each.plain), str(each.pucl), str(each.oracle), percent(each.floored, 0)]
            for each in results
            if each.data == data and each.probe == YARDSTICK
        ]
        parts.append(f"{data}, validation accuracy\n{table(rows)}")
    return "\n\n".join(parts)


def rows_at(prior: float, *, tilt: float = 0.0, **changes: Any) -> dict[str, dict[str, Any]]:
    """The rows of Table 2 in other settings, with the same prior for all corrections.

    Args:
        prior: Probability that two graphs have the same class.
        tilt: beta of PUCL and of the oracle.
        changes: Changes to the reference settings.
    """
    tilted = {"beta": tilt} if tilt else {}
    rows: dict[str, dict[str, Any]] = {
        "untrained": {"correction": UNTRAINED},
        BASE: {"correction": PLAIN},
        "+DEB": {"correction": "deb", "settings": {"tau_plus": prior}},
        "+Hard": {"correction": "hard", "settings": {"tau_plus": prior, "beta": 1.0}},
        "+Ring": {"correction": "ring"},
        "+PUCL": {"correction": "pucl", "settings": {"alpha": prior, "c": LABEL_FREQUENCY} | tilted},
        "oracle": {"correction": ORACLE, "settings": tilted},
    }
    return {name: changes | row for name, row in rows.items()}
