"""The space of embeddings, small enough for a page: a map of it, and who is near to whom."""

import importlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.choosing import to_show

Floats = NDArray[np.float32]

NEAREST = 24  # Unlabelled samples that are shown of an anchor.
ANCHORS = 12  # That are suggested.
MOST_NUMBERS = 64  # Of each sample, from which the page computes similarities.
UMAP_NEIGHBOURS = 15
FEWEST_FOR_UMAP = 100  # With fewer a map of neighbourhoods says nothing.
ROWS_AT_ONCE = 1024


def unit(features: NDArray[Any]) -> Floats:
    """Each row with length 1, so that inner products are cosines."""
    exact = features.astype(np.float64)
    made: Floats = (exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)).astype(np.float32)
    return made


def nearest(features: Floats, count: int) -> tuple[NDArray[np.int64], Floats]:
    """For each sample the others that are most similar, the nearest first, and their similarities.

    Args:
        features: [sample, feature]; similarities are inner products.
        count: How many, fewer where there are no more.
    """
    count = min(count, len(features) - 1)
    places, values = [], []
    for start in range(0, len(features), ROWS_AT_ONCE):
        block = features[start : start + ROWS_AT_ONCE] @ features.T
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -np.inf
        some = np.argpartition(-block, count - 1, axis=1)[:, :count]
        theirs = np.take_along_axis(block, some, 1)
        order = np.lexsort((some, -theirs), axis=1)  # Of equals the first, so that a page is the same each time.
        places.append(np.take_along_axis(some, order, 1))
        values.append(np.take_along_axis(theirs, order, 1))
    return np.concatenate(places), np.concatenate(values)


def layout(features: NDArray[Any]) -> tuple[Floats, str]:
    """A place in the plane for each sample, and by what method: UMAP where it is installed, else principal components.

    Args:
        features: [sample, feature], float.
    """
    if len(features) >= FEWEST_FOR_UMAP:
        try:
            return _umap(unit(features)), "UMAP"
        except ImportError:
            pass
    centred = features.astype(np.float64) - features.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(features), 2), np.float32)
    shown = min(2, len(sizes))
    plane[:, :shown] = left[:, :shown] * sizes[:shown]
    return plane, "two principal components"


def _umap(rows: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a missing tensorflow, and of copies in the data.
        made = importlib.import_module("umap").UMAP(
            n_neighbors=UMAP_NEIGHBOURS,
            min_dist=0.1,
            metric="cosine",
            random_state=0,
            n_jobs=1,
            # All pairs take two seconds; compiling a search for neighbours takes a minute.
            precomputed_knn=_umap_neighbours(rows),
        )
        places: Floats = np.asarray(made.fit_transform(rows), dtype=np.float32)
    return places


def _umap_neighbours(rows: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Neighbours and distances as UMAP wants them: each sample is its own first neighbour."""
    places, similarities = nearest(rows, UMAP_NEIGHBOURS - 1)
    own = np.arange(len(rows))[:, None]
    distances = np.concatenate([np.zeros((len(rows), 1), np.float32), np.maximum(1 - similarities, 0)], axis=1)
    return np.concatenate([own, places], axis=1).astype(np.int32), distances.astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Code:
    """Embeddings as few bytes, from which the page computes cosines: value = low + step * byte.

    Args:
        low: [number].
        step: [number].
        codes: uint8 [sample, number], principal components of the directions.
        error: Root mean square by which cosines of neighbours are off.
        kept: How many of the true `NEAREST` are among those that the page finds, on average, 0 to 1.
    """

    low: Floats
    step: Floats
    codes: NDArray[np.uint8]
    error: float
    kept: float

    @property
    def values(self) -> Floats:
        """What the page computes with."""
        made: Floats = self.low + self.step * self.codes.astype(np.float32)
        return made


def encode(features: NDArray[Any], numbers: int) -> Code:
    """Keep the principal components of the directions, each as a byte.

    Args:
        features: [sample, feature].
        numbers: How many components at most.
    """
    rows = unit(features)
    _, _, directions = np.linalg.svd(rows, full_matrices=False)
    parts = rows @ directions[: min(numbers, MOST_NUMBERS)].T
    # Six digits are what the page is told.
    low = np.array([float(f"{value:.6g}") for value in parts.min(axis=0)], np.float32)
    step = np.array([float(f"{max(value, 1e-9):.6g}") for value in np.ptp(parts, axis=0) / 255], np.float32)
    codes = np.clip(np.round((parts - low) / step), 0, 255).astype(np.uint8)
    values = low + step * codes.astype(np.float32)
    true_places, true_values = nearest(rows, NEAREST)
    places, _ = nearest(values, NEAREST)
    found = np.einsum("sf,snf->sn", values, values[true_places], optimize=True)
    kept = np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(places, true_places, strict=True)])
    return Code(
        low=low,
        step=step,
        codes=codes,
        error=float(np.sqrt(np.mean((found - true_values) ** 2))),
        kept=float(kept),
    )


def average(values: Floats, labels: NDArray[np.int64] | None) -> dict[str, float | None]:
    """Over all anchors: how many of the nearest are of the anchor's class, and how many would be by chance.

    Args:
        values: [sample, number]; similarities are inner products.
        labels: Classes, where they are known.
    """
    places, _ = nearest(values, NEAREST)
    shown = places.shape[1]
    if labels is None:
        return {"shown": float(shown), "same": None, "by_chance": None}
    sizes = np.bincount(labels)
    by_chance = shown * float((sizes * (sizes - 1)).sum()) / (len(labels) * (len(labels) - 1))
    same = float((labels[places] == labels[:, None]).sum(axis=1).mean())
    return {"shown": float(shown), "same": round(same, 2), "by_chance": round(by_chance, 2)}


def suggestions(values: Floats, labels: NDArray[np.int64] | None) -> dict[str, list[dict[str, Any]]]:
    """Anchors to begin with.

    Args:
        values: [sample, number]; similarities are inner products.
        labels: Classes, where they are known.

    Returns:
        By kind: ``"closest"``, whose nearest are most similar to them; ``"lookalikes"``, whose nearest are similar and
        of other classes; ``"spread"``, a few of all.
    """
    places, similarities = nearest(values, NEAREST)
    closeness = similarities.mean(axis=1)
    same = None if labels is None else labels[places] == labels[:, None]
    scores = {"closest": closeness}
    if same is not None:
        scores["lookalikes"] = (similarities * ~same).sum(axis=1)

    def about(anchor: int) -> dict[str, Any]:
        known = {} if same is None else {"same": int(same[anchor].sum())}
        return {"anchor": anchor, "closeness": round(float(closeness[anchor]), 4)} | known

    made = {}
    for kind, score in scores.items():
        chosen: list[int] = []
        taken: set[int] = set()
        for anchor in np.argsort(-score, kind="stable"):
            if int(anchor) not in taken:  # One of each crowd: the neighbours of an anchor would show the same again.
                chosen.append(int(anchor))
                taken.update(int(place) for place in places[anchor])
            if len(chosen) == ANCHORS:
                break
        made[kind] = [about(anchor) for anchor in chosen]
    made["spread"] = [about(int(anchor)) for anchor in to_show(labels, len(values), ANCHORS)]
    return made
