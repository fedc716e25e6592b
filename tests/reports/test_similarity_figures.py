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
from matplotlib.text import Text

from pucl.diagnosis.layout2d import Layout
from pucl.diagnosis.priors import bbe, mixture
from pucl.diagnosis.similarities import Similarities
from pucl.frameworks.recipes import recipe
from pucl.reports import embedding, similarities
from pucl.reports.canvas import MatplotlibMissingError
from pucl.reports.embedding import CLASS_COLOURS, NAMED, draw_embedding
from pucl.reports.similarities import OTHER, POSITIVE, SAME, Numbers, draw_similarities

PNG = b"\x89PNG"
TAU_PLUS, SHARE = 0.3, 0.2


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn, to look into."""
    kept: list[Figure] = []
    for module in (similarities, embedding):
        to_png = module.as_png

        def keep(figure: Figure, to_png: object = to_png) -> bytes:
            kept.append(figure)
            assert callable(to_png)
            image: bytes = to_png(figure)
            return image

        monkeypatch.setattr(module, "as_png", keep)
    return kept


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
        places=np.arange(points),
        points=random.normal(size=(points, 2)).astype(np.float32),
        labels=np.arange(points) % classes if labelled else None,
        classes=tuple(f"class number {number}" for number in range(classes)) if labelled else (),
        knn=0.75,
    )


def words(figure: Figure) -> list[Text]:
    """All texts that are drawn; ticks beyond an axis have words that never are."""
    texts = list(figure.texts)
    for legend in figure.legends:
        texts += [*legend.get_texts(), legend.get_title()]
    for axes in figure.axes:
        if not axes.axison:
            continue
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label]
        if (legend_of := axes.get_legend()) is not None:
            texts += legend_of.get_texts()
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that lie on each other, and texts that leave the picture."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in words(figure)]
    found = []
    for number, (one, box) in enumerate(boxes):
        if box.x0 < 0 or box.y0 < 0 or box.x1 > figure.bbox.x1 or box.y1 > figure.bbox.y1:
            found.append((one, "the edge"))
        for other, its in boxes[number + 1 :]:
            across, up = min(box.x1, its.x1) - max(box.x0, its.x0), min(box.y1, its.y1) - max(box.y0, its.y0)
            if across > 1 and up > 0.35 * min(box.height, its.height):  # Boxes of text have room above and below.
                found.append((one, other))
    return found


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


@pytest.mark.parametrize(
    "missing",
    [
        (),
        ("tau_plus",),
        ("positive", "best_bin"),
        ("same_class", "other_class", "truth"),
        ("same_class", "other_class", "truth", "tau_plus"),
        ("positive", "best_bin", "same_class", "other_class", "truth"),
        ("same_class",),
    ],
    ids=lambda missing: " ".join(missing) or "nothing",
)
def test_no_words_on_words_in_similarities(figures: list[Figure], missing: tuple[str, ...]) -> None:
    nothing: dict[str, Any] = dict.fromkeys(missing)
    found = replace(measured(), **nothing)
    if missing == ("same_class",):
        found = replace(found, truth=0.0)
    assert draw_similarities(found).startswith(PNG)
    assert overlapping(figures[0]) == []


def test_a_correction_of_nothing(figures: list[Figure]) -> None:
    """Plain takes nothing off."""
    draw_similarities(replace(measured(), tau_plus=0.0))
    assert not any("taken off" in text.get_text() for text in words(figures[0]))


def test_dots_are_the_points_in_the_colours_of_their_classes(figures: list[Figure]) -> None:
    drawn = layout()
    assert draw_embedding([drawn]).startswith(PNG)
    (dots,) = [each for each in figures[0].axes[0].collections if isinstance(each, PathCollection)]
    offsets, colours = np.asarray(dots.get_offsets(), dtype=np.float32), np.asarray(dots.get_facecolor(), dtype=float)
    shown = {(float(x), float(y)): to_hex(colour[:3]).upper() for (x, y), colour in zip(offsets, colours, strict=True)}
    assert drawn.labels is not None
    for (x, y), label in zip(drawn.points, drawn.labels, strict=True):
        assert shown[float(x), float(y)] == CLASS_COLOURS[label].upper()
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == [
        "class number 0",
        "class number 1",
        "class number 2",
    ]


@pytest.mark.parametrize("runs", [1, 2, 3, 5])
@pytest.mark.parametrize("classes", [2, NAMED, 37])
def test_no_words_on_words_in_embeddings(figures: list[Figure], runs: int, classes: int) -> None:
    draw_embedding([layout(classes)] * runs)
    assert overlapping(figures[0]) == []
    said = " ".join(text.get_text() for text in words(figures[0]))
    assert ("of 37 classes" in said) == ("classes have colours without names" in said) == (classes == 37)
    assert bool(figures[0].legends) == (classes <= NAMED)


def test_runs_on_different_data(figures: list[Figure]) -> None:
    draw_embedding([layout(2), layout(4, data="cifar10"), layout(labelled=False, data="stl10")])
    assert overlapping(figures[0]) == []
    assert [legend.get_title().get_text() for legend in figures[0].legends] == ["digits", "cifar10"]
    assert any(text.get_text() == "simclr on cifar10: pucl, seed 0" for text in words(figures[0]))
    assert any("classes not known" in text.get_text() for text in words(figures[0]))


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="expected the layout of one or more, got none"):
        draw_embedding([])


def test_matplotlib_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MatplotlibMissingError, match=r"pip install '\.\[plot\]'"):
        draw_similarities(measured())
    with pytest.raises(MatplotlibMissingError):
        draw_embedding([layout()])


@pytest.mark.parametrize("labelled", [True, False])
def test_what_no_label_checks_is_said(figures: list[Figure], *, labelled: bool) -> None:
    draw_similarities(measured() if labelled else replace(measured(), same_class=None, other_class=None, truth=None))
    said = " ".join(text.get_text() for text in words(figures[0]))
    assert "Taken for hidden positives" in said
    assert ("there are no labels to check it by" in said) != labelled
