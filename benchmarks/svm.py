"""Time of the SVM evaluation of graphs: ours, and scikit-learn's grid search inside its folds.

Both get the same embeddings in turn, in one process, and must reach the same accuracy on every fold.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.subject import Progress
from pucl.evaluation import SVMResult, cross_validated_svm
from pucl.evaluation.folds import FOLDS
from pucl.evaluation.svm import COSTS, INNER_FOLDS

Embedded = tuple[NDArray[np.floating], NDArray[np.integer]]
"""Features [graph, dim] and the class of each graph."""

WIDTH, LAYERS = 32, 3
NODE_FEATURES = 8


@dataclass(frozen=True, kw_only=True)
class SVMSettings:
    """How the evaluation is run and timed.

    Args:
        folds: Outer folds.
        inner_folds: Inner folds, in which C is chosen out of `COSTS`.
        scale: Standardise features by each training set.
        jobs: Threads of ours, and processes of scikit-learn where it runs in parallel.
        rounds: Number of rounds.
        seed: Seed of the folds.
    """

    folds: int = FOLDS
    inner_folds: int = INNER_FOLDS
    scale: bool = False
    jobs: int = 1
    rounds: int = 1
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class SVMRow:
    """One set of embeddings.

    Args:
        name: Name of the set.
        graphs: Number of graphs.
        dim: Dimension of the embeddings.
        classes: Number of classes.
        scaled: Whether features were standardised.
        seconds: Times of each round, for ``"sklearn"`` (one process), ``"sklearn jobs"`` (all cores) and ``"ours"``.
        ratios: scikit-learn's time over ours in the same round, the median; with one process, and on all cores.
        accuracies: Our accuracy on each outer fold.
        equal: Whether scikit-learn has the same accuracies and chose the same C on every fold.
    """

    name: str
    graphs: int
    dim: int
    classes: int
    scaled: bool
    seconds: dict[str, list[float]]
    ratios: dict[str, float]
    accuracies: tuple[float, ...]
    equal: bool


def measure_svm(settings: SVMSettings, embeddings: Mapping[str, Embedded], progress: Progress) -> list[SVMRow]:
    """Time the evaluation of each set of embeddings, by scikit-learn and by us in turn."""
    _warm_up(settings)
    return [_measure_set(name, embedded, settings, progress) for name, embedded in embeddings.items()]


def search_with_sklearn(embedded: Embedded, settings: SVMSettings, jobs: int | None) -> SVMResult:
    """The same protocol as a user of scikit-learn would write it."""
    from sklearn.model_selection import (  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
        GridSearchCV,
        StratifiedKFold,
    )
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.svm import SVC  # type: ignore[import-untyped]  # noqa: PLC0415

    features, labels = embedded
    machine, name = (make_pipeline(StandardScaler(), SVC()), "svc__C") if settings.scale else (SVC(), "C")
    accuracies, costs, validation = [], [], []
    outer = StratifiedKFold(settings.folds, shuffle=True, random_state=settings.seed)
    for train, held in outer.split(features, labels):
        search = GridSearchCV(machine, {name: list(COSTS)}, cv=settings.inner_folds, n_jobs=jobs)
        search.fit(features[train], labels[train])
        accuracies.append(float(search.score(features[held], labels[held])))
        costs.append(float(search.best_params_[name]))
        validation.append(tuple(search.cv_results_["mean_test_score"].tolist()))
    return SVMResult(accuracies=tuple(accuracies), costs=tuple(costs), validation=tuple(validation))


def pooled_features(
    graphs: int, classes: int, nodes: int, *, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Random embeddings like those of an untrained encoder, for a set of graphs that is not on this machine.

    The graphs are rings of random length. Node features differ a little between classes, pass through three random
    layers, and are summed over the nodes, so that large graphs have long vectors.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(graphs) % classes)
    lengths = np.maximum(3, rng.lognormal(np.log(nodes), 0.6, graphs).astype(np.int64))
    starts = np.concatenate([[0], lengths.cumsum()[:-1]])
    means = 0.3 * rng.standard_normal((classes, NODE_FEATURES))
    x = means[labels].repeat(lengths, axis=0) + rng.standard_normal((int(lengths.sum()), NODE_FEATURES))
    # In a ring the node after the last is the first.
    after = np.arange(1, len(x) + 1)
    after[starts + lengths - 1] = starts
    pooled = []
    for _ in range(LAYERS):
        weights = rng.standard_normal((x.shape[1], WIDTH)) / np.sqrt(x.shape[1])
        x = np.maximum((x + x[after]) @ weights, 0)
        pooled.append(np.add.reduceat(x, starts, axis=0))
    return np.concatenate(pooled, axis=1), labels


def _measure_set(name: str, embedded: Embedded, settings: SVMSettings, progress: Progress) -> SVMRow:
    features = np.asarray(embedded[0], dtype=np.float64)
    labels = np.asarray(embedded[1])
    contenders: dict[str, Callable[[], SVMResult]] = {
        "sklearn": lambda: search_with_sklearn((features, labels), settings, None),
        "sklearn jobs": lambda: search_with_sklearn((features, labels), settings, settings.jobs),
        "ours": lambda: cross_validated_svm(
            features,
            labels,
            folds=settings.folds,
            inner_folds=settings.inner_folds,
            seed=settings.seed,
            scale=settings.scale,
            jobs=settings.jobs,
        ),
    }
    seconds: dict[str, list[float]] = {contender: [] for contender in contenders}
    results: dict[str, SVMResult] = {}
    for turn in range(settings.rounds):
        for contender, evaluate in contenders.items():
            progress(
                f"{name}{', scaled' if settings.scale else ''}: {contender}, round {turn + 1} of {settings.rounds}"
            )
            start = time.perf_counter()
            results[contender] = evaluate()
            seconds[contender].append(time.perf_counter() - start)
    ours = results["ours"]
    return SVMRow(
        name=name,
        graphs=len(features),
        dim=features.shape[1],
        classes=len(np.unique(labels)),
        scaled=settings.scale,
        seconds=seconds,
        ratios={
            contender: statistics.median(
                theirs / mine for theirs, mine in zip(seconds[contender], seconds["ours"], strict=True)
            )
            for contender in ("sklearn", "sklearn jobs")
        },
        accuracies=ours.accuracies,
        equal=all((result.accuracies, result.costs) == (ours.accuracies, ours.costs) for result in results.values()),
    )


def _warm_up(settings: SVMSettings) -> None:
    """Import scikit-learn and start its processes, which would otherwise be timed."""
    few = pooled_features(8, 2, 3)
    search_with_sklearn(few, replace(settings, folds=2, inner_folds=2), None)
    cross_validated_svm(*few, folds=2, inner_folds=2)
    if settings.jobs > 1:
        from joblib import Parallel, delayed  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

        Parallel(n_jobs=settings.jobs)(delayed(time.sleep)(0.1) for _ in range(settings.jobs))
