"""A picture of embeddings in the plane: runs side by side, samples coloured by class."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pucl.diagnosis.layout2d import Layout
from pucl.evaluation import known_numbers, numbers_in
from pucl.reports.canvas import add_title, as_png, new_figure
from pucl.reports.palette import CLASSES, GRID, INK, MUTED
from pucl.texts import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "os^"
"""Markers of the first ten classes, the next ten, and so on: the same as on the page's map."""

COLUMNS = 3
SIDE = 4.3  # Of a panel, in inches.
DOTS = 24000.0  # Area of all dots of a panel together, in square points.
MOST_NAMED = 30  # Classes that the legend names; with more there is no legend.
LONGEST_NAME = 14
LEGEND_COLUMNS = 3


def draw_embedding(layouts: Sequence[Layout]) -> bytes:
    """Draw a panel for each run, and return a PNG file. The axes have no scale: only neighbourhoods have a meaning."""
    if not layouts:
        raise ValueError("embeddings are drawn of runs: expected the layout of one or more, got none")
    columns = min(COLUMNS, len(layouts))
    rows = math.ceil(len(layouts) / columns)
    subjects = list(dict.fromkeys(layout.config.subject for layout in layouts))
    same_subject = len(subjects) == 1
    named = [layout.classes for layout in layouts if layout.labels is not None and len(layout.classes) <= MOST_NAMED]
    legend = 0.23 * math.ceil(max(map(len, named), default=0) / LEGEND_COLUMNS)
    figure = new_figure(
        max(6.4, columns * SIDE + 0.5),
        rows * (SIDE + 0.4) + legend,
        "Embeddings in the plane, by UMAP",
        subjects[0] if same_subject else "",
        "near points are near neighbours",
        panels=len(layouts),
        columns=columns,
    )
    for axes, layout in zip(figure.axes, layouts, strict=True):
        _draw_layout(axes, layout, "" if same_subject else f"{layout.config.subject}: ")
        if layout.classes in named:  # One legend for all runs with the same classes.
            _add_legend(axes, layout.classes)
            named = [classes for classes in named if classes != layout.classes]
    return as_png(figure)


def _draw_layout(axes: "Axes", layout: Layout, prefix: str) -> None:
    count = len(layout.points)
    labels = np.zeros(count, np.int64) if layout.labels is None else layout.labels
    for label in np.unique(labels):
        across, up = layout.points[labels == label].T
        colour, marker = (MUTED, "o") if layout.labels is None else _mark(int(label))
        size = min(20.0, DOTS / count)
        axes.scatter(across, up, s=size, color=colour, marker=marker, alpha=0.7, linewidths=0)
    meaning = f"{count:,} {layout.part}"
    if layout.labels is None:
        meaning += ", classes unknown"
    elif len(layout.classes) > MOST_NAMED:
        meaning += f" of {len(layout.classes)} classes"
    for leading in numbers_in([layout.result])[:1]:
        meaning += f"; {known_numbers()[leading].short} {layout.result[leading]:.1%}"
    add_title(axes, prefix + layout.config.short_name, meaning)
    axes.set(xticks=[], yticks=[], box_aspect=1, anchor="N")
    axes.margins(0.03)
    axes.spines[:].set(visible=True, color=GRID)


def _mark(label: int) -> tuple[str, str]:
    """Colour and marker of a class."""
    return CLASSES[label % len(CLASSES)], MARKERS[label // len(CLASSES) % len(MARKERS)]


def _add_legend(axes: "Axes", names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    marks = [_mark(label) for label in range(len(names))]
    axes.legend(
        [Line2D([], [], marker=marker, linestyle="", markersize=6, color=colour) for colour, marker in marks],
        [shortened(name, LONGEST_NAME) for name in names],
        loc="upper left",
        bbox_to_anchor=(-0.03, 0),
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handletextpad=0.1,
        columnspacing=0.8,
    )
