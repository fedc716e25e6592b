"""The reliability chart of the page: it shows what was measured."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from pucl.reports.reliability import page_reliability, pooled


def history(*curve: Any) -> list[dict[str, Any]]:
    return [{"epoch": 1, "step": 1}, {"epoch": 2, "step": 2, "calibration.curve": list(curve)}]


def test_runs_are_pooled_bin_by_bin() -> None:
    found = pooled([[(0.15, 0.1, 10), (0.95, 1.0, 1)], [], [(0.11, 0.5, 30), (1.0, 0.5, 3)]])
    assert [count for _, _, count in found] == [40, 4]
    np.testing.assert_allclose([each[:2] for each in found], [(0.12, 0.4), (0.9875, 0.625)])


def test_points_are_the_bins_of_the_last_epoch(figures: list[Figure]) -> None:
    curve = [0.05, 0.2, 100], [0.6, 0.5, 50]
    histories: list[list[list[dict[str, Any]]]] = [[[]], [history(*curve), []], [[{"epoch": 1, "step": 1}]]]
    panel = page_reliability(histories, ["untrained", "auto", "plain"], ["untrained", "auto", "plain"], key="k")
    assert panel is not None
    diagonal, line = figures[0].axes[0].lines
    np.testing.assert_allclose(np.asarray(diagonal.get_xydata()), [(0, 0), (1, 1)])
    np.testing.assert_allclose(np.asarray(line.get_xydata()), [each[:2] for each in curve])
    assert 'data-row="1"' in panel["svg"]
    assert 'data-row="0"' not in panel["svg"]
    assert "auto: 0.20 at r 0.05, 0.50 at r 0.60" in panel["svg"]


@pytest.mark.parametrize("row", [[0.5, 0.5], [0.5, 2.0, 10], [float("nan"), 0.5, 10], [0.5, 0.5, 0]])
def test_impossible_numbers_are_left_out(row: list[float]) -> None:
    assert page_reliability([[history(row)]], ["auto"], ["auto"], key="k") is None
