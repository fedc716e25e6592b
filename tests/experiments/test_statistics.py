"""What several seeds say together."""

import math

import pytest

from pucl.experiments.statistics import Difference, Spread, student_quantile


def test_spread() -> None:
    spread = Spread.of([1.0, 2.0, 3.0])
    assert (spread.mean, spread.deviation, spread.count) == (2.0, 1.0, 3)
    assert Spread.of([4.0]) == Spread(4.0, 0.0, 1)


def test_paired_difference_has_the_interval_of_student() -> None:
    difference = Difference.between([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    margin = 4.302653 * 1.0 / math.sqrt(3)
    assert difference.mean == 2.0
    assert difference.low == pytest.approx(2.0 - margin)
    assert difference.high == pytest.approx(2.0 + margin)
    assert Difference.between([1.0], [0.5]) == Difference(0.5, None, None)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.30265), (3, 3.18245), (9, 2.26216), (10, 2.22814), (99, 1.98422)]
)
def test_quantiles_of_student(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, rel=1e-5)


@pytest.mark.parametrize("differences", [[0.1], [0.1, 0.1], [0.0, 0.0, 0.0]])
def test_pairs_that_differ_alike_say_nothing_of_an_interval(differences: list[float]) -> None:
    base = [90.3, 91.7, 92.9][: len(differences)]
    found = Difference.between([value + more for value, more in zip(base, differences, strict=True)], base)
    assert found.mean == pytest.approx(differences[0])
    assert found.low is found.high is None
