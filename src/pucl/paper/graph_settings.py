"""In which setting a correction of InfoGraph earns its keep: looked for on validation folds alone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pucl.config import ORACLE, PLAIN, RunConfig, check_once, choose
from pucl.diagnosis.priors import collision
from pucl.files import write_json
from pucl.frameworks.recipes import recipe
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.tu_collection import known_graphs
from pucl.runs.compare import check_some_finished, collect_finished, grid_of, origin
from pucl.runs.display import Display
from pucl.runs.grid import Means, run_grid
from pucl.runs.lines import PROBES as ACCURACIES
from pucl.runs.run import SILENT
from pucl.runs.statistics import Difference, Spread
from pucl.runs.tables import Part, write_table
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
"""By name: what is changed in the reference settings; ``tilt`` is beta of PUCL and of the oracle."""

DATA = ("PTC_MR", "ENZYMES")
SEEDS = 3
LABEL_FREQUENCY = 0.02  # c: the paper leaves it open for graphs, and has this in its grid for images.
PROBES = ("svm", "svm_scaled")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one variant came to on one set of graphs, by validation accuracy, in percent.

    Args:
        data: The set.
        variant: Its name.
        probe: ``"svm"``, or ``"svm_scaled"`` on scaled features.
        plain: Without a correction.
        pucl: PUCL less plain, seed by seed.
        oracle: The oracle less plain: what a correction can win at most.
        floored: Share of anchors at the floor, of PUCL.
    """

    data: str
    variant: str
    probe: str
    plain: Spread
    pucl: Difference
    oracle: Difference
    floored: float


def search_settings(
    out: Path,
    *,
    data: Sequence[str] = DATA,
    variants: Sequence[str] = tuple(VARIANTS),
    seeds: int = SEEDS,
    means: Means | None = None,
    display: Display = SILENT,
    command: str = "",
) -> tuple[list[Setting], list[str]]:
    """Run plain, PUCL and the oracle in each variant, and compare them on the inner folds, by which C is chosen.

    No machine is judged here by graphs of its own test fold. Over ten folds, though, every graph's label takes part in
    the mean, and so in the choice of a variant by it: a choice among few, but not a blind one. The prior of PUCL is
    what the classes say, the chance that two graphs are of one class, so that it is not in question here.

    Args:
        out: Where the runs are kept: ``DATA/VARIANT/ROW/seed-N``.
        data: Sets of graphs.
        variants: Which, of `VARIANTS`.
        seeds: How many, from 0.
        means: With what the runs are made.
        display: Shows how it goes.
        command: What was asked for, for the record.

    Returns:
        What each variant came to, by the seeds with which all three were finished, and what went wrong.
    """
    for name in variants:
        choose("variant", name, VARIANTS)
    check_once("variants are what is compared", variants)
    check_once("a search has sets of graphs", [short_name(place) for place in data])
    means = means or Means()
    places = {short_name(place): place for place in data}
    priors = {name: prior_of(place, means.root) for name, place in places.items()}
    grid = {
        (name, variant): _rows(place, VARIANTS[variant], priors[name])
        for name, place in places.items()
        for variant in variants
    }
    names = {place: "/".join(place) for place in grid}
    jobs = [job for place, rows in grid.items() for job in grid_of(rows, seeds, names[place])]
    done = run_grid(jobs, out, means, display)
    check_some_finished(done)
    collect_finished(out, done, display)
    results: dict[tuple[str, str], dict[str, dict[int, dict[str, Any]]]] = {
        place: {row: {} for row in rows} for place, rows in grid.items()
    }
    for each in done:
        if each.result is not None:
            name, variant = each.job.part.split("/")
            results[name, variant][each.job.row][each.job.config.seed] = each.result
    settings = [
        _setting(*place, probe, rows, seeds=sorted(common))
        for place, rows in results.items()
        if (common := set.intersection(*(set(by_seed) for by_seed in rows.values())))
        for probe in PROBES
    ]
    write_json(
        out / "settings.json",
        origin(command)
        | {
            "priors": priors,
            "variants": {name: VARIANTS[name] for name in variants},
            "settings": [asdict(setting) for setting in settings],
        },
    )
    parts = [
        Part(name=names[place], rows=rows, base=PLAIN, seeds=seeds, note="accuracy on validation folds")
        for place, rows in grid.items()
    ]
    made = write_table(out, parts, [replace(each, result=_validated(each.result)) for each in done], command)
    return settings, made.failed


def _validated(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """A result with accuracies on validation folds in the place of those on test folds."""
    if result is None:
        return None
    validation: dict[str, float] = result["validation"]
    return {name: value for name, value in result.items() if name not in ACCURACIES} | validation


def prior_of(data: str, root: Path | None = None) -> float:
    """The chance that two of these graphs are of one class."""
    labels = load_graphs(data, root=root).labels
    if labels is None:
        raise ValueError(f"the prior is what the classes say: expected graphs with labels, got {data}")
    return collision(labels).tau_plus


def short_name(place: str) -> str:
    """What a set of graphs is called in directories and tables."""
    source = known_graphs(place)
    return Path(place).expanduser().resolve().name if source is None else source.name


def as_text(settings: Sequence[Setting], probe: str = "svm_scaled") -> str:
    """The table for a terminal, one part for each set of graphs."""
    parts = []
    for data in dict.fromkeys(setting.data for setting in settings):
        rows = [["variant", "plain, %", "PUCL less plain", "oracle less plain", "floored"]]
        rows += [
            [
                each.variant,
                str(each.plain),
                str(each.pucl),
                str(each.oracle),
                percent(each.floored, 0),
            ]
            for each in settings
            if each.data == data and each.probe == probe
        ]
        parts.append(f"{data}, validation accuracy\n{table(rows)}")
    return "\n\n".join(parts)


def _rows(data: str, variant: Mapping[str, Any], prior: float) -> dict[str, RunConfig]:
    changes = {name: value for name, value in variant.items() if name != "tilt"}
    base: dict[str, Any] = {"monitor": 0, "probes": ",".join(PROBES)} | changes
    tilt = {"beta": variant["tilt"]} if "tilt" in variant else {}
    corrected = {"alpha": prior, "c": LABEL_FREQUENCY} | tilt
    return {
        PLAIN: recipe("infograph", data, correction=PLAIN, **base),
        "pucl": recipe("infograph", data, correction="pucl", settings=corrected, **base),
        ORACLE: recipe("infograph", data, correction=ORACLE, settings=tilt, **base),
    }


def _setting(
    data: str, variant: str, probe: str, rows: Mapping[str, Mapping[int, dict[str, Any]]], *, seeds: Sequence[int]
) -> Setting:
    values = {row: [100 * by_seed[seed]["validation"][probe] for seed in seeds] for row, by_seed in rows.items()}
    floored = [rows["pucl"][seed].get("floored", 0.0) for seed in seeds]
    return Setting(
        data=data,
        variant=variant,
        probe=probe,
        plain=Spread.of(values[PLAIN]),
        pucl=Difference.between(values["pucl"], values[PLAIN]),
        oracle=Difference.between(values[ORACLE], values[PLAIN]),
        floored=sum(floored) / len(floored),
    )
