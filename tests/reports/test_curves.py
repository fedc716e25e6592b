"""Charts of a comparison: they show what was measured, and no texts overlap."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from figure_texts import overlapping, panel_texts
from pucl.cli import main
from pucl.config import row_names
from pucl.reports.canvas import MatplotlibMissingError, colours_of
from pucl.reports.curves import curves_of, draw_curves
from pucl.reports.palette import COLOURS, OTHER, on_light
from pucl.reports.scores import draw_scores
from pucl.runs.rows import TableRow
from pucl.runs.statistics import Spread

PNG = b"\x89PNG"


def history(level: float, epochs: int = 4, *, knn: bool = False) -> list[dict[str, Any]]:
    lines = [
        {
            "epoch": epoch,
            "loss": level + 1 / epoch,
            "floored": 0.1,
            "tau_plus": 0.2,
            "positive_similarity": 0.5,
            "unlabelled_similarity": 0.1,
        }
        for epoch in range(1, epochs + 1)
    ]
    if knn:
        lines[-1]["knn"] = 0.75
    return lines


def line(name: str, linear: list[float], knn: list[float]) -> TableRow:
    return TableRow(
        name=name,
        correction=name,
        tau_plus=None,
        scores={"linear": Spread.of(linear), "knn": Spread.of(knn)},
        by_seed={"linear": tuple(linear), "knn": tuple(knn)},
        differences={},
        floored=None,
        seconds=1.0,
    )


def colour(correction: str) -> str:
    """The colour of a row on white."""
    return colours_of([correction])[0]


def test_lines_are_the_metrics(figures: list[Figure]) -> None:
    assert draw_curves({"plain": [history(1.0), history(3.0)], "pucl": [history(5.0)]}).startswith(PNG)
    loss = figures[0].axes[0]
    drawn = {(each.get_color(), float(each.get_linewidth())): np.asarray(each.get_ydata()) for each in loss.lines}
    epochs, plain, pucl = np.arange(1, 5), colour("plain"), colour("pucl")
    np.testing.assert_allclose(drawn[plain, 2.0], 2.0 + 1 / epochs)
    np.testing.assert_allclose(drawn[plain, 0.8], 3.0 + 1 / epochs)
    np.testing.assert_allclose(drawn[pucl, 2.0], 5.0 + 1 / epochs)
    assert (pucl, 0.8) not in drawn  # One seed is its own mean.


def test_only_what_was_measured_has_a_panel() -> None:
    found = curves_of([[history(1.0)]])
    assert len(found) == 5
    more = curves_of([[history(1.0, knn=True)], [[]]])
    assert {metric.title for metric in more} - {metric.title for metric in found} == {"Nearest neighbours"}
    meanings = [metric.meaning for metric in curves_of([[history(1.0)]], cosines=False)]
    assert meanings[-2:] == ["mean inner product"] * 2  # There is no temperature.


def test_epochs_without_a_loss_are_left_out() -> None:
    """MoCo has nothing to compare with in its first steps, and a diverged run has no number."""
    first = {"epoch": 1}
    broken = history(2.0)[1] | {"loss": float("nan")}
    loss = next(iter(curves_of([[[first, broken, *history(1.0)[2:]]]]).values()))
    assert list(loss[0][0]) == [3, 4]


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "epochs"), [(1, 40), (3, 1)])
def test_no_texts_overlap_in_curves(figures: list[Figure], seeds: int, epochs: int) -> None:
    trained = [name for name in row_names() if name != "untrained"]
    draw_curves({n: [history(i / 100, epochs, knn=True) for _ in range(seeds)] for i, n in enumerate(trained)})
    assert overlapping(figures[0]) == []


def test_dots_are_the_seeds(figures: list[Figure]) -> None:
    rows = [line("plain", [80.0, 82.0, 81.0], [70.0, 71.0, 72.0]), line("pucl", [84.0, 85.0, 86.0], [75.0, 75.5, 76.0])]
    assert draw_scores(rows, subject="simclr on digits").startswith(PNG)
    linear, knn = figures[0].axes
    for axes, expected in ((linear, [80.0, 82.0, 81.0]), (knn, [70.0, 71.0, 72.0])):
        plain = [each for each in axes.lines if each.get_color() == colour("plain")]
        assert any(np.asarray(each.get_xdata()).tolist() == expected for each in plain)
    # Mean 81, deviation 1, t of two degrees of freedom 4.303: 81 +- 2.484.
    assert any(
        np.allclose(np.asarray(each.get_xdata(), dtype=float), [81 - 2.484, 81 + 2.484], atol=1e-3)
        for each in linear.lines
        if len(np.asarray(each.get_xdata())) == 2
    )


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_no_texts_overlap_in_scores(figures: list[Figure], seeds: int) -> None:
    """Intervals of two seeds run past the panel, and the untrained encoder is far off: its row has an arrow."""
    random = np.random.default_rng(0)
    rows = [line(n, list(80 + random.normal(size=seeds)), list(70 + random.normal(size=seeds))) for n in row_names()]
    rows[row_names().index("untrained")] = line("untrained", [20.0 + seed for seed in range(seeds)], [10.0] * seeds)
    draw_scores(rows)
    assert overlapping(figures[0]) == []
    linear = figures[0].axes[0]
    assert linear.get_xlim()[0] > 50
    arrows = [each for each in linear.lines if each.get_marker() == "<" and each.get_color() == colour("untrained")]
    assert len(arrows) == 1


def test_an_untrained_encoder_close_by_is_shown(figures: list[Figure]) -> None:
    draw_scores([line("untrained", [79.0], [60.0]), line("plain", [80.0], [70.0]), line("pucl", [82.0], [71.0])])
    assert figures[0].axes[0].get_xlim()[0] < 79
    assert figures[0].axes[1].get_xlim()[0] > 60
    for alone in ("plain", "untrained"):
        draw_scores([line(alone, [80.0], [70.0])])
        low, high = figures.pop().axes[0].get_xlim()
        assert low < 80 < high
    draw_scores([line("untrained", [83.0], [90.0]), line("plain", [80.0], [70.0]), line("pucl", [82.0], [71.0])])
    assert figures[1].axes[0].get_xlim()[1] > 83
    assert figures[1].axes[1].get_xlim()[1] < 90


def test_accuracies_end_at_100_percent(figures: list[Figure]) -> None:
    draw_scores([line("plain", [99.0, 100.0], [0.0, 1.0]), line("pucl", [100.0, 100.0], [0.0, 0.0])])
    linear, knn = figures[0].axes
    assert linear.get_xlim()[1] == 100
    assert knn.get_xlim()[0] == 0
    assert max(np.asarray(each.get_xdata(), dtype=float).max() for each in linear.lines) <= 100
    assert [each for each in linear.lines if each.get_marker() == ">"] == []  # An interval ends at 100 % too.
    draw_scores([line("plain", [84.0], [20.0]), line("pucl", [94.0], [22.0])])  # Near it, and far from it.
    assert figures.pop().axes[0].get_xlim()[1] == 100
    draw_scores([line("plain", [20.0], [84.0]), line("pucl", [22.0], [94.0])])
    assert figures.pop().axes[0].get_xlim()[1] < 30
    run = [{"epoch": epoch, "loss": 1.0, "floored": 1.0, "knn": knn} for epoch, knn in ((1, 0.4), (2, 1.0))]
    draw_curves({"plain": [run]})
    for axes in figures[1].axes:
        if "Nearest neighbours" in panel_texts(axes) or "Anchors at the floor" in panel_texts(axes):
            assert axes.get_ylim()[1] == 1.0


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="expected the metrics of one epoch or more, got none"):
        draw_curves({"untrained": [[], []]})
    with pytest.raises(ValueError, match="expected one row or more, got none"):
        draw_scores([])


def test_every_row_has_a_colour_of_its_own() -> None:
    assert set(row_names()) <= COLOURS.keys()
    assert len({*COLOURS.values(), OTHER}) == len(COLOURS) + 1
    assert colour("yours") == on_light(OTHER)


def test_matplotlib_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MatplotlibMissingError, match=r"pip install '\.\[plot\]'"):
        draw_curves({"plain": [history(1.0)]})
    with pytest.raises(MatplotlibMissingError):
        draw_scores([line("plain", [80.0], [70.0])])


@pytest.mark.slow
def test_compare_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "pictures.npz", images=images, labels=np.arange(40) % 2)
    out = tmp_path / "out"
    command = ["compare", "simclr", str(tmp_path / "pictures.npz"), "--epochs=1", "--batch-size=16", "--dim=8"]
    command += ["--seeds=1", "--out", str(out)]
    pictures = [out / "scores.png", out / "curves.png"]

    assert main([*command, "--corrections=untrained"]) == 0
    assert "no curves, since nothing was trained" in capsys.readouterr().out
    assert [picture.exists() for picture in pictures] == [True, False]

    assert main([*command, "--corrections=untrained,plain"]) == 0
    assert f"plots: {pictures[0]} and curves.png" in capsys.readouterr().out
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main([*command, "--corrections=untrained,plain"]) == 0
    assert "plots: not drawn: figures are drawn with matplotlib" in capsys.readouterr().out
    assert not any(picture.exists() for picture in pictures)
