"""The samples of one group of runs and how each run embeds them, as the page's program reads them."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pucl.config import NOT_TRAINED
from pucl.contrast.correction import CorrectionState
from pucl.data.choosing import to_show
from pucl.data.errors import DataError
from pucl.data.npz import read_npz_arrays
from pucl.diagnosis.layout2d import Floats, lay_out, principal_plane, unit
from pucl.frameworks import modality_of, open_data
from pucl.reports.page.neighbours import NEAREST, Codes, encode, hidden_record
from pucl.reports.page.pairs import PAIRS, Embedded, about_shares, own_shares, pair_lists
from pucl.reports.page.records import UNREADABLE, Group
from pucl.reports.page.schema import Hidden, Map, Space
from pucl.runs.collection import Run
from pucl.runs.posterior import posterior_of, read_state
from pucl.samples import Thumbnails
from pucl.texts import base64_of

POINTS = 5000
FEWEST = 3  # Samples of a map.
FEWEST_FOR_UMAP = 100  # With fewer samples, neighbourhoods show nothing.
SEEDS_OF_ONE_ROW = 3
THUMBNAIL_SHARE = 0.46  # Share of a group's bytes for thumbnails.
BYTES_OF_A_PAIR = 90  # In a list of pairs.


class OtherSamplesError(ValueError):
    """The data that were found are not the data of the run."""


class Samples(NamedTuple):
    """The samples of a map."""

    indices: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    names: tuple[str, ...] | None  # None if the indices are enough.
    thumbnails: Thumbnails | None  # As the modality makes them; None if the data were not found.
    note: str  # Why there are no thumbnails, or that only parts of graphs are drawn.

    @property
    def bytes_used(self) -> int:
        """Bytes of names and thumbnails on the page."""
        shown = None if self.thumbnails is None else asdict(self.thumbnails)
        return len(json.dumps([self.names, shown]))


def space_of(
    group: Group,
    *,
    root: Path | None,
    points: int,
    budget: int,
    skip: Callable[[Path, str], None],
    report: Callable[[str], None],
) -> tuple[Space | None, str]:
    """The samples of a group of runs, and a sentence on what its losses push; or why there are no samples.

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
        return None, "There are no samples to show: no run has embeddings here. Copies of records may lack them."
    report(f"samples of {group.name}")
    _, first, features = found[0]
    count = len(features)
    samples = choose_samples(first, count, labels, root=root, points=points, budget=budget)
    embedded = [
        Embedded(
            row=group.rows[number].summary.name,
            run=run,
            rows=unit(features[samples.indices]),
            state=_state(run, count, skip),
        )
        for number, run, features in found
    ]
    with_embeddings = sum(1 for row in group.rows if any(map(_has_embeddings, row.runs)))
    left_out = max(0, with_embeddings - len({number for number, _, _ in found}))
    # Coordinates take four bytes and shares two; r takes a byte for each neighbour, and two more.
    bytes_each = (budget - samples.bytes_used - 2 * PAIRS * BYTES_OF_A_PAIR) * 3 // 4 // len(found)
    bytes_each = bytes_each // len(samples.indices) - 6
    bytes_each -= (NEAREST + 2) * sum(each.state is not None for each in embedded) // len(embedded)
    maps, shares = [], []
    for each in embedded:
        report(f"map of {each.row}, seed {each.run.config.seed}")
        shares.append((each.row, own_shares(each, samples.indices, samples.labels)))
        maps.append(_map(each, samples, max(8, bytes_each), count, shares[-1][1], left_out))
    report(f"pairs of {group.name}")
    base = _base_of(group, embedded)
    by_interest = sorted(range(len(maps)), key=lambda index: -_interest(embedded[index], maps[index], index == base))
    modality = modality_of(first.config)
    space = Space(
        unit=modality.unit,
        units=modality.name,
        count=count,
        indices=base64_of(samples.indices.astype(np.uint32)),
        labels=None if samples.labels is None else base64_of(samples.labels.astype(np.uint16)),
        classes=samples.classes,
        names=samples.names,
        thumbnails=samples.thumbnails,
        maps=tuple(maps),
        base=base,
        first=by_interest[0],
        pairs=pair_lists(embedded[base], [embedded[index] for index in by_interest], samples.indices, samples.labels),
    )
    return space, about_shares(shares, embedded[base].row)


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


def _base_of(group: Group, embedded: list[Embedded]) -> int:
    """The run whose pairs are shown: of the base row, or else the first that was trained."""
    trained = [index for index, each in enumerate(embedded) if each.run.config.correction not in NOT_TRAINED]
    named = [index for index in trained if embedded[index].row == group.base]
    return (named or trained or [0])[0]


def _interest(embedded: Embedded, made: Map, is_base: bool) -> int:
    """What stands beside the base: a correction with r, or else PUCL, or else another trained encoder."""
    correction = embedded.run.config.correction
    return 4 * (made.hidden is not None) + (correction == "pucl") + (correction not in NOT_TRAINED) - 8 * is_base


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
    names: tuple[str, ...] | None = None
    thumbnails: Thumbnails | None = None
    try:
        task = open_data(run.config, root)
        classes = task.embedded.classes
        if task.embedded.count != count or not (labels is None or _equal(labels, task.embedded.labels)):
            raise OtherSamplesError("the data have changed since the run embedded them")
        labels = task.embedded.labels
        indices = to_show(labels, count, points)
        if task.embedded.names is not None:
            names = tuple(task.embedded.names[index] for index in indices)
        thumbnails, note = task.thumbnails(indices, int(THUMBNAIL_SHARE * budget))
    except UNREADABLE as error:
        indices = to_show(labels, count, points)
        # Other messages may name directories of this machine, and the page may be sent to other people.
        why = str(error) if isinstance(error, OtherSamplesError) else "the data could not be read"
        note = f"The {modality.name} are not shown: {why}."
        if not classes and labels is not None:
            classes = tuple(f"class {number}" for number in range(int(labels.max()) + 1))
    return Samples(indices, None if labels is None else labels[indices], classes, names, thumbnails, note)


def _map(
    embedded: Embedded,
    samples: Samples,
    numbers: int,
    count: int,
    shares: Floats | None,
    left_out: int,
) -> Map:
    """The map of one run, and the numbers from which the page computes similarities.

    Args:
        embedded: The run.
        samples: The samples of the page.
        numbers: Most bytes for the features of a sample.
        count: Number of embedded samples, of which the page has some.
        shares: See `own_shares`.
        left_out: Number of rows that have embeddings, and no map here.
    """
    config, modality, own = embedded.run.config, modality_of(embedded.run.config), len(samples.indices)
    plane, method = plane_of(embedded.rows)
    codes = encode(embedded.rows, numbers)
    number = f"{own:,} of {count:,}" if own < count else f"All {count:,}"
    coloured = "" if samples.labels is None else " and coloured by class"
    about = [
        f"{number} {modality.name} as embedded by {embedded.row}, seed {config.seed}, laid out by {method}{coloured}."
    ]
    about += ["The classes are unknown."] if samples.labels is None else []
    about += [samples.note] if samples.note else []
    if left_out:
        rows = "1 more row has" if left_out == 1 else f"{left_out} more rows have"
        about.append(f"{rows} no map here; a report of those runs alone has one.")
    return Map(
        name=embedded.row,
        seed=config.seed,
        plane=base64_of(_as_integers(plane)),
        low=codes.low,
        step=codes.step,
        codes=base64_of(codes.codes),
        own=None if shares is None else base64_of(np.round(65535 * shares).astype(np.uint16)),
        hidden=_hidden(embedded, samples, codes),
        about=" ".join(about),
        fine=codes.about(modality.unit, modality.name),
    )


def _state(run: Run, samples: int, skip: Callable[[Path, str], None]) -> CorrectionState | None:
    """What the correction of a run knows of its samples; None if nothing was kept."""
    try:
        return read_state(run.path / "embeddings.npz", run.config, samples)
    except UNREADABLE as error:
        skip(run.path, f"embeddings.npz: {str(error).replace(f'{run.path}/', '')}")
        return None


def _hidden(embedded: Embedded, samples: Samples, codes: Codes) -> Hidden | None:
    """R of each sample with its nearest ones, as the run's correction sees them."""
    if embedded.state is None:
        return None
    neighbours = codes.neighbours()
    r = posterior_of(embedded.state, samples.indices, neighbours)
    return None if r is None else hidden_record(r, neighbours, embedded.calibration_error)


def _as_integers(plane: Floats) -> NDArray[np.uint16]:
    """Coordinates in two bytes each, with the same scale on both axes."""
    extent = max(float(np.ptp(plane, axis=0).max()), 1e-12)
    middle = (plane.max(axis=0) + plane.min(axis=0)) / 2
    integers: NDArray[np.uint16] = np.clip(np.round(32767.5 + 65535 * (plane - middle) / extent), 0, 65535).astype(
        np.uint16
    )
    return integers
