"""Maps of embeddings for one group of runs, as a record that the page's program reads."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pucl.config import NOT_TRAINED
from pucl.contrast.correction import CorrectionState
from pucl.data.choosing import to_show
from pucl.data.errors import DataError
from pucl.data.npz import read_npz_arrays
from pucl.diagnosis.layout2d import Floats, lay_out, principal_plane
from pucl.frameworks import modality_of, open_data
from pucl.reports.page.neighbours import NEAREST, hidden_record, neighbour_record, shown_neighbours
from pucl.reports.page.records import UNREADABLE, Group
from pucl.runs.collection import Run
from pucl.runs.posterior import posterior_of, read_state
from pucl.texts import base64_of

POINTS = 5000
FEWEST = 3  # Samples of a map.
FEWEST_FOR_UMAP = 100  # With fewer samples, neighbourhoods show nothing.
SEEDS_OF_ONE_ROW = 3
THUMBNAIL_SHARE = 0.46  # Share of a group's bytes for thumbnails.


class OtherSamplesError(ValueError):
    """The data that were found are not the data of the run."""


class Samples(NamedTuple):
    """The samples of a map."""

    indices: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    thumbnails: dict[str, Any] | None  # As the modality makes them; None if the data were not found.
    note: str  # Why there are no thumbnails, or that only parts of graphs are drawn.


def maps_of(
    group: Group,
    *,
    root: Path | None,
    points: int,
    budget: int,
    skip: Callable[[Path, str], None],
    report: Callable[[str], None],
) -> dict[str, Any] | str:
    """The maps and nearest samples of a group of runs, or a sentence that says why there are none.

    Args:
        group: The runs.
        root: Directory of the data.
        points: Most samples on a map.
        budget: Most bytes of the record.
        skip: Called with a directory and a reason if embeddings cannot be read.
        report: Called with a description of the current step.
    """
    found: list[tuple[int, Run, NDArray[Any]]] = []
    labels: NDArray[np.int64] | None = None
    for number, run in _runs_with_a_map(group):
        try:
            features, its_labels = _embeddings(run)
            if not found:
                labels = its_labels
            elif len(features) != len(found[0][2]) or not _equal(labels, its_labels):
                raise ValueError("has no map: its embeddings are of other samples than those of the first run")
        except UNREADABLE as error:
            file = "" if isinstance(error, DataError) else "embeddings.npz: "
            skip(run.path, file + str(error).replace(f"{run.path}/", ""))
            continue
        found.append((number, run, features))
    if not found:
        return "There is no map: no run has embeddings here. Copies of records may lack them."
    report(f"samples of {group.name}")
    _, first, features = found[0]
    samples = choose_samples(first, len(features), labels, root=root, points=points, budget=budget)
    used = len(str(samples.thumbnails)) if samples.thumbnails else 0
    states = [_state(run, len(features), skip) for _, run, features in found]
    # Coordinates take four bytes; r takes a byte for each neighbour, and two more.
    bytes_each = (budget - used) * 3 // 4 // len(found) // len(samples.indices) - 4
    bytes_each -= (NEAREST + 2) * sum(state is not None for state in states) // len(states)
    maps = []
    for (number, run, features), state in zip(found, states, strict=True):
        name = group.rows[number].summary.name
        report(f"map of {name}, seed {run.config.seed}")
        made = _map(run, features[samples.indices], samples.labels, max(8, bytes_each))
        maps.append({"name": name} | made | {"r": None if state is None else _hidden(run, state, samples, made)})
    modality = modality_of(first.config)
    with_embeddings = sum(1 for row in group.rows if any(map(_has_embeddings, row.runs)))
    return {
        "units": modality.name,
        "unit": modality.unit,
        "count": len(features),
        "indices": base64_of(samples.indices.astype(np.uint32)),
        "labels": None if samples.labels is None else base64_of(samples.labels.astype(np.uint16)),
        "classes": list(samples.classes),
        "thumbnails": samples.thumbnails,
        "note": samples.note,
        "maps": maps,
        "first": max(range(len(found)), key=lambda index: _interest(found[index][1], maps[index]["r"])),
        "left_out": max(0, with_embeddings - len({number for number, _, _ in found})),
    }


def plane_of(features: NDArray[Any]) -> tuple[Floats, str]:
    """Coordinates of samples in the plane, and the method: UMAP, or principal components if UMAP cannot be used."""
    if len(features) >= FEWEST_FOR_UMAP:
        try:
            return lay_out(features), "UMAP"
        except ValueError:  # UMAP is not installed, or all embeddings are equal.
            pass
    return principal_plane(features), "two principal components"


def _runs_with_a_map(group: Group) -> list[tuple[int, Run]]:
    """The first seed of each row, or some seeds of the only row."""
    rows = [(number, [run for run in row.runs if _has_embeddings(run)]) for number, row in enumerate(group.rows)]
    rows = [(number, runs) for number, runs in rows if runs]
    if len(rows) == 1:
        number, runs = rows[0]
        return [(number, run) for run in runs[:SEEDS_OF_ONE_ROW]]
    most = 0 if group.config is None else modality_of(group.config).most_maps
    return [(number, runs[0]) for number, runs in rows[:most]]


def _interest(run: Run, r: dict[str, Any] | None) -> int:
    """The page begins with a map of PUCL, of a correction with r or of another trained encoder, if there is one."""
    return (run.config.correction == "pucl") + (run.config.correction not in NOT_TRAINED) + (r is not None)


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
        raise ValueError("a map is made of finite features: got NaN or infinity; the training has diverged")
    if labels is not None and (
        labels.shape != features.shape[:1] or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= 2**16
    ):
        raise ValueError("labels are one class for each sample, as a number")
    return features, labels


def _equal(one: NDArray[np.int64] | None, other: NDArray[np.int64] | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def choose_samples(
    run: Run, count: int, labels: NDArray[np.int64] | None, *, root: Path | None, points: int, budget: int
) -> Samples:
    """Choose samples evenly over the classes, or at random without labels, and make their thumbnails.

    `count` samples have embeddings; `labels` are their classes, as the run stored them. The thumbnails may take a share
    of the budget.
    """
    modality = modality_of(run.config)
    points = min(points, modality.most_points)
    classes: tuple[str, ...] = ()
    thumbnails: dict[str, Any] | None = None
    try:
        task = open_data(run.config, root)
        classes = task.embedded.classes
        if task.embedded.count != count or not (labels is None or _equal(labels, task.embedded.labels)):
            raise OtherSamplesError("the data have changed since the run embedded them")
        labels = task.embedded.labels
        indices = to_show(labels, count, points)
        thumbnails, note = task.thumbnails(indices, int(THUMBNAIL_SHARE * budget))
    except UNREADABLE as error:
        indices = to_show(labels, count, points)
        # Other messages may name directories of this machine, and the page may be sent to other people.
        why = str(error) if isinstance(error, OtherSamplesError) else "the data could not be read"
        note = f"The {modality.name} are not shown: {why}."
        if not classes and labels is not None:
            classes = tuple(f"class {number}" for number in range(int(labels.max()) + 1))
    return Samples(indices, None if labels is None else labels[indices], classes, thumbnails, note)


def _map(run: Run, features: NDArray[Any], labels: NDArray[np.int64] | None, numbers: int) -> dict[str, Any]:
    """The map of one run, and the numbers from which the page computes similarities."""
    plane, method = plane_of(features)
    tau = (run.result or {}).get("tau_plus", math.nan)
    return {
        "seed": run.config.seed,
        "method": method,
        "plane": base64_of(_as_integers(plane)),
        "tau": tau if run.config.correction not in NOT_TRAINED and math.isfinite(tau) else None,
    } | neighbour_record(features, labels, numbers)


def _state(run: Run, samples: int, skip: Callable[[Path, str], None]) -> CorrectionState | None:
    """What the correction of a run knows of its samples; None if nothing was kept."""
    try:
        return read_state(run.path / "embeddings.npz", run.config, samples)
    except UNREADABLE as error:
        skip(run.path, f"embeddings.npz: {str(error).replace(f'{run.path}/', '')}")
        return None


def _hidden(run: Run, state: CorrectionState, samples: Samples, record: dict[str, Any]) -> dict[str, Any] | None:
    """R of each sample with its nearest ones, as the run's correction sees them."""
    neighbours = shown_neighbours(record, len(samples.indices))
    r = posterior_of(state, samples.indices, neighbours)
    error = (run.result or {}).get("calibration.error")
    return None if r is None else hidden_record(r, neighbours, error)


def _as_integers(plane: Floats) -> NDArray[np.uint16]:
    """Coordinates in two bytes each, with the same scale on both axes."""
    extent = max(float(np.ptp(plane, axis=0).max()), 1e-12)
    middle = (plane.max(axis=0) + plane.min(axis=0)) / 2
    integers: NDArray[np.uint16] = np.clip(np.round(32767.5 + 65535 * (plane - middle) / extent), 0, 65535).astype(
        np.uint16
    )
    return integers
