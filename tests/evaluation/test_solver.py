"""Support vector machines: every weight is libsvm's, to the last bit."""

import importlib.util
import platform

import numpy as np
import pytest
from numpy.typing import NDArray

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None or importlib.util.find_spec("numba") is None,
    reason="scikit-learn or numba is not installed",
)

Matrix = NDArray[np.float64]

COSTS = (1e-3, 0.1, 1.0, 30.0, 1e3)


def kernels_of(x: Matrix, width: float) -> Matrix:
    kernels: Matrix = np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=2) / width)
    return kernels


def overlapping(sizes: tuple[int, int], *, seed: int, width: float = 4.0, shift: float = 0.5) -> tuple[Matrix, Matrix]:
    """Kernels of two classes that no machine tells apart, and their signs."""
    rng = np.random.default_rng(seed)
    signs = np.repeat([1.0, -1.0], sizes)
    return kernels_of(rng.standard_normal((len(signs), 3)) + shift * signs[:, None], width), signs


def summed(count: int, *, seed: int) -> tuple[Matrix, Matrix]:
    """Each sample has a size of its own, as sums over the nodes of graphs have: the way to the end is long."""
    rng = np.random.default_rng(seed)
    signs = np.repeat([1.0, -1.0], count)
    x = np.maximum(rng.standard_normal((2 * count, 4)) + 0.2 * signs[:, None], 0) * rng.lognormal(1, 1, (2 * count, 1))
    return kernels_of(x, 4 * float(x.var())), signs


def assert_equal(ours: Matrix | float, theirs: Matrix | float) -> None:
    """To the last bit where libsvm was compiled without fused multiplications, as it is for x86-64."""
    exact = platform.machine() in ("x86_64", "AMD64")
    np.testing.assert_allclose(ours, theirs, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-6)


CASES = {
    "overlapping": overlapping((60, 60), seed=0),
    "wide kernels": overlapping((80, 70), seed=1, width=60.0),
    "narrow kernels": overlapping((50, 40), seed=2, width=0.05),
    "far apart": overlapping((30, 30), seed=3, shift=4.0),
    "a few of one class": overlapping((70, 5), seed=4),
    "one of each": overlapping((1, 1), seed=5),
    "no classes at all": overlapping((90, 90), seed=6, width=20.0, shift=0.0),
    "sums": summed(40, seed=0),
    "more sums": summed(90, seed=1),
    "all the same": (np.ones((12, 12)), np.repeat([1.0, -1.0], 6)),
    "twins": tuple(part.repeat(2, axis=0) for part in overlapping((20, 20), seed=7)),
}
CASES["twins"] = (CASES["twins"][0].repeat(2, axis=1), CASES["twins"][1])


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_libsvm(name: str, cost: float) -> None:
    from sklearn.svm import SVC  # type: ignore[import-untyped]  # noqa: PLC0415

    from pucl.evaluation import solver  # noqa: PLC0415

    kernels, signs = CASES[name]
    weights, rho = solver.solve(kernels.astype(np.float32), kernels.diagonal().copy(), signs.copy(), cost)
    machine = SVC(C=cost, kernel="precomputed").fit(kernels, -signs)  # Of two classes scikit-learn turns the signs.
    theirs = np.zeros(len(signs))
    theirs[machine.support_] = -machine.dual_coef_[0]
    assert_equal(weights, theirs)
    assert_equal(rho, machine.intercept_[0])


@pytest.mark.parametrize("cost", [30.0, 100.0])
def test_shrinking_among_many_samples(cost: float) -> None:
    """From a thousand on, samples are set aside more often than once in so many steps as there are."""
    from sklearn.svm import SVC  # noqa: PLC0415

    from pucl.evaluation import solver  # noqa: PLC0415

    kernels, signs = overlapping((700, 600), seed=9)
    assert len(signs) > solver.SHRINK_EVERY
    weights, rho = solver.solve(kernels.astype(np.float32), kernels.diagonal().copy(), signs.copy(), cost)
    machine = SVC(C=cost, kernel="precomputed").fit(kernels, -signs)
    assert machine.n_iter_.sum() > solver.SHRINK_EVERY
    theirs = np.zeros(len(signs))
    theirs[machine.support_] = -machine.dual_coef_[0]
    assert_equal(weights, theirs)
    assert_equal(rho, machine.intercept_[0])


def test_cases_go_through_all_of_the_solver() -> None:
    """The comparison above is worth something: ways are long, samples set aside, and weights both free and at C."""
    from sklearn.svm import SVC  # noqa: PLC0415

    steps, free, bound = {}, {}, {}
    for name, (kernels, signs) in CASES.items():
        machine = SVC(C=COSTS[-1], kernel="precomputed").fit(kernels, signs)
        steps[name] = int(machine.n_iter_.sum()) / len(signs)
        at_bound = abs(machine.dual_coef_[0]) >= COSTS[-1]
        free[name], bound[name] = int((~at_bound).sum()), int(at_bound.sum())
    assert max(steps.values()) > 20  # Samples are set aside once in as many steps as there are samples.
    assert sum(length > 2 for length in steps.values()) >= 4
    assert max(free.values()) > 40
    assert max(bound.values()) > 40


def test_the_class_with_most_votes_is_chosen_and_of_equals_the_first() -> None:
    from sklearn.svm import SVC  # noqa: PLC0415

    from pucl.evaluation import solver  # noqa: PLC0415

    rng = np.random.default_rng(8)
    labels = np.repeat(np.arange(5), [20, 12, 25, 3, 16])
    x = rng.standard_normal((len(labels) + 60, 2)) + 0.7 * np.append(labels, rng.integers(5, size=60))[:, None]
    kernels = kernels_of(x, 3.0)
    within, across = kernels[: len(labels), : len(labels)], kernels[len(labels) :, : len(labels)]
    starts = np.append(0, np.bincount(labels).cumsum())
    for cost in COSTS:
        theirs = SVC(C=cost, kernel="precomputed").fit(within, labels).predict(across)
        arrays = within.astype(np.float32), within.diagonal().copy(), np.ascontiguousarray(across)
        ours = solver.classify(*arrays, starts, cost)
        assert ours.tolist() == theirs.tolist()
