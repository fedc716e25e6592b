"""The figures of similarities and of embeddings show the numbers, and no words lie on words."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from figure_texts import drawn_texts, overlapping
from pucl.diagnosis.layout2d import Layout
from pucl.diagnosis.similarities import Similarities
from pucl.estimation.bbe import bbe
from pucl.estimation.mixture import mixture
from pucl.frameworks.recipes import recipe
from pucl.reports.canvas import MatplotlibMissingError
from pucl.reports.embedding import MOST_NAMED, draw_embedding
from pucl.reports.palette import CLASSES
from pucl.reports.similarities import OTHER, POSITIVE, SAME, Numbers, draw_similarities

PNG = b"\x89PNG"
TAU_PLUS, SHARE = 0.3, 0.2


def measured() -> Similarities:
    random = np.random.default_rng(0)
    positive, same, other = (
        np.tanh(random.normal(mean, 0.2, count)).astype(np.float32)
        for mean, count in ((1.0, 500), (0.5, 2000), (0.0, 8000))
    )
    unlabelled = np.concatenate([same, other])
    return Similarities(
        run=Path("runs/one"),
        config=recipe("simclr", "digits", correction="deb", settings={"tau_plus": TAU_PLUS}),
        tau_plus=TAU_PLUS,
        anchors=100,
        positive=positive,
        same_class=same,
        other_class=other,
        unlabelled=unlabelled,
        best_bin=bbe(positive, unlabelled),
        mixture=mixture(unlabelled),
        truth=SHARE,
        positives_met=1,
        unlabelled_met=254,
    )


def layout(classes: int = 3, points: int = 60, *, labelled: bool = True, data: str = "digits") -> Layout:
    random = np.random.default_rng(0)
    return Layout(
        run=Path("runs/one"),
        config=recipe("simclr", data),
        part="test",
        indices=np.arange(points),
        points=random.normal(size=(points, 2)).astype(np.float32),
        labels=np.arange(points) % classes if labelled else None,
        classes=tuple(f"class number {number}" for number in range(classes)) if labelled else (),
        result={"knn": 0.75},
    )


def steps(axes: Axes) -> dict[str, tuple[Numbers, Numbers]]:
    """By colour: heights and edges of the histograms of a panel."""
    drawn = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    return {
        to_hex(patch.get_edgecolor()).upper(): (np.asarray(patch.get_data()[0]), np.asarray(patch.get_data()[1]))
        for patch in drawn
    }


def test_what_the_correction_assumes_is_drawn(figures: list[Figure]) -> None:
    found = measured()
    assert draw_similarities(found).startswith(PNG)
    laws, unlabelled, chances = figures[0].axes
    laws_drawn, mixed = steps(laws), steps(unlabelled)
    known, edges = laws_drawn[POSITIVE]
    assert found.positive is not None
    np.testing.assert_allclose(known, np.histogram(found.positive, edges, density=True)[0], rtol=0.01)
    other = laws_drawn[OTHER][0]
    np.testing.assert_allclose(mixed[POSITIVE][0], (1 - TAU_PLUS) * other + TAU_PLUS * known)
    np.testing.assert_allclose(mixed[SAME][0], (1 - TAU_PLUS) * other + TAU_PLUS * laws_drawn[SAME][0])
    # The fitted mixture has the area of a density, and its chances are those of the posterior.
    fit = unlabelled.lines[0]
    assert np.trapezoid(np.asarray(fit.get_ydata()), np.asarray(fit.get_xdata())) == pytest.approx(1, abs=0.01)
    lines = {str(line.get_label()): line for line in chances.lines}
    places = np.asarray(lines["upper of two Gaussians"].get_xdata(), dtype=np.float64)
    np.testing.assert_allclose(
        np.asarray(lines["upper of two Gaussians"].get_ydata()),
        found.mixture.posterior(torch.from_numpy(places)).numpy(),
    )


def test_chances_by_labels_average_to_the_truth(figures: list[Figure]) -> None:
    found = measured()
    draw_similarities(found)
    (dots,) = [line for line in figures[0].axes[2].lines if line.get_color() == SAME]
    places, chances = (np.asarray(values, dtype=np.float64) for values in (dots.get_xdata(), dots.get_ydata()))
    width = places[1] - places[0]
    pairs = np.histogram(found.unlabelled, np.append(places - width / 2, places[-1] + width / 2))[0]
    kept = np.isfinite(chances)
    assert 0 < kept.sum() < len(kept)  # Bins with few pairs tell nothing.
    assert (chances[kept] * pairs[kept]).sum() / pairs[kept].sum() == pytest.approx(SHARE, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "missing",
    [
        (),
        ("tau_plus",),
        ("positive", "best_bin"),
        ("same_class", "other_class", "truth"),
        ("positive", "best_bin", "same_class", "other_class", "truth"),
        ("same_class",),
    ],
    ids=lambda missing: " ".join(missing) or "nothing",
)
def test_no_texts_overlap_in_similarities(figures: list[Figure], missing: tuple[str, ...]) -> None:
    nothing: dict[str, Any] = dict.fromkeys(missing)
    found = replace(measured(), **nothing)
    if missing == ("same_class",):
        found = replace(found, truth=0.0)
    assert draw_similarities(found).startswith(PNG)
    assert overlapping(figures[0]) == []
    texts = " ".join(text.get_text() for text in drawn_texts(figures[0]))
    assert ("there are no labels to check it" in texts) == ("truth" in missing)


def test_a_correction_of_nothing(figures: list[Figure]) -> None:
    """Plain takes nothing off."""
    draw_similarities(replace(measured(), tau_plus=0.0))
    assert not any("removed" in text.get_text() for text in drawn_texts(figures[0]))


def test_dots_are_the_points_in_the_colours_of_their_classes(figures: list[Figure]) -> None:
    drawn = layout()
    assert draw_embedding([drawn]).startswith(PNG)
    shown: dict[tuple[float, float], str] = {}
    for dots in figures[0].axes[0].collections:
        assert isinstance(dots, PathCollection)
        red, green, blue, _ = np.asarray(dots.get_facecolor(), dtype=float)[0].tolist()
        colour = to_hex((red, green, blue)).upper()
        offsets = np.asarray(dots.get_offsets(), dtype=np.float32)
        shown |= {(float(x), float(y)): colour for x, y in offsets}
    assert drawn.labels is not None
    for (x, y), label in zip(drawn.points, drawn.labels, strict=True):
        assert shown[float(x), float(y)] == CLASSES[label].upper()
    legend = figures[0].axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["class number 0", "class number 1", "class number 2"]


@pytest.mark.parametrize(("runs", "classes"), [(1, 2), (2, MOST_NAMED), (3, 37), (4, 2)])
def test_no_texts_overlap_in_embeddings(figures: list[Figure], runs: int, classes: int) -> None:
    draw_embedding([layout(classes)] * runs)
    assert overlapping(figures[0]) == []
    said = " ".join(text.get_text() for text in drawn_texts(figures[0]))
    assert ("of 37 classes" in said) == (classes == 37)
    legends = [axes.get_legend() is not None for axes in figures[0].axes]
    assert sum(legends) == (classes <= MOST_NAMED)  # One for all runs.


def test_runs_on_different_data(figures: list[Figure]) -> None:
    draw_embedding([layout(2), layout(4, data="cifar10"), layout(labelled=False, data="stl10")])
    assert overlapping(figures[0]) == []
    assert [axes.get_legend() is not None for axes in figures[0].axes] == [True, True, False]
    assert any(text.get_text() == "simclr on cifar10: plain, seed 0" for text in drawn_texts(figures[0]))
    assert any("classes unknown" in text.get_text() for text in drawn_texts(figures[0]))


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="expected the layout of one or more, got none"):
        draw_embedding([])


def test_matplotlib_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MatplotlibMissingError, match=r"pip install '\.\[plot\]'"):
        draw_similarities(measured())
    with pytest.raises(MatplotlibMissingError):
        draw_embedding([layout()])
