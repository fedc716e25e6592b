"""What every figure of pucl has: a white sheet, a title, panels with no more ink than they need, and PNG bytes.

Figures are drawn with matplotlib, which is imported only when one is asked for.
"""

import io
from typing import TYPE_CHECKING

from pucl.reports.palette import GRID, INK, MUTED
from pucl.texts import install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PERCENT = (0.0, 100.0)
"""What an accuracy can be; its axis goes no further."""


class MatplotlibMissingError(ValueError):
    """A figure was asked for where nothing can draw it."""

    def __init__(self) -> None:
        super().__init__(f"figures are drawn with matplotlib, which is not installed: {install('plot')}")


def new_figure(width: float, height: float) -> "Figure":
    """An empty sheet of so many inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MatplotlibMissingError from error
    figure = Figure(figsize=(width, height), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def put_head(figure: "Figure", place: tuple[float, float], title: str, *more: str) -> None:
    """A title, and below it what else there is to say, at this left edge of a figure of this height in inches."""
    left, height = place
    figure.text(left, 1 - 0.42 / height, title, fontsize=17, color=INK, weight="bold")
    figure.text(left, 1 - 0.72 / height, "; ".join(filter(None, more)), fontsize=11, color=MUTED)


def dress(axes: "Axes", title: str, meaning: str) -> None:
    """Title, what it tells, and no more ink than that."""
    for text, above, size, colour in ((title, 21 if meaning else 8, 12.5, INK), (meaning, 7, 10, MUTED)):
        axes.annotate(
            text,
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, above),
            textcoords="offset points",
            fontsize=size,
            color=colour,
        )
    axes.tick_params(labelsize=10, colors=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def as_png(figure: "Figure") -> bytes:
    """The bytes of a PNG file."""
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()
