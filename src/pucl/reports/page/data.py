"""What the page shows of one group of runs, as a record that its program reads."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.config import NOT_TRAINED
from pucl.data.choosing import to_show
from pucl.data.errors import DataError
from pucl.data.npz import read_npz_arrays
from pucl.reports.curves import panels_of
from pucl.reports.page.markup import signed
from pucl.reports.page.records import UNREADABLE, Group, finite
from pucl.reports.page.space import MOST_NUMBERS, average, encode, layout, suggestions
from pucl.runs.build import modality_of, open_data
from pucl.runs.collection import Run
from pucl.runs.lines import PROBES, SHORT, probes_of
from pucl.runs.statistics import Spread
from pucl.texts import base64_of, fixed

POINTS = 5000
FEWEST = 3  # Samples that make a map.
SEEDS_OF_ONE_ROW = 3
SHEET_SHARE = 0.46  # Of a group's bytes, for its pictures.


class OtherSamplesError(ValueError):
    """The data that were found are not those of the run."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The samples that embeddings were made of, as far as they could be found.

    Args:
        unit: ``"images"`` or ``"graphs"``.
        count: How many there are in all.
        places: Which of them are on the map.
        labels: Their classes; None where they are not known.
        classes: Names of the classes.
        thumbnails: See `sheet` and `drawings`; None where the data are not there.
        note: Why there is no thumbnail, or that only parts of graphs are drawn.
    """

    unit: str
    count: int
    places: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    thumbnails: dict[str, Any] | None
    note: str = ""


def rows_of(group: Group) -> list[dict[str, Any]]:
    """The numbers of each row, with the interval of its mean."""
    return [
        {
            "name": row.line.name,
            "kind": row.line.correction,
            "trained": row.line.correction not in NOT_TRAINED,
            "scores": {probe: _score(values) for probe, values in row.line.by_seed.items() if values},
            "differences": {
                probe: {
                    "mean": finite(each.mean),
                    "low": finite(each.low),
                    "high": finite(each.high),
                    "said": signed(each.mean),
                }
                for probe, each in row.line.differences.items()
            },
        }
        for row in group.rows
    ]


def _score(values: Sequence[float]) -> dict[str, Any]:
    """An accuracy; `said` is its mean in digits, written here so that chart and table round alike."""
    seeds = [value for value in values if math.isfinite(value)]
    if not seeds:
        return {"mean": None, "ends": None, "seeds": [], "said": ""}
    spread = Spread.of(seeds)
    return {"mean": spread.mean, "ends": spread.interval(0, 100), "seeds": seeds, "said": fixed(spread.mean)}


def probes_in(group: Group) -> list[dict[str, str]]:
    """The classifiers that the rows were measured with, the main one first."""
    probes = probes_of([row.line for row in group.rows])
    return [{"key": probe, "name": PROBES[probe], "short": SHORT[probe]} for probe in probes]


def curves_of(group: Group) -> list[dict[str, Any]]:
    """By quantity, the lines of every row: one for each seed, as [epoch, value]."""
    made = []
    for panel in panels_of(cosines=group.config is None or group.config.compares_cosines):
        rows = []
        for number, row in enumerate(group.rows):
            seeds = [{"seed": run.config.seed, "points": _points(run, panel.key)} for run in row.runs]
            if seeds := [seed for seed in seeds if seed["points"]]:
                rows.append({"row": number, "seeds": seeds})
        if rows:
            about = {"key": panel.key, "title": panel.title, "meaning": panel.meaning}
            made.append(about | {"percent": panel.percent, "zero": panel.from_zero, "rows": rows})
    return made


def _points(run: Run, key: str) -> list[list[float]]:
    return [
        [line["epoch"], float(f"{value:.6g}")] for line in run.history if (value := finite(line.get(key))) is not None
    ]


def space_of(
    group: Group,
    *,
    root: Path | None,
    points: int,
    budget: int,
    skip: Callable[[Path, str], None],
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any] | str:
    """Map and neighbours of the embeddings of some runs; a sentence where there is nothing to show.

    Args:
        group: The runs.
        root: Where data are.
        points: How many samples at most.
        budget: Bytes that the record may take.
        skip: Is told of embeddings that cannot be read, and why.
        say: Is told what is being done.
    """
    wanted = _mapped(group)
    found: list[tuple[int, Run, NDArray[Any]]] = []
    samples: Samples | None = None
    labels: NDArray[np.int64] | None = None
    for number, run in wanted:
        try:
            features, its_labels = _embeddings(run)
            if samples is None:
                labels = its_labels
                say(f"samples of {group.name}")
                samples = samples_of(
                    run, len(features), labels, root=root, points=points, budget=int(SHEET_SHARE * budget)
                )
            elif len(features) != samples.count or not _equal(labels, its_labels):
                raise ValueError("the embeddings are of other samples than those of the first run: no map of it")
        except UNREADABLE as error:
            where = "" if isinstance(error, DataError) else "embeddings.npz: "
            skip(run.path, where + str(error).replace(f"{run.path}/", ""))
            continue
        found.append((number, run, features[samples.places]))
    if samples is None:
        return "There is no map: none of the runs has embeddings here (a copy of a record may come without them)."
    used = len(str(samples.thumbnails)) if samples.thumbnails else 0
    each = (budget - used) * 3 // 4 // len(found) // len(samples.places) - 4  # Two places take four bytes.
    maps = []
    for number, run, features in found:
        say(f"map of {group.rows[number].line.name}, seed {run.config.seed}")
        maps.append(_map(number, run, features, samples, max(8, min(each, MOST_NUMBERS))))
    return {
        "unit": samples.unit,
        "count": samples.count,
        "places": base64_of(samples.places.astype(np.uint32)),
        "labels": None if samples.labels is None else base64_of(samples.labels.astype(np.uint16)),
        "classes": list(samples.classes),
        "thumbnails": samples.thumbnails,
        "note": samples.note,
        "maps": maps,
        "left": max(
            0, sum(1 for row in group.rows if any(map(_has_embeddings, row.runs))) - len({m["row"] for m in maps})
        ),
    }


def _mapped(group: Group) -> list[tuple[int, Run]]:
    """Of which runs there is a map: the first seed of each row, or a few seeds of the only one."""
    rows = [(number, [run for run in row.runs if _has_embeddings(run)]) for number, row in enumerate(group.rows)]
    rows = [(number, runs) for number, runs in rows if runs]
    if len(rows) == 1:
        number, runs = rows[0]
        return [(number, run) for run in runs[:SEEDS_OF_ONE_ROW]]
    most = 0 if group.config is None else modality_of(group.config).most_maps
    return [(number, runs[0]) for number, runs in rows[:most]]


def _has_embeddings(run: Run) -> bool:
    return (run.path / "embeddings.npz").is_file()


def _embeddings(run: Run) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    arrays, _ = read_npz_arrays(run.path / "embeddings.npz", ("train", "train_labels"))
    features, labels = arrays.get("train"), arrays.get("train_labels")
    if features is None or features.dtype.kind != "f":
        raise ValueError("a map is made of the features of training samples: expected an array train of floats")
    if features.ndim != 2 or len(features) < FEWEST:
        raise ValueError(f"a map is made of {FEWEST} samples at least, got {list(features.shape)}")
    if not np.isfinite(features).all():
        raise ValueError("the features are not all finite numbers: the training went astray")
    if labels is None:
        return features, None
    if labels.shape != features.shape[:1] or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= 2**16:
        raise ValueError("labels are one class for each sample, as a number")
    return features, labels


def _equal(one: NDArray[np.int64] | None, other: NDArray[np.int64] | None) -> bool:
    return one is None if other is None else one is not None and np.array_equal(one, other)


def samples_of(
    run: Run, count: int, labels: NDArray[np.int64] | None, *, root: Path | None, points: int, budget: int
) -> Samples:
    """Choose samples evenly over the classes, or at random without labels, and draw each small.

    Args:
        run: Whose samples they are.
        count: How many embeddings there are.
        labels: Their classes, as the run kept them.
        root: Where data are.
        points: How many at most.
        budget: Bytes that the thumbnails may take.
    """
    modality = modality_of(run.config)
    unit, points = modality.name, min(points, modality.most_points)
    classes: tuple[str, ...] = ()
    thumbnails: dict[str, Any] | None = None
    try:
        task = open_data(run.config, root)
        embedded = task.embedded
        classes = embedded.classes
        if embedded.count != count or not (labels is None or _equal(labels, embedded.labels)):
            raise OtherSamplesError("the data that are there now are not those that the run embedded")
        labels = embedded.labels
        places = to_show(labels, count, points)
        thumbnails, note = task.thumbnails(places, budget)
    except UNREADABLE as error:
        places = to_show(labels, count, points)
        # Messages of missing data name places of the machine, which are no business of a reader of the page.
        why = str(error) if isinstance(error, OtherSamplesError) else "they could not be read when the page was made"
        note = f"The {unit} themselves are not shown: {why}."
        if not classes and labels is not None:
            classes = tuple(f"class {number}" for number in range(int(labels.max()) + 1))
    chosen = None if labels is None else labels[places]
    return Samples(
        unit=unit, count=count, places=places, labels=chosen, classes=classes, thumbnails=thumbnails, note=note
    )


def _map(row: int, run: Run, features: NDArray[Any], samples: Samples, numbers: int) -> dict[str, Any]:
    """One run: where its samples lie, and from what the page computes who is near to whom."""
    plane, method = layout(features)
    code = encode(features, numbers)
    result = run.result or {}
    return {
        "row": row,
        "seed": run.config.seed,
        "method": method,
        "plane": base64_of(_in_a_square(plane)),
        "low": [float(f"{value:.6g}") for value in code.low],
        "step": [float(f"{value:.6g}") for value in code.step],
        "codes": base64_of(code.codes),
        "error": round(code.error, 4),
        "kept": round(code.kept, 3),
        "tau": finite(result.get("tau_plus")) if run.config.correction not in NOT_TRAINED else None,
        "average": average(code.values, samples.labels),
        "suggested": suggestions(code.values, samples.labels),
    }


def _in_a_square(plane: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Places as numbers of two bytes, both axes on one scale."""
    extent = max(float(np.ptp(plane, axis=0).max()), 1e-12)
    middle = (plane.max(axis=0) + plane.min(axis=0)) / 2
    scaled = 32767.5 + 65535 * (plane - middle) / extent
    made: NDArray[np.uint16] = np.clip(np.round(scaled), 0, 65535).astype(np.uint16)
    return made
