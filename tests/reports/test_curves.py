"""Pictures of a comparison: what they show is what was measured, and names do not meet."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from pucl.cli import main
from pucl.config import ROWS
from pucl.reports import canvas, curves
from pucl.reports.canvas import MatplotlibMissingError
from pucl.reports.curves import draw_accuracies, draw_curves, spread
from pucl.reports.palette import COLOURS, OTHER, colour_of
from pucl.runs.lines import Line, as_text
from pucl.runs.statistics import Spread

PNG = b"\x89PNG"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn, to look into."""
    kept: list[Figure] = []
    to_png = canvas.as_png

    def keep(figure: Figure) -> bytes:
        kept.append(figure)
        return to_png(figure)

    monkeypatch.setattr(curves, "as_png", keep)
    return kept


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


def line(name: str, linear: list[float], knn: list[float]) -> Line:
    return Line(
        name=name,
        correction=name,
        tau_plus=None,
        scores={"linear": Spread.of(linear), "knn": Spread.of(knn)},
        by_seed={"linear": tuple(linear), "knn": tuple(knn)},
        differences={},
        floored=None,
        seconds=1.0,
    )


def titles(figure: Figure) -> list[str]:
    """The titles of the panels that are shown."""
    return [axes.texts[-2].get_text() for axes in figure.axes if axes.axison]


def shown(axes: Axes) -> list[Text]:
    """The texts of a panel; ticks beyond its edges have words that are never drawn."""
    if not axes.axison:
        return []
    texts = [*axes.texts, axes.xaxis.label, axes.yaxis.label]
    for axis, (low, high) in ((axes.xaxis, sorted(axes.get_xlim())), (axes.yaxis, sorted(axes.get_ylim()))):
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that lie on each other, and texts that leave the picture."""
    texts = [*figure.texts, *(text for axes in figure.axes for text in shown(axes))]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    found = []
    for number, (one, box) in enumerate(boxes):
        if box.x0 < 0 or box.y0 < 0 or box.x1 > figure.bbox.x1 or box.y1 > figure.bbox.y1:
            found.append((one, "the edge"))
        for other, its in boxes[number + 1 :]:
            across, up = min(box.x1, its.x1) - max(box.x0, its.x0), min(box.y1, its.y1) - max(box.y0, its.y0)
            if across > 1 and up > 0.35 * min(box.height, its.height):  # Boxes of text have room above and below.
                found.append((one, other))
    return found


def test_lines_are_the_metrics(figures: list[Figure]) -> None:
    assert draw_curves({"plain": [history(1.0), history(3.0)], "pucl": [history(5.0)]}).startswith(PNG)
    loss = figures[0].axes[0]
    drawn = {
        (each.get_color(), float(each.get_linewidth())): np.asarray(each.get_ydata())
        for each in loss.lines
        if len(np.asarray(each.get_ydata())) == 4
    }
    epochs = np.arange(1, 5)
    np.testing.assert_allclose(drawn[COLOURS["plain"], 2.0], 2.0 + 1 / epochs)
    np.testing.assert_allclose(drawn[COLOURS["plain"], 0.8], 3.0 + 1 / epochs)
    np.testing.assert_allclose(drawn[COLOURS["pucl"], 2.0], 5.0 + 1 / epochs)
    assert (COLOURS["pucl"], 0.8) not in drawn  # One seed is its own mean.


def test_without_a_temperature_similarities_are_inner_products(figures: list[Figure]) -> None:
    for cosines in (True, False):
        draw_curves({"plain": [history(1.0)]}, cosines=cosines)
    words = [" ".join(text.get_text() for text in figure.findobj(Text)) for figure in figures]
    assert ["mean cosine" in each for each in words] == [True, False]
    assert ["mean inner product" in each for each in words] == [False, True]


def test_only_what_was_measured_has_a_panel(figures: list[Figure]) -> None:
    draw_curves({"plain": [history(1.0)]})
    draw_curves({"plain": [history(1.0, knn=True)], "untrained": [[]]})
    assert len(titles(figures[0])) == 5
    assert set(titles(figures[1])) - set(titles(figures[0])) == {"Accuracy of nearest neighbours"}


def test_epochs_without_a_loss_are_left_out(figures: list[Figure]) -> None:
    """MoCo has nothing to compare with in its first steps, and a diverged run has no number."""
    first = {"epoch": 1}
    broken = history(2.0)[1] | {"loss": float("nan")}
    draw_curves({"plain": [[first, broken, *history(1.0)[2:]]]})
    (drawn,) = [each for each in figures[0].axes[0].lines if each.get_linewidth() == 2.0]
    assert np.asarray(drawn.get_xdata()).tolist() == [3, 4]


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("epochs", [1, 40])
def test_no_words_on_words_in_curves(figures: list[Figure], seeds: int, epochs: int) -> None:
    """The worst case: all rows end in nearly the same place, some at zero."""
    trained = [name for name in ROWS if name != "untrained"]
    draw_curves({n: [history(i / 100, epochs, knn=True) for _ in range(seeds)] for i, n in enumerate(trained)})
    assert overlapping(figures[0]) == []


def test_dots_are_the_seeds(figures: list[Figure]) -> None:
    rows = [line("plain", [80.0, 82.0, 81.0], [70.0, 71.0, 72.0]), line("pucl", [84.0, 85.0, 86.0], [75.0, 75.5, 76.0])]
    assert draw_accuracies(rows, subject="simclr on digits").startswith(PNG)
    linear, knn = figures[0].axes
    for axes, expected in ((linear, [80.0, 82.0, 81.0]), (knn, [70.0, 71.0, 72.0])):
        plain = [each for each in axes.lines if each.get_color() == COLOURS["plain"]]
        assert any(np.asarray(each.get_xdata()).tolist() == expected for each in plain)
    # Mean 81, deviation 1, t of two degrees of freedom 4.303: 81 +- 2.484.
    assert any(
        np.allclose(np.asarray(each.get_xdata(), dtype=float), [81 - 2.484, 81 + 2.484], atol=1e-3)
        for each in linear.lines
        if len(np.asarray(each.get_xdata())) == 2
    )


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_no_words_on_words_in_accuracies(figures: list[Figure], seeds: int) -> None:
    """Intervals of two seeds run past the panel, and the untrained encoder is far off: its row has an arrow."""
    random = np.random.default_rng(0)
    rows = [line(n, list(80 + random.normal(size=seeds)), list(70 + random.normal(size=seeds))) for n in ROWS]
    rows[ROWS.index("untrained")] = line("untrained", [20.0 + seed for seed in range(seeds)], [10.0] * seeds)
    draw_accuracies(rows)
    assert overlapping(figures[0]) == []
    linear = figures[0].axes[0]
    assert linear.get_xlim()[0] > 50
    arrows = [each for each in linear.lines if each.get_marker() == "<" and each.get_color() == COLOURS["untrained"]]
    assert len(arrows) == 1


def test_an_untrained_encoder_close_by_is_shown(figures: list[Figure]) -> None:
    draw_accuracies([line("untrained", [79.0], [60.0]), line("plain", [80.0], [70.0]), line("pucl", [82.0], [71.0])])
    assert figures[0].axes[0].get_xlim()[0] < 79
    assert figures[0].axes[1].get_xlim()[0] > 60
    draw_accuracies([line("untrained", [83.0], [90.0]), line("plain", [80.0], [70.0]), line("pucl", [82.0], [71.0])])
    assert figures[1].axes[0].get_xlim()[1] > 83
    assert figures[1].axes[1].get_xlim()[1] < 90


def test_one_row_and_one_seed(figures: list[Figure]) -> None:
    draw_accuracies([line("plain", [80.0], [70.0])])
    draw_accuracies([line("untrained", [80.0], [70.0])])
    for figure in figures:
        low, high = figure.axes[0].get_xlim()
        assert low < 80 < high


def words(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_chart_and_table_have_the_same_digits(figures: list[Figure]) -> None:
    rows = [line("plain", [35.625], [50.0]), line("pucl", [35.625, 35.875], [50.0, 51.0])]
    draw_accuracies(rows)
    plain, pucl = as_text(rows).splitlines()[2:]
    for shown, row in (("35.62", plain), ("35.75 ± 0.18", pucl), ("50.00", plain), ("50.50 ± 0.71", pucl)):
        assert shown in row
        assert any(shown in words(axes) for axes in figures[0].axes)


def test_one_seed_has_no_spread(figures: list[Figure]) -> None:
    draw_accuracies([line("plain", [80.0], [70.0]), line("pucl", [81.0], [71.0])])
    draw_accuracies([line("plain", [80.0, 81.0], [70.0, 71.0])])
    assert [figure.axes[0].get_xlabel() for figure in figures] == ["%", "%, mean ± standard deviation"]
    assert not any("±" in word for axes in figures[0].axes for word in words(axes))


def test_accuracies_end_at_100_percent(figures: list[Figure]) -> None:
    draw_accuracies([line("plain", [99.0, 100.0], [0.0, 1.0]), line("pucl", [100.0, 100.0], [0.0, 0.0])])
    linear, knn = figures[0].axes
    assert linear.get_xlim()[1] == 100
    assert knn.get_xlim()[0] == 0
    assert max(np.asarray(each.get_xdata(), dtype=float).max() for each in linear.lines) <= 100
    assert [each for each in linear.lines if each.get_marker() == ">"] == []  # An interval ends at 100 % too.
    run = [{"epoch": epoch, "loss": 1.0, "floored": 1.0, "knn": knn} for epoch, knn in ((1, 0.4), (2, 1.0))]
    draw_curves({"plain": [run]})
    for axes in figures[1].axes:
        if "Accuracy of nearest neighbours" in words(axes) or "Anchors at the floor" in words(axes):
            assert axes.get_ylim()[1] == 1.0


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="expected the metrics of one epoch or more, got none"):
        draw_curves({"untrained": [[], []]})
    with pytest.raises(ValueError, match="expected one row or more, got none"):
        draw_accuracies([])


def test_every_row_has_a_colour_of_its_own() -> None:
    assert len({colour_of(name) for name in ROWS}) == len(ROWS)
    assert OTHER not in {colour_of(name) for name in ROWS}
    assert colour_of("yours") == OTHER


@given(st.lists(st.floats(0, 1), max_size=8).map(sorted))
def test_names_are_moved_apart_and_no_further(places: list[float]) -> None:
    moved = spread(places, gap=0.1)
    assert all(at >= 0 for at in moved)
    assert all(above - below >= 0.1 - 1e-9 for below, above in pairwise(moved))
    if all(above - below >= 0.1 for below, above in pairwise(places)):
        assert moved == pytest.approx(places)


def test_matplotlib_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MatplotlibMissingError, match=r"pip install '\.\[plot\]'"):
        draw_curves({"plain": [history(1.0)]})
    with pytest.raises(MatplotlibMissingError):
        draw_accuracies([line("plain", [80.0], [70.0])])


@pytest.mark.slow
def test_compare_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "pictures.npz", images=images, labels=np.arange(40) % 2)
    out = tmp_path / "out"
    command = ["compare", "simclr", str(tmp_path / "pictures.npz"), "--epochs=1", "--batch-size=16", "--dim=8"]
    command += ["--seeds=1", "--out", str(out)]
    pictures = [out / "accuracies.png", out / "curves.png"]

    assert main([*command, "--corrections=untrained"]) == 0
    assert "nothing was trained, so there are no curves" in capsys.readouterr().out
    assert [picture.exists() for picture in pictures] == [True, False]

    assert main([*command, "--corrections=untrained,plain"]) == 0
    assert f"plots: {pictures[0]} and curves.png" in capsys.readouterr().out
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main([*command, "--corrections=untrained,plain"]) == 0
    assert "plots: left out; figures are drawn with matplotlib" in capsys.readouterr().out
    assert not any(picture.exists() for picture in pictures)
