"""Embeddings of finished runs, laid out in the plane: near points are near neighbours."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.config import RunConfig
from pucl.data.choosing import to_show
from pucl.data.errors import DataError
from pucl.diagnosis.similarities import subject_of
from pucl.images.encoders.registry import EncoderSource
from pucl.runs.directory import RunDirectory
from pucl.runs.trained import load
from pucl.texts import install

NEIGHBOURS = 15  # That the layout of a point looks at: umap-learn's own number.
FEWEST = NEIGHBOURS + 1
POINTS = 5000


class UmapMissingError(DataError):
    """A layout was asked for where nothing can make it."""

    def __init__(self) -> None:
        super().__init__(f"layouts are made with umap-learn, which is not installed: {install('umap')}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """Samples of one run in the plane.

    Args:
        run: Where the run is.
        config: What it is.
        part: Which samples: ``"test"``, ``"train"`` or ``"graphs"``.
        places: Their numbers within that part.
        points: float32 [sample, 2].
        labels: Their classes; None where they are not known.
        classes: Names of the classes.
        knn: Accuracy of nearest neighbours that the run has in its result, 0 to 1; None if it has none.
    """

    run: Path
    config: RunConfig
    part: str
    places: NDArray[np.int64]
    points: NDArray[np.float32]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    knn: float | None = None

    @property
    def name(self) -> str:
        """What tells it from other runs on the same data."""
        return f"{self.config.correction}, seed {self.config.seed}"

    @property
    def subject(self) -> str:
        """What was trained on what."""
        return subject_of(self.config)


def lay_out_runs(
    runs: Sequence[Path],
    *,
    points: int = POINTS,
    root: Path | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
    encoder: EncoderSource | None = None,
) -> list[Layout]:
    """Embed samples of each run's data as classifiers get them, before the head, and lay them out.

    Images are those of the test set, which no training has seen, where there is one. Runs on the same data show the
    same samples.

    Args:
        runs: Directories of finished runs.
        points: Samples of each run at most: evenly over the classes, or at random without labels.
        root: Where data are; see `pucl.images.registry.load`.
        seed: Of the layout.
        tell: Is told what is being done.
        encoder: What makes the encoder, where it is not pucl's; see `pucl.load`.

    Raises:
        UmapMissingError: If umap-learn is not installed.
        ValueError: If a run is not finished, or has too few samples.
    """
    if points < FEWEST:
        raise ValueError(
            f"points is how many samples are laid out: expected at least {FEWEST}, one and its {NEIGHBOURS} "
            f"neighbours, got {points}"
        )
    need_umap()
    return [_lay_out_run(run, points, root, seed, tell, encoder) for run in runs]


def lay_out(embeddings: NDArray[np.float32], *, seed: int = 0) -> NDArray[np.float32]:
    """A place in the plane for each embedding, by UMAP with cosine distances; the same again for the same embeddings.

    It starts from the two principal components, so that the large scale is not left to chance.

    Args:
        embeddings: [sample, feature].
        seed: Of the small scale.

    Reference:
        McInnes et al., "UMAP: Uniform Manifold Approximation and Projection for Dimension Reduction", 2018.

    Shapes:
        [sample, 2], float32.
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
    need_umap()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of copies in the data and of a missing tensorflow; neither spoils a layout.
        from umap import UMAP  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra, and slow)

        # One thread, since several would add in an order that changes from call to call.
        made = UMAP(n_neighbors=NEIGHBOURS, metric="cosine", init="pca", random_state=seed, n_jobs=1)
        points: NDArray[np.float32] = np.asarray(made.fit_transform(embeddings), dtype=np.float32)
    return points


def need_umap() -> None:
    """Say what is missing before work is begun."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImportWarning)
            import umap  # noqa: F401, PLC0415
    except ImportError as error:
        raise UmapMissingError from error


def _lay_out_run(
    run: Path,
    points: int,
    root: Path | None,
    seed: int,
    tell: Callable[[str], None],
    encoder: EncoderSource | None,
) -> Layout:
    trained = load(run, encoder=encoder)
    tell(f"{run}: embedding")
    shown = trained.choose_to_show(lambda labels, count: _choose(run, labels, count, points), root=root)
    tell(f"{run}: laying out {len(shown.rows):,} points")
    try:
        laid_out = lay_out(shown.rows, seed=seed)
    except ValueError as error:
        raise ValueError(f"{run}: {error}") from error
    return Layout(
        run=run,
        config=trained.config,
        part=shown.part,
        places=shown.indices,
        points=laid_out,
        labels=shown.labels,
        classes=shown.classes,
        knn=(RunDirectory(run).result() or {}).get("knn"),
    )


def _choose(run: Path, labels: NDArray[np.int64] | None, count: int, points: int) -> NDArray[np.int64]:
    if count < FEWEST:
        raise ValueError(
            f"{run}: a layout is made of samples with {NEIGHBOURS} neighbours each: expected {FEWEST} or more, got "
            f"{count}"
        )
    return to_show(labels, count, points)
