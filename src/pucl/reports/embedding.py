"""A picture of embeddings in the plane: runs side by side, samples coloured by class."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pucl.diagnosis.layout2d import Layout
from pucl.reports.canvas import as_png, dress, new_figure, put_head
from pucl.reports.palette import COLOURS, INK, MUTED, OTHER
from pucl.runs.lines import SHORT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Those of the palette that stay apart as small dots, and the yellow that Okabe and Ito have besides.
CLASS_COLOURS = (
    COLOURS["pucl"],
    COLOURS["ring"],
    COLOURS["deb"],
    COLOURS["plain"],
    COLOURS["hard"],
    OTHER,
    COLOURS["raw"],
    "#F0E442",
    COLOURS["oracle"],
    COLOURS["untrained"],
)
NAMED = len(CLASS_COLOURS)  # Classes up to which each has a colour of its own and a name.
COLUMNS = 3
SIDE, GAP, EDGE, HEAD = 4.1, 0.3, 0.45, 0.75  # Of a panel, between and beside panels, and above each, in inches.
ABOVE = 0.8  # For the title of the figure.
DOT, LETTER, LINE = 0.5, 0.09, 0.22  # The room of a class in the legend: dot and gap, a letter, a line, in inches.
NARROWEST = 6.2  # Of the figure, for its title.
DOTS = 24000.0  # So much area, in square points, all dots of a panel have together.


def draw_embedding(layouts: Sequence[Layout]) -> bytes:
    """One panel for each run, as the bytes of a PNG file. Axes have no scale: only who is near whom means something.

    Args:
        layouts: Of one run or more.

    Raises:
        MatplotlibMissingError: If matplotlib is not installed.
        ValueError: If there is no layout.
    """
    if not layouts:
        raise ValueError("embeddings are drawn of runs: expected the layout of one or more, got none")
    columns = min(COLUMNS, len(layouts))
    rows = math.ceil(len(layouts) / columns)
    width = max(NARROWEST, 2 * EDGE + columns * SIDE + (columns - 1) * GAP)
    legends = _legends(layouts)
    longest = max((len(name) for _, names in legends for name in names), default=0)
    in_legend = max(1, int((width - 2 * EDGE) / (DOT + LETTER * longest)))
    heights = [LINE * (math.ceil(len(names) / in_legend) + bool(title)) + 0.15 for title, names in legends]
    below = 0.2 + sum(heights)
    height = ABOVE + rows * (SIDE + HEAD) + below
    figure = new_figure(width, height)
    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(
        left=EDGE / width,
        right=(EDGE + columns * SIDE + (columns - 1) * GAP) / width,
        top=1 - (ABOVE + HEAD) / height,
        bottom=below / height,
        wspace=GAP / SIDE,
        hspace=HEAD / SIDE,
    )
    subjects = list(dict.fromkeys(layout.subject for layout in layouts))
    for number, axes in enumerate(grid.flat):
        if number < len(layouts):
            _draw_layout(axes, layouts[number], layouts[number].subject if len(subjects) > 1 else "")
        else:
            axes.set_axis_off()
    told = subjects if len(subjects) == 1 else []
    unnamed = any(layout.labels is not None and len(layout.classes) > NAMED for layout in layouts)
    words = f"more than {NAMED} classes have colours without names" if unnamed else "near points are near neighbours"
    put_head(figure, (EDGE / width, height), "Embeddings in the plane, by UMAP", *told, words)
    top = below - 0.15
    for (title, names), tall in zip(legends, heights, strict=True):
        _draw_legend(figure, names, title, ((EDGE - 0.05) / width, top / height), in_legend)
        top -= tall
    return as_png(figure)


def _draw_layout(axes: "Axes", layout: Layout, subject: str) -> None:
    """The samples in an order that gives no class the top."""
    order = np.random.default_rng(0).permutation(len(layout.points))
    across, up = layout.points[order].T
    colours: str | NDArray[Any] = MUTED
    if layout.labels is not None and len(layout.classes) <= NAMED:
        colours = np.array(CLASS_COLOURS)[layout.labels[order]]
    elif layout.labels is not None:
        colours = _spectrum(len(layout.classes))[layout.labels[order]]
    size = min(20.0, DOTS / len(order))
    axes.scatter(across, up, s=size, c=colours, alpha=0.7, linewidths=0)
    meaning = f"{len(order):,} {layout.part if layout.part == 'graphs' else f'{layout.part} images'}"
    if layout.labels is None:
        meaning += ", classes not known"
    elif len(layout.classes) > NAMED:
        meaning += f" of {len(layout.classes)} classes"
    if layout.knn is not None:
        meaning += f"; {SHORT['knn']} {layout.knn:.1%}"
    dress(axes, ": ".join(filter(None, (subject, layout.name))), meaning)
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(0.03)
    axes.set_box_aspect(1)
    axes.spines[["left", "bottom"]].set_color("#cccccc")


def _legends(layouts: Sequence[Layout]) -> list[tuple[str, tuple[str, ...]]]:
    """The names of classes for each data set that has few enough, under what it is called."""
    found = {
        layout.classes: Path(layout.config.data).stem
        for layout in layouts
        if layout.labels is not None and len(layout.classes) <= NAMED
    }
    several = len({layout.classes for layout in layouts}) > 1
    return [(data if several else "", tuple(map(_shortened, classes))) for classes, data in found.items()]


def _draw_legend(figure: "Figure", names: Sequence[str], title: str, place: tuple[float, float], columns: int) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    dots = [
        Line2D([], [], marker="o", linestyle="", markersize=6, color=colour)
        for _, colour in zip(names, CLASS_COLOURS, strict=False)
    ]
    legend = figure.legend(
        dots,
        list(names),
        title=title,
        loc="upper left",
        bbox_to_anchor=place,
        ncols=columns,
        alignment="left",
        frameon=False,
        fontsize=10,
        labelcolor=INK,
        handletextpad=0.1,
        columnspacing=1.2,
        borderaxespad=0,
        borderpad=0,
    )
    legend.get_title().set(fontsize=10, color=MUTED)


def _shortened(name: str, most: int = 14) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _spectrum(count: int) -> NDArray[np.float64]:
    """Colours for many classes: neighbours in number are neighbours in colour."""
    from matplotlib import colormaps  # noqa: PLC0415

    colours: NDArray[np.float64] = colormaps["turbo"](np.linspace(0.03, 0.97, count))
    return colours
