"""The graph references' evaluation: a support vector machine on ten folds, its C chosen inside each of them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

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

Matrix = NDArray[np.float64]
Classes = NDArray[np.int64]

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
    r"""The accuracy of a support vector machine on each fold, trained on all others.

    Its kernel, for training features X of dimension d, is

    .. math:: k(a, b) = e^{-\gamma \lVert a - b \rVert^2}, \qquad \gamma = 1 / (d \operatorname{var} X).

    For each outer fold, C is the one that is right most often on the inner
    folds of the rest (of equals the first), and the machine is then fitted on all of the rest. What is held back
    decides nothing: neither C, nor :math:`\gamma`, nor the scale of features.

    The folds, the choices and the accuracies are those of scikit-learn's ::

        GridSearchCV(SVC(), {"C": costs}, cv=inner_folds)                                          # scale=False
        GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": costs}, cv=inner_folds)    # scale=True

    inside ``StratifiedKFold(folds, shuffle=True, random_state=seed)``, on features in double precision. The machine is
    scikit-learn's ``SVC`` as well. Time is saved because each training set has its kernel computed once for all C, by
    a product of matrices, and because training sets are spread over threads (libsvm releases Python's lock).

    Kernels differ from libsvm's own in the last bits of a double, of which libsvm's solver keeps a float. In
    principle a C or a prediction at an exact tie could differ; tests and benchmarks have not found one.

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
        progress: Called with the number of finished training sets, always from the calling thread.

    Note:
        A class that is too small to be in every fold is treated as scikit-learn does, with a warning.

        Memory: about two matrices of all pairs of samples as doubles for each thread, and libsvm's cache of 200 MB.

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
    accuracies_on = partial(_accuracies, x, y, scale=scale)
    with ThreadPoolExecutor(jobs, thread_name_prefix="pucl-svm") as threads:
        validation: tuple[tuple[float, ...], ...] = ()
        chosen = (costs[0],) * folds
        if inner:
            results = threads.map(lambda split: accuracies_on(split, costs), inner)
            scores = list(_reported(results, progress, 0, total))
            # Costs before folds in memory: the mean is then summed in scikit-learn's order, and equals stay equals.
            by_cost = np.ascontiguousarray(np.reshape(scores, (folds, inner_folds, len(costs))).swapaxes(1, 2))
            means = by_cost.mean(axis=2)
            validation = tuple(map(tuple, means.tolist()))
            chosen = tuple(costs[place] for place in means.argmax(axis=1))
        results = threads.map(lambda split, cost: accuracies_on(split, (cost,)), outer, chosen)
        accuracies = tuple(accuracy for (accuracy,) in _reported(results, progress, len(inner), total))
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


def _accuracies(x: Matrix, y: Classes, split: Split, costs: tuple[float, ...], *, scale: bool) -> list[float]:
    """For each C, the accuracy on the held-out samples after training on the others."""
    from sklearn.metrics.pairwise import rbf_kernel  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]  # noqa: PLC0415

    make = need_machine()
    train, held = x[split.train], x[split.held]
    learned, truth = y[split.train], y[split.held]
    if scale:
        scaler = StandardScaler().fit(train)
        train, held = scaler.transform(train), scaler.transform(held)
    gamma = _gamma(train)
    within, across = rbf_kernel(train, gamma=gamma), rbf_kernel(held, train, gamma=gamma)
    machines = (make(C=cost, kernel="precomputed").fit(within, learned) for cost in costs)
    return [float(np.mean(machine.predict(across) == truth)) for machine in machines]


def need_machine() -> Any:
    """scikit-learn's ``SVC``, imported on first use, since it is an extra."""
    try:
        from sklearn.svm import SVC  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("the support vector machine", "scikit-learn") from error
    return SVC


def _gamma(x: Matrix) -> float:
    """scikit-learn's ``gamma="scale"``, with an error where it would be infinite."""
    variance = float(x.var())
    gamma = 1 / (x.shape[1] * variance) if variance else 1.0
    if gamma == math.inf:
        raise ValueError(
            f"features are what samples differ in: expected a variance that has an inverse, got {variance}"
        )
    return gamma


def _reported(results: Iterable[Result], progress: Progress | None, before: int, total: int) -> Iterator[Result]:
    """Yield results and report progress."""
    for done, result in enumerate(results, before + 1):
        if progress is not None:
            progress(done, total)
        yield result
