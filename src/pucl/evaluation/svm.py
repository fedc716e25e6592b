"""The graph references' evaluation: a support vector machine on ten folds, its C chosen inside each of them."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.errors import ExtraMissingError
from pucl.evaluation.folds import FOLDS, Progress, Split, stratified_splits, warn_of_small_classes
from pucl.evaluation.probes import Features, Labels, _training_set

COSTS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
"""The C among which the references choose."""

INNER_FOLDS = 5
LARGEST = 1e150  # Of a feature: beyond it squares overflow.
BLOCK = 32  # Samples whose distances to all others are computed at a time.

Matrix = NDArray[np.float64]
Classes = NDArray[np.int64]
Distances = Callable[[Split], tuple[float, Matrix, Matrix]]
"""gamma of a training set, its squared distances, [train, train], and those from what is held back, [held, train]."""

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class SVMResult:
    """What came of each outer fold.

    Args:
        accuracies: On each fold, learned from all others; 0 to 1.
        costs: The C that was chosen for each fold, without it.
        validation: For each fold, the mean accuracy of every C over the inner folds; empty where there was nothing
            to choose.
    """

    accuracies: tuple[float, ...]
    costs: tuple[float, ...]
    validation: tuple[tuple[float, ...], ...]

    @property
    def mean(self) -> float:
        """The mean over the folds: what the references report for one seed."""
        return float(np.mean(self.accuracies))


def cross_validated_svm(
    features: Features,
    labels: Labels,
    *,
    folds: int = FOLDS,
    costs: Sequence[float] = COSTS,
    inner_folds: int = INNER_FOLDS,
    seed: int = 0,
    scale: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> SVMResult:
    r"""The accuracy of a support vector machine on each fold, learned from all others.

    Its kernel, for training features X of dimension d, is

    .. math:: k(a, b) = e^{-\gamma \lVert a - b \rVert^2}, \qquad \gamma = 1 / (d \operatorname{var} X).

    For each outer fold, C is the one that is right most often on the inner
    folds of the rest (of equals the first), and the machine is then fitted on all of the rest. What is held back
    decides nothing: neither C, nor :math:`\gamma`, nor the scale of features.

    The folds, the choices and the accuracies are those of scikit-learn's ::

        GridSearchCV(SVC(), {"C": costs}, cv=inner_folds)                                          # scale=False
        GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": costs}, cv=inner_folds)    # scale=True

    inside ``StratifiedKFold(folds, shuffle=True, random_state=seed)``, on features in double precision. They come
    sooner, since squared distances are computed once, kernels once for all C, training sets are spread over threads,
    and libsvm's steps are taken by vector instructions (`pucl.evaluation.solver`). Distances are summed up as libsvm
    does, to the last bit; ``exp`` may differ in the last bit of a double, of which libsvm's solver keeps a float.

    Args:
        features: Embeddings, [sample, dim].
        labels: The class of each, [sample].
        folds: Outer folds, each with about the same share of each class.
        costs: The C > 0 to choose from. A single one is taken without inner folds.
        inner_folds: Parts of what is left for each outer fold; in the order in which the samples come.
        seed: Of the outer folds. The same seed gives the same folds to every classifier and every set of features.
        scale: False is the references' protocol. True standardises features by mean and deviation of each training
            set, which is fairer: pooled sums of large graphs drown all else, and the kernel with them.
        jobs: Threads; by default as many as torch has. Changes nothing but the time.
        progress: Told how many training sets are done, always from the thread that calls this.

    Note:
        A class that is too small to be in every fold is treated as scikit-learn does, with a warning.

        Memory: two matrices of all pairs of samples as doubles, and about three more for each thread.

    Example:
        >>> features = torch.eye(2).repeat(20, 1) + torch.linspace(0, 0.1, 40)[:, None]
        >>> result = cross_validated_svm(features, torch.tensor([0, 1]).repeat(20), folds=4)
        >>> result.mean, result.costs
        (1.0, (0.001, 0.001, 0.001, 0.001))
    """
    x, y = _as_arrays(features, labels)
    costs = tuple(float(cost) for cost in costs)
    if not costs or not all(0 < cost < float("inf") for cost in costs):
        raise ValueError(f"costs are the C to choose from: expected one or more, 0 < C < inf, got {costs}")
    jobs = torch.get_num_threads() if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs is how many threads share the work: expected at least 1, got {jobs}")
    outer = stratified_splits(y, folds, seed)
    inner = [split for rest, _ in outer for split in _splits_within(rest, y, inner_folds)] if len(costs) > 1 else []
    warn_of_small_classes(y, folds, inner_folds if inner else 0)
    total = len(inner) + len(outer)
    with ThreadPoolExecutor(jobs, thread_name_prefix="pucl-svm") as threads:
        distances = _scaled_distances(x) if scale else _shared_distances(x, threads)
        validation: tuple[tuple[float, ...], ...] = ()
        chosen = (costs[0],) * folds
        if inner:
            results = threads.map(lambda split: _accuracies(distances, y, split, costs), inner)
            scores = list(_told(results, progress, 0, total))
            # Costs before folds in memory: the mean is then summed in scikit-learn's order, and equals stay equals.
            by_cost = np.ascontiguousarray(np.reshape(scores, (folds, inner_folds, len(costs))).swapaxes(1, 2))
            means = by_cost.mean(axis=2)
            validation = tuple(map(tuple, means.tolist()))
            chosen = tuple(costs[place] for place in means.argmax(axis=1))
        results = threads.map(lambda split, cost: _accuracies(distances, y, split, (cost,)), outer, chosen)
        accuracies = tuple(accuracy for (accuracy,) in _told(results, progress, len(inner), total))
    return SVMResult(accuracies=accuracies, costs=chosen, validation=validation)


def _as_arrays(features: Features, labels: Labels) -> tuple[Matrix, Classes]:
    """Features in double precision, as libsvm takes them, and the place of each label among the classes."""
    x, y, _ = _training_set(features, labels)
    if float(x.abs().max()) > LARGEST:
        raise ValueError(
            f"features are squared and added up: expected none beyond {LARGEST:g}, got {float(x.abs().max()):g}"
        )
    return np.ascontiguousarray(x.double().cpu().numpy()), y.cpu().numpy()


def _splits_within(places: NDArray[np.intp], y: Classes, folds: int) -> list[Split]:
    """Splits of some of the samples; their places are those among all."""
    return [Split(places[train], places[held]) for train, held in stratified_splits(y[places], folds, None)]


def _accuracies(distances: Distances, y: Classes, split: Split, costs: tuple[float, ...]) -> list[float]:
    """For each C, the share of what is held back that is classified rightly after training on the rest."""
    solver = need_solver()
    gamma, within, across = distances(split)
    for squared in (within, across):
        np.exp(np.multiply(squared, -gamma, out=squared), out=squared)
    learned, truth = y[split.train], y[split.held]
    classes, sizes = np.unique(learned, return_counts=True)
    starts, order = np.append(0, sizes.cumsum()), learned.argsort(kind="stable")
    kernels, diagonal = within.astype(np.float32)[np.ix_(order, order)], within.diagonal()[order]
    across = across.take(order, axis=1)
    return [
        float(np.mean(classes[solver.classify(kernels, diagonal, across, starts, cost)] == truth)) for cost in costs
    ]


def need_solver() -> ModuleType:
    """Imported when it is needed: what compiles it is an extra, and takes a second."""
    try:
        from pucl.evaluation import solver  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ExtraMissingError("the support vector machine", "numba") from error
    return solver


def _shared_distances(x: Matrix, threads: ThreadPoolExecutor) -> Distances:
    """Squared distances of all pairs, once for every training set."""
    by_products = _solver_distances(x)
    by_differences = np.empty_like(by_products)

    def fill(start: int) -> None:
        block, rest = slice(start, start + BLOCK), slice(start, None)
        by_differences[block, rest] = _decision_distances(x[block], x[rest])
        by_differences[rest, block] = by_differences[block, rest].T

    list(threads.map(fill, range(0, len(x), BLOCK)))

    def distances(split: Split) -> tuple[float, Matrix, Matrix]:
        train, held = split
        return _gamma(x[train]), by_products[np.ix_(train, train)], by_differences[np.ix_(held, train)]

    return distances


def _scaled_distances(x: Matrix) -> Distances:
    """Squared distances after features are standardised by the mean and deviation of each training set."""
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

    def distances(split: Split) -> tuple[float, Matrix, Matrix]:
        scaler = StandardScaler().fit(x[split.train])
        train, held = scaler.transform(x[split.train]), scaler.transform(x[split.held])
        return _gamma(train), _solver_distances(train), _decision_distances(held, train)

    return distances


def _gamma(x: Matrix) -> float:
    """scikit-learn's ``gamma="scale"``."""
    variance = float(x.var())
    gamma = 1 / (x.shape[1] * variance) if variance else 1.0
    if gamma == math.inf:
        raise ValueError(
            f"features are what samples differ in: expected a variance that has an inverse, got {variance}"
        )
    return gamma


def _solver_distances(x: Matrix) -> Matrix:
    """Between all samples as libsvm's solver has them, |a|^2 + |b|^2 - 2 ab."""
    distances = np.empty((len(x), len(x)))
    norms = _dots(x, x)
    for start in range(0, len(x), BLOCK):
        block, rest = slice(start, start + BLOCK), slice(start, None)
        distances[block, rest] = norms[block, None] + norms[rest] - 2 * _dots(x[block, None], x[rest])
        distances[rest, block] = distances[block, rest].T
    return distances


def _decision_distances(held: Matrix, train: Matrix) -> Matrix:
    """Between samples as libsvm's predictions have them, |a - b|^2."""
    distances = np.empty((len(held), len(train)))
    for place, sample in enumerate(held):
        differences = train - sample
        distances[place] = _dots(differences, differences)
    return distances


def _dots(a: Matrix, b: Matrix) -> Matrix:
    """The products of vectors along the last axis; axes before it are broadcast.

    Each is one call of the ``dot`` of BLAS, as in libsvm. A product of matrices is faster, but adds up in another
    order, and where C is large the solver's path depends on the last bits.
    """
    products: Matrix = np.matmul(a[..., None, :], b[..., :, None])[..., 0, 0]
    return products


def _told(results: Iterable[Result], progress: Progress | None, before: int, total: int) -> Iterator[Result]:
    """Results as they come, each of them told."""
    for done, result in enumerate(results, before + 1):
        if progress is not None:
            progress(done, total)
        yield result
