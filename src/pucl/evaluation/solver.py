r"""Support vector machines by libsvm's own steps, to the last bit, in less time.

Between two classes, y = +1 and -1, a machine with kernels k and weights b decides by the sign of

.. math:: \sum_i b_i k(x, x_i) - \rho, \qquad b = \arg\min\; \tfrac12 b^\top K b - y^\top b,
    \quad \sum_i b_i = 0, \quad 0 \le y_i b_i \le C.

So libsvm's alpha is y b, and of its gradients the slope here, (K b - y)_i, is y_i times the one. Steps are those of
sequential minimal optimisation (Fan, Chen and Lin, "Working Set Selection Using Second Order Information", JMLR 2005)
with libsvm's shrinking: one weight rises and one falls by as much, and samples at a bound that will stay there are set
aside for a while. libsvm's results depend on the path, as it stops at a tolerance: so each sum here has its order, and
of equals the last is taken, as there.

The time is saved by vector instructions: a pass over all samples has no branches, and the largest value of a pass is
found by itself and its place afterwards. Compiled by numba, once for an installation where there is room to keep it.

To the last bit is said of x86-64: for other processors, compilers may fuse libsvm's multiplications with its sums.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

TOLERANCE = 1e-3  # Of slopes: where scikit-learn has libsvm stop.
NEARLY_DONE = 10.0  # Times the tolerance: where samples that were set aside are looked at once more.
SHRINK_EVERY = 1000  # Steps, or as many as there are samples if those are fewer.
LEAST_BEND = 1e-12  # In place of a second derivative that is none.
HARMLESS = {"nnan", "nsz"}  # What a compiler may take for granted: that nothing is NaN, nor the sign of zero matters.

Vector = NDArray[np.float64]
Kernels = NDArray[np.float32]
Places = NDArray[np.int64]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Machine code that leaves Python's lock, and sums in the order that is written."""
    function = inspect.unwrap(function)  # What checks shapes in tests is nothing for a compiler.
    try:
        code: Callable[..., Any] = njit(nogil=True, fastmath=HARMLESS, cache=True)(function)
    except RuntimeError:  # There is no place to keep it in.
        code = njit(nogil=True, fastmath=HARMLESS)(function)
    return code


@compiled
def classify(kernels: Kernels, diagonal: Vector, across: Vector, starts: Places, cost: float) -> Places:
    """The class of each sample that is held back, by the votes of a machine for every two classes.

    Args:
        kernels: Of the training samples among themselves, [train, train], one class after the other.
        diagonal: Of each with itself, in double precision, as libsvm has it.
        across: Of what is held back with the training samples, [held, train].
        starts: Where each class starts among the training samples, and their number at the end.
        cost: C.
    """
    classes = len(starts) - 1
    votes = np.zeros((len(across), classes), dtype=np.int64)
    for first in range(classes):
        for second in range(first + 1, classes):
            ours = np.arange(starts[first], starts[first + 1])
            both = np.concatenate((ours, np.arange(starts[second], starts[second + 1])))
            signs = np.where(np.arange(len(both)) < len(ours), 1.0, -1.0)
            between = np.empty((len(both), len(both)), dtype=np.float32)
            for row in range(len(both)):
                for column in range(len(both)):
                    between[row, column] = kernels[both[row], both[column]]
            weights, rho = solve(between, diagonal[both], signs, cost)
            for row in range(len(across)):
                decision = 0.0
                for place in range(len(both)):
                    decision += weights[place] * across[row, both[place]]
                votes[row, first if decision - rho > 0 else second] += 1
    chosen = np.zeros(len(across), dtype=np.int64)
    for row in range(len(across)):
        chosen[row] = np.argmax(votes[row])
    return chosen


@compiled
def solve(kernels: Kernels, diagonal: Vector, signs: Vector, cost: float) -> tuple[Vector, float]:
    """The weight of each sample, and rho. The arrays are put into another order on the way.

    Args:
        kernels: Of all samples among themselves, as floats.
        diagonal: Of each with itself.
        signs: +1 or -1 for each.
        cost: C.
    """
    size = len(signs)
    weights, slopes, pinned = np.zeros(size), -signs, np.zeros(size)
    least, most = np.where(signs > 0, 0.0, -cost), np.where(signs > 0, cost, 0.0)
    # 0 where a weight can rise, or fall, and minus infinity where it cannot: added to a slope, it hides the sample.
    rise, fall = np.where(signs > 0, 0.0, -np.inf), np.where(signs > 0, -np.inf, 0.0)
    rising, falling, gains = rise - slopes, fall + slopes, np.empty(size)
    others = (diagonal, signs, weights, least, most, pinned)
    sample, active = np.arange(size), size
    patience, looked_again = min(size, SHRINK_EVERY) + 1, False
    while True:
        patience -= 1
        if patience == 0:
            patience = min(size, SHRINK_EVERY)
            up, down = _highest(rising, active), _highest(falling, active)
            if not looked_again and up + down <= NEARLY_DONE * TOLERANCE:
                looked_again = True
                _bring_back(kernels, signs, weights, cost, slopes, pinned, active)
                active = size
            active = _set_aside(kernels, sample, slopes, rise, fall, others, active, up, down)
            _move(kernels, 0, 0.0, 0, 0.0, slopes, rise, fall, rising, falling, active)
        i, j = _choose(kernels, diagonal, rising, falling, gains, active)
        if j < 0:
            _bring_back(kernels, signs, weights, cost, slopes, pinned, active)
            active = size
            _move(kernels, 0, 0.0, 0, 0.0, slopes, rise, fall, rising, falling, active)
            i, j = _choose(kernels, diagonal, rising, falling, gains, active)
            if j < 0:
                break
            patience = 1
        before_i, before_j = weights[i], weights[j]
        bend = diagonal[i] + diagonal[j] - 2.0 * kernels[i, j]
        step = (slopes[j] - slopes[i]) / (bend if bend > 0 else LEAST_BEND)
        total, limit = before_i + before_j, most[i] + least[j]
        weights[i] += step
        weights[j] -= step
        if total > limit or (total == limit and signs[i] < 0):  # Who rises comes to a bound first.
            if weights[i] > most[i]:
                weights[i], weights[j] = most[i], total - most[i]
        elif weights[j] < least[j]:
            weights[j], weights[i] = least[j], total - least[j]
        for k, before in ((i, before_i), (j, before_j)):
            rise[k] = 0.0 if weights[k] < most[k] else -np.inf
            fall[k] = 0.0 if weights[k] > least[k] else -np.inf
            if (abs(before) >= cost) != (abs(weights[k]) >= cost):
                change = -before if abs(before) >= cost else weights[k]
                for other in range(size):
                    pinned[other] += change * kernels[k, other]
        change_i, change_j = weights[i] - before_i, weights[j] - before_j
        _move(kernels, i, change_i, j, change_j, slopes, rise, fall, rising, falling, active)
    ordered = np.empty(size)
    for k in range(size):
        ordered[sample[k]] = weights[k]
    return ordered, _offset(slopes, rise, fall)


@compiled
def _choose(
    kernels: Kernels, diagonal: Vector, rising: Vector, falling: Vector, gains: Vector, active: int
) -> tuple[int, int]:
    """Whose weight rises, the steepest, and whose falls, for which the objective gains most; -1 where none is left."""
    up = _highest(rising, active)
    if not up + _highest(falling, active) >= TOLERANCE:
        return -1, -1
    i = _last(rising, up, active)
    _gain(kernels, i, diagonal, up, falling, gains, active)
    gain = _highest(gains, active)
    return i, _last(gains, gain, active) if gain >= 0 else -1


@compiled
def _gain(kernels: Kernels, i: int, diagonal: Vector, up: float, falling: Vector, gains: Vector, active: int) -> None:
    """What the objective gains by a step of i and each other, twice over; -1 for those that cannot fall."""
    own = diagonal[i]
    for k in range(active):
        gap = up + falling[k]
        bend = own + diagonal[k] - 2.0 * kernels[i, k]
        gains[k] = gap * gap / (bend if bend > 0 else LEAST_BEND) if gap > 0 else -1.0


@compiled
def _highest(values: Vector, active: int) -> float:
    """The largest, by four at a time: a single one would wait for itself at every sample."""
    a = b = c = d = -np.inf
    for k in range(0, active - 3, 4):
        a, b, c, d = max(a, values[k]), max(b, values[k + 1]), max(c, values[k + 2]), max(d, values[k + 3])
    for k in range(active - active % 4, active):
        a = max(a, values[k])
    return max(a, b, c, d)


@compiled
def _last(values: Vector, value: float, active: int) -> int:
    """Where this value stands; of several places the last."""
    k = active - 1
    while values[k] != value:
        k -= 1
    return k


@compiled
def _move(
    kernels: Kernels,
    i: int,
    change_i: float,
    j: int,
    change_j: float,
    slopes: Vector,
    rise: Vector,
    fall: Vector,
    rising: Vector,
    falling: Vector,
    active: int,
) -> None:
    """Slopes after two weights have changed, and hidden where a weight cannot rise, or fall, any further."""
    for k in range(active):
        slope = slopes[k] + (kernels[i, k] * change_i + kernels[j, k] * change_j)
        slopes[k], rising[k], falling[k] = slope, rise[k] - slope, fall[k] + slope


@compiled
def _set_aside(
    kernels: Kernels,
    sample: Places,
    slopes: Vector,
    rise: Vector,
    fall: Vector,
    others: tuple[Vector, ...],
    active: int,
    up: float,
    down: float,
) -> int:
    """Samples that will stay at their bound change places with the last of the active; how many of these are left."""
    k = 0
    while k < active:
        if _stays(slopes[k], rise[k], fall[k], up, down):
            active -= 1
            while active > k and _stays(slopes[active], rise[active], fall[active], up, down):
                active -= 1
            for row in range(len(kernels)):
                kernels[row, k], kernels[row, active] = kernels[row, active], kernels[row, k]
            for column in range(len(kernels)):
                kernels[k, column], kernels[active, column] = kernels[active, column], kernels[k, column]
            for values in (slopes, rise, fall, *others):
                values[k], values[active] = values[active], values[k]
            sample[k], sample[active] = sample[active], sample[k]
        k += 1
    return active


@compiled
def _stays(slope: float, rise: float, fall: float, up: float, down: float) -> bool:
    """Whether a weight is at its bound, and drawn beyond it by more than any other is drawn where it can go."""
    return (rise < 0 and -slope > up) or (fall < 0 and slope > down)


@compiled
def _bring_back(
    kernels: Kernels, signs: Vector, weights: Vector, cost: float, slopes: Vector, pinned: Vector, active: int
) -> None:
    """Slopes of the samples that were set aside: from the weights at their bound, kept up, and all others."""
    size = len(slopes)
    for k in range(active, size):
        slopes[k] = pinned[k] - signs[k]
    for other in range(active):
        if 0 < abs(weights[other]) < cost:
            for k in range(active, size):
                slopes[k] += weights[other] * kernels[other, k]


@compiled
def _offset(slopes: Vector, rise: Vector, fall: Vector) -> float:
    """rho: the mean slope of free weights; without any, the middle of what bounds allow."""
    free, total, above, below = 0, 0.0, np.inf, -np.inf
    for k in range(len(slopes)):
        if rise[k] == 0 and fall[k] == 0:
            free += 1
            total += slopes[k]
        elif fall[k] < 0:
            above = min(above, slopes[k])
        else:
            below = max(below, slopes[k])
    return total / free if free else (above + below) / 2
