"""What the SVM evaluation of graphs costs: ours, and scikit-learn's grid search inside its folds.

Both get the same embeddings in turn, in one run, and must give the same accuracy on every fold.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pucl.benchmarks.measure import machine_facts
from pucl.contrast.correction import check_range
from pucl.devices import usable_cores
from pucl.evaluation import SVMResult, cross_validated_svm
from pucl.evaluation.svm import COSTS

Embedded = tuple[NDArray[np.floating], NDArray[np.integer]]
"""Features [graph, dim] and the class of each graph."""

SHAPES = {"PTC_MR": (344, 2, 14), "ENZYMES": (600, 6, 33), "DD": (1178, 2, 284)}
"""Graphs, classes, and nodes of a graph on average, of the data sets whose embeddings `pooled_features` imitates."""

WIDTH, LAYERS = 32, 3
NODE_FEATURES = 8


@dataclass(frozen=True, kw_only=True)
class SVMSettings:
    """What is measured, and how often.

    Args:
        shapes: Names out of `SHAPES`: embeddings of that size are made up. Not used where embeddings are given.
        folds: Outer folds.
        inner_folds: Inner folds, in which C is chosen out of `COSTS`.
        scale: Whether features are standardised by each training set.
        jobs: Threads of ours, and processes of the second of scikit-learn's turns.
        rounds: How often each contender has its turn.
        seed: Of embeddings and folds.
    """

    shapes: tuple[str, ...] = tuple(SHAPES)
    folds: int = 10
    inner_folds: int = 5
    scale: bool = False
    jobs: int = field(default_factory=usable_cores)
    rounds: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.shapes if name not in SHAPES]
        if not self.shapes or unknown:
            raise ValueError(
                f"shapes are the sets whose size is imitated: expected some of {', '.join(SHAPES)}, "
                f"got {', '.join(self.shapes) or 'none'}"
            )
        check_range("jobs", "how many cores are used", self.jobs, "at least 1", self.jobs >= 1)
        check_range("rounds", "how often everyone has a turn", self.rounds, "at least 1", self.rounds >= 1)


@dataclass(frozen=True, kw_only=True)
class SVMRow:
    """One set of embeddings.

    Args:
        name: Of the set.
        graphs, dim, classes: Its size.
        scaled: Whether features were standardised.
        seconds: By contender, in each round: ``"sklearn"`` as it comes, ``"sklearn jobs"`` on all cores, ``"ours"``.
        ratios: scikit-learn's time over ours in the same round, the median; as it comes, and on all cores.
        accuracies: On each outer fold, ours.
        equal: Whether scikit-learn's are the same numbers, and the chosen C too.
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


@dataclass(frozen=True, kw_only=True)
class SVMRecord:
    """All sets, and the machine on which they were measured."""

    settings: SVMSettings
    rows: tuple[SVMRow, ...]
    machine: dict[str, object]


def _silence(_words: str) -> None:
    """Report nothing."""


def measure_svm(
    settings: SVMSettings,
    embeddings: Mapping[str, Embedded] | None = None,
    progress: Callable[[str], object] = _silence,
) -> SVMRecord:
    """Time the evaluation of each set of embeddings, by scikit-learn and by us in turn.

    Args:
        settings: What, and how often.
        embeddings: By name; None makes up those that the settings ask for.
        progress: Told in words what is done next.
    """
    facts = machine_facts()
    if embeddings is None:
        embeddings = {name: pooled_features(*SHAPES[name], seed=settings.seed) for name in settings.shapes}
    _warm_up(settings)
    rows = tuple(_measure_set(name, embedded, settings, progress) for name, embedded in embeddings.items())
    return SVMRecord(settings=settings, rows=rows, machine=facts)


def search_with_sklearn(embedded: Embedded, settings: SVMSettings, jobs: int | None) -> SVMResult:
    """The same protocol as a user of scikit-learn writes it."""
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
    """Embeddings as an untrained encoder gives them: sums over the nodes of rings of random length, of three layers.

    Classes differ a little in the features of their nodes. Sums make large graphs long vectors, as sum pooling does,
    and values differ widely in size.
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


def _measure_set(name: str, embedded: Embedded, settings: SVMSettings, progress: Callable[[str], object]) -> SVMRow:
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
    """What comes once is not counted: scikit-learn is imported and its processes are there, and ours is compiled."""
    few = pooled_features(8, 2, 3)
    search_with_sklearn(few, replace(settings, folds=2, inner_folds=2), None)
    cross_validated_svm(*few, folds=2, inner_folds=2)
    if settings.jobs > 1:
        from joblib import Parallel, delayed  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

        Parallel(n_jobs=settings.jobs)(delayed(time.sleep)(0.1) for _ in range(settings.jobs))
