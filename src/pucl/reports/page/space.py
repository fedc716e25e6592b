"""The space of embeddings, small enough for a page: a map of it, who is near to whom, and what that suggests."""

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.experiments.images import to_show

Floats = NDArray[np.float32]
Posterior = Callable[[NDArray[np.float64]], NDArray[np.float64]]

NEAREST = 24  # Unlabelled samples that are shown of an anchor.
ANCHORS = 12  # That are suggested.
MOST_NUMBERS = 64  # Of each sample, from which the page computes similarities.
UMAP_NEIGHBOURS = 15
FEWEST_FOR_UMAP = 100  # With fewer a map of neighbourhoods says nothing.
PAIRS = 20_000  # Drawn at random, to see how alike samples are.
GRID = 129  # Places at which the probability is written down.
LARGEST = 1 - 1e-6  # Cosines are taken for no larger: atanh(1) is infinite.
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


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """The probability that a pair is a hidden positive, by its similarity.

    Args:
        low: Fisher's z of the first place of the table.
        high: Of the last.
        table: Probabilities at `GRID` places from low to high; they never fall.
        share: Of hidden positives among all pairs, as the mixture has it.
    """

    low: float
    high: float
    table: NDArray[np.float64]
    share: float

    def __call__(self, similarities: NDArray[Any]) -> NDArray[np.float64]:
        """The probability for each of these."""
        z = fisher(similarities)
        return np.interp(z, np.linspace(self.low, self.high, len(self.table)), self.table)


def suspicion(values: Floats) -> Suspicion | None:
    """Two Gaussians on Fisher's z of random pairs: pairs of different kinds, and hidden positives above.

    Args:
        values: [sample, number]; similarities are inner products.

    Returns:
        None where the similarities do not allow it: too few, or all the same.
    """
    count = len(values)
    random = np.random.default_rng(0)
    one = random.integers(0, count, PAIRS)
    other = (one + random.integers(1, count, PAIRS)) % count
    cosines = np.clip(np.einsum("pf,pf->p", values[one], values[other]), -1, 1).astype(np.float64)
    _, close = nearest(values, 1)
    low, high = float(fisher(cosines).min()), float(fisher(np.append(close, cosines)).max())
    if high - low < 1e-6:
        return None
    try:
        posterior, share = _mixture(cosines)
    except ValueError:
        return None
    table = posterior(np.tanh(np.linspace(low, high, GRID)))
    # A wider Gaussian overtakes the other at both ends, which means nothing: more alike is never less suspicious.
    lowest = int(np.argmin(table[: GRID // 2]))
    table[:lowest] = table[lowest]
    table = np.maximum.accumulate(table)
    return Suspicion(low=low, high=high, table=table, share=share) if np.isfinite(table).all() else None


def fisher(similarities: NDArray[Any]) -> NDArray[np.float64]:
    """Fisher's z of cosines."""
    made: NDArray[np.float64] = np.arctanh(np.clip(similarities.astype(np.float64), -LARGEST, LARGEST))
    return made


def _mixture(cosines: NDArray[np.float64]) -> tuple[Posterior, float]:
    try:
        from pucl.priors import mixture  # noqa: PLC0415
    except ImportError:
        return _two_gaussians(fisher(cosines))
    found = mixture(cosines)
    return lambda s: found.posterior(torch.from_numpy(s)).numpy(), found.tau_plus


def _two_gaussians(z: NDArray[np.float64], rounds: int = 300) -> tuple[Posterior, float]:
    """Expectation-maximisation from the tenth of the pairs that are most similar as the upper Gaussian."""
    upper = (z > np.quantile(z, 0.9)).astype(np.float64)
    narrowest = 0.01 * z.std()

    def density(x: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        total = max(weights.sum(), 1e-12)
        mean = (weights * z).sum() / total
        deviation = max(np.sqrt((weights * (z - mean) ** 2).sum() / total), narrowest)
        made: NDArray[np.float64] = total * np.exp(-(((x - mean) / deviation) ** 2) / 2) / deviation
        return made

    def chance(x: NDArray[np.float64], responsible: NDArray[np.float64]) -> NDArray[np.float64]:
        above, below = density(x, responsible), density(x, 1 - responsible)
        return above / np.maximum(above + below, 1e-300)

    for _ in range(rounds):
        before, upper = upper, chance(z, upper)
        if np.abs(upper - before).max() < 1e-6:
            break
    return lambda s: chance(fisher(s), upper), float(upper.mean())


def average(values: Floats, chance: Suspicion | None, labels: NDArray[np.int64] | None) -> dict[str, float | None]:
    """Over all anchors: how many of the nearest are expected to be hidden positives, and how many truly are."""
    places, similarities = nearest(values, NEAREST)
    return {
        "shown": float(places.shape[1]),
        "expected": None if chance is None else round(float(chance(similarities).sum(axis=1).mean()), 2),
        "same": None if labels is None else round(float((labels[places] == labels[:, None]).sum(axis=1).mean()), 2),
    }


def suggestions(
    values: Floats, chance: Suspicion | None, labels: NDArray[np.int64] | None
) -> dict[str, list[dict[str, Any]]]:
    """Anchors to begin with.

    Args:
        values: [sample, number]; similarities are inner products.
        chance: That a pair is a hidden positive.
        labels: Classes, where they are known.

    Returns:
        By kind: ``"suspicious"``, of whose nearest most are expected to be hidden positives; ``"lookalikes"``, where
        labels say that those are of other classes; ``"spread"``, a few of all.
    """
    places, similarities = nearest(values, NEAREST)
    probable = similarities.astype(np.float64) if chance is None else chance(similarities)
    same = None if labels is None else labels[places] == labels[:, None]
    scores = {"suspicious": probable.sum(axis=1) + 1e-6 * similarities.mean(axis=1)}
    if same is not None:
        scores["lookalikes"] = (probable * ~same).sum(axis=1)

    def about(anchor: int) -> dict[str, Any]:
        known = {} if same is None else {"same": int(same[anchor].sum())}
        return {
            "anchor": anchor,
            "expected": None if chance is None else round(float(probable[anchor].sum()), 1),
        } | known

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
