"""The evaluation of the graph references: a support vector machine on ten folds, with C chosen by inner folds."""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.evaluation.classifier import over_splits
from pucl.evaluation.folds import split_in_folds
from pucl.evaluation.probe import LEADING, Labelled, Measured, Number, Probe, ProbedSamples, Split, need_sklearn

COSTS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
"""The C among which the references choose."""

INNER_FOLDS = 5
LARGEST = 1e150  # Squares of larger features overflow.

_need_svm = partial(need_sklearn, "svm", "the support vector machine")


@dataclass(frozen=True, kw_only=True)
class SVMResult:
    """The results on each outer fold.

    Args:
        accuracies: The accuracy on each fold, 0 to 1.
        costs: The C that was chosen for each fold, without using it.
        validation: For each fold, the mean accuracy of every C over the inner folds; empty if there was one C only.
    """

    accuracies: tuple[float, ...]
    costs: tuple[float, ...]
    validation: tuple[tuple[float, ...], ...]


def svm_on_splits(
    splits: Iterable[Split],
    *,
    costs: Sequence[float] = COSTS,
    inner_folds: int = INNER_FOLDS,
    scale: bool = False,
    jobs: int | None = None,
) -> SVMResult:
    r"""The accuracy of a support vector machine on the test samples of each split.

    Its kernel, for training features X of dimension d, is

    .. math:: k(a, b) = e^{-\gamma \lVert a - b \rVert^2}, \qquad \gamma = 1 / (d \operatorname{var} X).

    Each training set is divided into inner folds. The C with the highest accuracy on the inner folds is chosen (the
    first of equal ones), and the machine is fitted to the whole training set with it. Test samples influence neither C,
    nor :math:`\gamma`, nor the scale of the features.

    The choices and the accuracies are those of scikit-learn's ::

        GridSearchCV(SVC(), {"C": costs}, cv=inner_folds)                                          # scale=False
        GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": costs}, cv=inner_folds)    # scale=True

    on features in double precision. The machine is scikit-learn's ``SVC`` as well. This function is faster because it
    computes the kernel of a training set once for all C, as a matrix product, and fits several training sets at the
    same time, in threads.

    The kernels differ from libsvm's own in the last bits of a double. In principle a prediction or a choice of C at an
    exact tie could differ; tests and benchmarks have not found one.

    Args:
        splits: Training and test samples, such as those of `folded`.
        costs: The C > 0 to choose from. With a single one there are no inner folds.
        inner_folds: Number of inner folds, in the order of the samples.
        scale: False is the references' protocol. True standardises features by mean and deviation of each training
            set. That is fairer: otherwise features that sum over the nodes of large graphs dominate the kernel.
        jobs: Number of threads; default: as many as torch uses. It has no influence on the result.

    Note:
        Memory for each thread: about two matrices of all pairs of samples in double precision, and libsvm's cache of
        200 MB.
    """
    costs = tuple(float(cost) for cost in costs)
    if not costs or not all(0 < cost < float("inf") for cost in costs):
        raise ValueError(f"costs are the C to choose from: expected one or more, 0 < C < inf, got {costs}")
    jobs = torch.get_num_threads() if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs is the number of threads: expected at least 1, got {jobs}")
    outer = [Split(_in_double(split.train), _in_double(split.test)) for split in splits]
    inner = [split for each in outer for split in split_in_folds(each.train, inner_folds, None)] if costs[1:] else []
    accuracies_on = partial(_accuracies, scale=scale)
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 (scikit-learn has it)

    # One thread of BLAS for each of ours: its idle threads wait in a busy loop and would take the cores from libsvm.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(jobs, thread_name_prefix="pucl-svm") as threads:
        validation: tuple[tuple[float, ...], ...] = ()
        chosen = (costs[0],) * len(outer)
        if inner:
            scores = list(threads.map(lambda split: accuracies_on(split, costs), inner))
            # Costs before folds in memory: the mean is then summed in scikit-learn's order, and equals stay equals.
            by_cost = np.ascontiguousarray(np.reshape(scores, (len(outer), inner_folds, len(costs))).swapaxes(1, 2))
            means = by_cost.mean(axis=2)
            validation = tuple(map(tuple, means.tolist()))
            chosen = tuple(costs[index] for index in means.argmax(axis=1))
        results = threads.map(lambda split, cost: accuracies_on(split, (cost,)), outer, chosen)
        accuracies = tuple(accuracy for (accuracy,) in results)
    return SVMResult(accuracies=accuracies, costs=chosen, validation=validation)


def _in_double(samples: Labelled) -> Labelled:
    """Features in double precision, as libsvm takes them."""
    largest = float(np.abs(samples.features).max())
    if largest > LARGEST:
        raise ValueError(f"features are squared and added up: expected none beyond {LARGEST:g}, got {largest:g}")
    return Labelled(np.ascontiguousarray(samples.features, dtype=np.float64), samples.labels)


def _accuracies(split: Split, costs: tuple[float, ...], *, scale: bool) -> list[float]:
    """For each C, the accuracy on the test samples after training on the others."""
    make = _need_svm().SVC
    from sklearn import config_context  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from sklearn.metrics.pairwise import rbf_kernel  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]  # noqa: PLC0415

    (train, learned), (test, truth) = split
    if scale:
        scaler = StandardScaler().fit(train)
        train, test = scaler.transform(train), scaler.transform(test)
    gamma = _gamma(train)
    within, across = rbf_kernel(train, gamma=gamma), rbf_kernel(test, train, gamma=gamma)
    # scikit-learn's checks of each input would take a fifth of the time. The setting is one of this thread alone.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        machines = (make(C=cost, kernel="precomputed").fit(within, learned) for cost in costs)
        return [float(np.mean(machine.predict(across) == truth)) for machine in machines]


def _gamma(x: NDArray[np.floating]) -> float:
    """scikit-learn's ``gamma="scale"``, with an error if it is infinite."""
    variance = float(x.var())
    gamma = 1 / (x.shape[1] * variance) if variance else 1.0
    if gamma == math.inf:
        raise ValueError(
            f"the kernel divides by the variance of the features: expected one with a finite inverse, got {variance}"
        )
    return gamma


def _measure(samples: ProbedSamples, *, scale: bool = False) -> Measured:
    found = svm_on_splits(samples.splits, scale=scale)
    accuracy = over_splits(list(found.accuracies))
    # The mean accuracy of the chosen C on inner folds: no test fold takes part in it.
    validation = float(np.mean([max(costs) for costs in found.validation]))
    details = {**accuracy.details, "costs": list(found.costs), "validation": validation}
    return Measured(numbers=accuracy.numbers, details=details)


SVM = Probe(
    about="accuracy of a support vector machine, with C chosen by inner folds: the protocol of the graph references",
    numbers={LEADING: Number(name="SVM", short="SVM")},
    measure=_measure,
    need_packages=_need_svm,
)

SVM_SCALED = Probe(
    about="the same on features that are standardised by each training set",
    numbers={LEADING: Number(name="SVM on scaled features", short="SVM scaled")},
    measure=_measure,
    settings={"scale": True},
    need_packages=_need_svm,
)
