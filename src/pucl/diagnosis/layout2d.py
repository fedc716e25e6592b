"""Embeddings of finished runs, laid out in the plane: near points are near neighbours."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.config import RunConfig
from pucl.data.choosing import to_show
from pucl.data.errors import ExtraMissingError
from pucl.modality import EncoderSource
from pucl.runs.directory import RunDirectory
from pucl.runs.trained import load

Floats = NDArray[np.float32]

NEIGHBOURS = 15  # UMAP's neighbours of a point: the default of umap-learn.
FEWEST = NEIGHBOURS + 1
POINTS = 5000
ROWS_AT_ONCE = 1024  # Rows of the similarity matrix that are in memory at a time.


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """Samples of one run in the plane.

    Args:
        run: Directory of the run.
        config: Its configuration.
        part: Which samples, such as ``"test images"`` or ``"graphs"``.
        indices: Indices of the samples within that part.
        points: float32 [sample, 2].
        labels: Their classes; None if they are unknown.
        classes: Names of the classes.
        result: The result of the run.
    """

    run: Path
    config: RunConfig
    part: str
    indices: NDArray[np.int64]
    points: NDArray[np.float32]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    result: Mapping[str, Any] = field(default_factory=dict)


def lay_out_runs(
    runs: Sequence[Path],
    *,
    points: int = POINTS,
    root: Path | None = None,
    report: Callable[[str], None] = lambda _: None,
    encoder: EncoderSource | None = None,
) -> list[Layout]:
    """Embed samples of each run's data, and lay them out in the plane.

    The embeddings are those before the head, as probes get them. Images come from the test set if there is one, which
    no training has seen. Runs on the same data show the same samples.

    Args:
        runs: Directories of finished runs.
        points: Most samples of each run: evenly over the classes, or at random without labels.
        root: Directory of the data; see `pucl.data.root.data_root`.
        report: Called with a description of the current step.
        encoder: Makes the encoder if it is not one of pucl's; see `pucl.load`.

    Raises:
        ValueError: If umap-learn is not installed, a run is not finished, or it has too few samples.
    """
    if points < FEWEST:
        raise ValueError(
            f"points is the number of samples in a layout: expected at least {FEWEST}, one and its {NEIGHBOURS} "
            f"neighbours, got {points}"
        )
    return [_lay_out_run(run, points, root, report, encoder) for run in runs]


def lay_out(embeddings: NDArray[np.floating]) -> Floats:
    """Coordinates of each embedding in the plane, by UMAP with cosine distances.

    The layout starts from the first two principal components, so that its large scale does not depend on chance. The
    same embeddings give the same layout.

    Args:
        embeddings: [sample, feature].

    Reference:
        McInnes et al., "UMAP: Uniform Manifold Approximation and Projection for Dimension Reduction", 2018.

    Shapes:
        [sample, 2], float32.

    Raises:
        ValueError: If umap-learn is not installed, there are too few embeddings, all are equal, or some not finite.
    """
    if embeddings.ndim != 2 or len(embeddings) < FEWEST or embeddings.shape[1] < 2:
        raise ValueError(
            f"a layout is made of at least {FEWEST} embeddings with 2 features or more: expected [sample, feature], "
            f"got {list(embeddings.shape)}"
        )
    if not np.isfinite(embeddings).all():
        raise ValueError("a layout is made of embeddings: expected finite numbers, got NaN or infinity")
    if np.ptp(embeddings, axis=0).max() == 0:
        raise ValueError("a layout is made of embeddings that differ: got the same for all; they may have collapsed")
    check_umap()
    rows = unit(embeddings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # About duplicates in the data and a missing tensorflow: both are harmless.
        from umap import UMAP  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra, and slow)

        layout = UMAP(
            n_neighbors=NEIGHBOURS,
            metric="cosine",
            init="pca",
            random_state=0,
            n_jobs=1,  # Several threads would add in an order that changes from call to call.
            # Comparing all pairs takes two seconds. Compiling UMAP's own search takes a minute.
            precomputed_knn=_umap_neighbours(rows),
        )
        points: Floats = np.asarray(layout.fit_transform(rows), dtype=np.float32)
    return points


def principal_plane(embeddings: NDArray[np.floating]) -> Floats:
    """The first two principal components of each embedding [sample, feature], as [sample, 2]."""
    centred = embeddings.astype(np.float64) - embeddings.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(embeddings), 2), np.float32)
    found = min(2, len(sizes))
    plane[:, :found] = left[:, :found] * sizes[:found]
    return plane


def unit(embeddings: NDArray[np.floating]) -> Floats:
    """Embeddings of length 1, so that inner products are cosines."""
    exact = embeddings.astype(np.float64)
    rows: Floats = (exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)).astype(np.float32)
    return rows


def nearest(rows: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """For each sample, the indices and similarities of the most similar others, the nearest first.

    Similarities are inner products of the rows. There are fewer than `count` neighbours if there are few samples.
    """
    count = min(count, len(rows) - 1)
    indices, similarities = [], []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = rows[start : start + ROWS_AT_ONCE] @ rows.T
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -np.inf
        some = np.argpartition(-block, count - 1, axis=1)[:, :count]
        theirs = np.take_along_axis(block, some, 1)
        order = np.lexsort((some, -theirs), axis=1)  # Ties by index, so that a page is the same each time.
        indices.append(np.take_along_axis(some, order, 1))
        similarities.append(np.take_along_axis(theirs, order, 1))
    return np.concatenate(indices), np.concatenate(similarities)


def _umap_neighbours(rows: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Neighbours and distances in UMAP's form: each sample is its own first neighbour."""
    indices, similarities = nearest(rows, NEIGHBOURS - 1)
    own = np.arange(len(rows))[:, None]
    distances = np.concatenate([np.zeros((len(rows), 1), np.float32), np.maximum(1 - similarities, 0)], axis=1)
    return np.concatenate([own, indices], axis=1).astype(np.int32), distances.astype(np.float32)


def check_umap() -> None:
    """Raise an error if umap-learn is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImportWarning)
            import umap  # noqa: F401, PLC0415
    except ImportError as error:
        raise ExtraMissingError("a layout", "umap-learn", "umap") from error


def _lay_out_run(
    run: Path, points: int, root: Path | None, report: Callable[[str], None], encoder: EncoderSource | None
) -> Layout:
    trained = load(run, encoder=encoder)
    report(f"{run}: embedding")
    shown = trained.choose_to_show(lambda labels, count: _choose(run, labels, count, points), root=root)
    report(f"{run}: laying out {len(shown.rows):,} points")
    try:
        laid_out = lay_out(shown.rows)
    except ValueError as error:
        raise ValueError(f"{run}: {error}") from error
    return Layout(
        run=run,
        config=trained.config,
        part=shown.part,
        indices=shown.indices,
        points=laid_out,
        labels=shown.labels,
        classes=shown.classes,
        result=RunDirectory(run).result() or {},
    )


def _choose(run: Path, labels: NDArray[np.int64] | None, count: int, points: int) -> NDArray[np.int64]:
    if count < FEWEST:
        raise ValueError(
            f"{run}: a layout is made of samples with {NEIGHBOURS} neighbours each: expected {FEWEST} or more, got "
            f"{count}"
        )
    return to_show(labels, count, points)
