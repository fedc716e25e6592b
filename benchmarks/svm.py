"""Time of the SVM evaluation of graphs: ours, and scikit-learn's grid search inside its folds.

Both get the same embeddings in turn, in one process, and must reach the same accuracy on every fold.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation import SVMResult, folded, svm_on_splits
from pucl.evaluation.folds import FOLDS
from pucl.evaluation.svm import COSTS, INNER_FOLDS

Embedded = tuple[NDArray[np.floating], NDArray[np.integer]]
"""Features [graph, dim] and the class of each graph."""

SEED = 0


@dataclass(frozen=True, kw_only=True)
class SVMProtocol:
    """How the evaluation is run.

    Args:
        folds: Outer folds.
        inner_folds: Inner folds, in which C is chosen out of `COSTS`.
        scale: Standardise features by each training set.
        jobs: Threads of ours, and processes of scikit-learn where it runs in parallel.
    """

    folds: int = FOLDS
    inner_folds: int = INNER_FOLDS
    scale: bool = False
    jobs: int = 1


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

    @property
    def case(self) -> str:
        """Name of the row in tables and sentences."""
        return f"{self.name}, scaled" if self.scaled else self.name


def measure_svm(
    embeddings: Mapping[str, Embedded], protocol: SVMProtocol, rounds: int, progress: Callable[[str], object]
) -> list[SVMRow]:
    """Time the evaluation of each set of embeddings, by scikit-learn and by us in turn."""
    _warm_up(protocol.jobs)
    return [_measure_set(name, embedded, protocol, rounds, progress) for name, embedded in embeddings.items()]


def search_with_sklearn(embedded: Embedded, protocol: SVMProtocol, jobs: int | None) -> SVMResult:
    """The same protocol as a user of scikit-learn would write it."""
    from sklearn.model_selection import (  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
        GridSearchCV,
        StratifiedKFold,
    )
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.svm import SVC  # type: ignore[import-untyped]  # noqa: PLC0415

    features, labels = embedded
    machine, name = (make_pipeline(StandardScaler(), SVC()), "svc__C") if protocol.scale else (SVC(), "C")
    accuracies, costs, validation = [], [], []
    outer = StratifiedKFold(protocol.folds, shuffle=True, random_state=SEED)
    for train, held in outer.split(features, labels):
        search = GridSearchCV(machine, {name: list(COSTS)}, cv=protocol.inner_folds, n_jobs=jobs)
        search.fit(features[train], labels[train])
        accuracies.append(float(search.score(features[held], labels[held])))
        costs.append(float(search.best_params_[name]))
        validation.append(tuple(search.cv_results_["mean_test_score"].tolist()))
    return SVMResult(accuracies=tuple(accuracies), costs=tuple(costs), validation=tuple(validation))


def _search_with_ours(embedded: Embedded, protocol: SVMProtocol) -> SVMResult:
    splits = folded(*embedded, folds=protocol.folds, seed=SEED).splits
    return svm_on_splits(splits, inner_folds=protocol.inner_folds, scale=protocol.scale, jobs=protocol.jobs)


def _measure_set(
    name: str, embedded: Embedded, protocol: SVMProtocol, rounds: int, progress: Callable[[str], object]
) -> SVMRow:
    embedded = np.asarray(embedded[0], dtype=np.float64), embedded[1]
    contenders: dict[str, Callable[[], SVMResult]] = {
        "sklearn": lambda: search_with_sklearn(embedded, protocol, None),
        "sklearn jobs": lambda: search_with_sklearn(embedded, protocol, protocol.jobs),
        "ours": lambda: _search_with_ours(embedded, protocol),
    }
    seconds: dict[str, list[float]] = {contender: [] for contender in contenders}
    results: dict[str, SVMResult] = {}
    for number in range(1, rounds + 1):
        for contender, evaluate in contenders.items():
            scaled = ", scaled" if protocol.scale else ""
            progress(f"evaluation of {name}{scaled}: {contender}, round {number} of {rounds}")
            start = time.perf_counter()
            results[contender] = evaluate()
            seconds[contender].append(time.perf_counter() - start)
    ours = results["ours"]
    return SVMRow(
        name=name,
        graphs=len(embedded[0]),
        dim=embedded[0].shape[1],
        classes=len(np.unique(embedded[1])),
        scaled=protocol.scale,
        seconds=seconds,
        ratios={
            contender: statistics.median(np.divide(seconds[contender], seconds["ours"]).tolist())
            for contender in ("sklearn", "sklearn jobs")
        },
        accuracies=ours.accuracies,
        equal=all((result.accuracies, result.costs) == (ours.accuracies, ours.costs) for result in results.values()),
    )


def _warm_up(jobs: int) -> None:
    """Import scikit-learn and start its processes, which would otherwise be timed."""
    few = np.random.default_rng(SEED).standard_normal((8, 2)), np.arange(8) % 2
    quick = SVMProtocol(folds=2, inner_folds=2)
    search_with_sklearn(few, quick, None)
    _search_with_ours(few, quick)
    if jobs > 1:
        from joblib import Parallel, delayed  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

        Parallel(n_jobs=jobs)(delayed(time.sleep)(0.1) for _ in range(jobs))
