"""Create figures in one style, and save them as PNG files or as drawings inside the page.

matplotlib is imported only when a figure is drawn.
"""

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pucl.files import write_whole
from pucl.reports.palette import GRID, INK, MUTED, row_colours
from pucl.texts import install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TAU = "\N{GREEK SMALL LETTER TAU}\N{PRIME}"
MARGIN = 0.25  # To the left of the title, in inches.
HEAD = 0.95  # Height of title and subtitle, in inches.
VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid"}
"""Colours that the style sheet of the page replaces, by the name of its variable."""

UNUSED = (
    r"<metadata>.*?</metadata>",
    r"<defs>\s*<style.*?</defs>",
    r"<!--.*?-->",
    r" font-family: [^;]*;",
    r' transform="rotate\(-0 [^"]*"',
    r'<g id="\w+"/>',
    r' id="(?:\w+_\d+|matplotlib\.\w+)"',
)
"""Parts of matplotlib's SVG files that the page does without."""


STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 5,
    "ytick.major.pad": 5,
}
"""matplotlib's settings for all panels: a light grid, and no frame on the right and at the top."""


class MatplotlibMissingError(ValueError):
    """A figure was requested, but matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__(f"figures are drawn with matplotlib, which is not installed: {install('plot')}")


def new_figure(
    width: float, height: float, title: str = "", *subtitle: str, panels: int = 1, columns: int = 1
) -> "Figure":
    """A figure with empty panels, row by row. matplotlib arranges them so that no texts overlap.

    Args:
        width: In inches.
        height: In inches, without the title.
        title: Headline of the figure; without one there is no room for it.
        subtitle: Parts of the line below; empty parts are skipped.
        panels: How many panels, which are the `axes` of the figure.
        columns: How many of them side by side.

    Raises:
        MatplotlibMissingError: If matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415
    except ImportError as error:
        raise MatplotlibMissingError from error
    whole = height + HEAD if title else height
    inside = (MARGIN / width, 0.0, 1 - 2 * MARGIN / width, height / whole) if title else (0.0, 0.0, 1.0, 1.0)
    layout = ConstrainedLayoutEngine(rect=inside, w_pad=0.04, h_pad=0.06, wspace=0.05, hspace=0.1)
    with rc_context(STYLE):
        figure = Figure(figsize=(width, whole), dpi=150, facecolor="white", layout=layout)
        figure.subplots(math.ceil(panels / columns), columns, squeeze=False)
    for unused in figure.axes[panels:]:
        unused.remove()
    if title:
        figure.text(MARGIN / width, 1 - 0.42 / whole, title, fontsize=17, color=INK, weight="bold")
        words = "; ".join(filter(None, subtitle))  # May name a data set, such as a$b$c, which is no formula.
        figure.text(MARGIN / width, 1 - 0.72 / whole, words, fontsize=11, color=MUTED, parse_math=False)
    return figure


def add_title(axes: "Axes", title: str, meaning: str = "") -> None:
    """Write a panel's title above it, and what the panel means in a second line."""
    for text, above, size, colour in ((title, 21 if meaning else 8, 12.5, INK), (meaning, 7, 10, MUTED)):
        axes.annotate(
            text, (0, 1), (0, above), "axes fraction", textcoords="offset points", fontsize=size, color=colour
        )


def as_png(figure: "Figure") -> bytes:
    """The bytes of a PNG file."""
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()


def write_figures(figures: Mapping[Path, Callable[[], bytes]]) -> str:
    """Draw each figure and write it to its file. Return why there are none, or an empty text.

    Existing files are removed first: they may show other numbers.
    """
    for file in figures:
        file.unlink(missing_ok=True)
    try:
        for file, draw in figures.items():
            write_whole(file, draw())
    except MatplotlibMissingError as error:
        return f"not drawn: {error}"
    return ""


def colours_of(corrections: Sequence[str], *, on_page: bool = False) -> list[str]:
    """The colours of the rows with these corrections, which `as_svg` replaces by the variable ``--row-N`` of row N."""
    if on_page:
        return [f"#fe{number:04x}" for number in range(len(corrections))]
    return [light for light, _ in row_colours(corrections)]


def as_svg(figure: "Figure", label: str, key: str) -> str:
    """An ``svg`` element for the page, in the colours of its style sheet.

    An artist with the gid ``row-N`` becomes a group with the attribute ``data-row="N"``.

    Args:
        figure: The drawing.
        label: Its description for readers who cannot see it.
        key: Unique within the page. Identifiers inside the drawing are made from it.
    """
    from matplotlib import rc_context  # noqa: PLC0415

    content = io.StringIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": key}):
        figure.savefig(content, format="svg", transparent=True, metadata=metadata)
    inside = content.getvalue().partition("<svg")[2].partition(">")[2]
    for unused in UNUSED:
        inside = re.sub(unused, "", inside, flags=re.DOTALL)
    inside = re.sub(r'<g id="row-(\d+)">', r'<g data-row="\1">', inside)
    inside = re.sub(r'="[^"]*"', _shortened, inside)
    width, height = 72 * figure.get_size_inches()
    opening = f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">'
    return opening + re.sub(r"\s*\n\s*", "", inside)


def _shortened(attribute: re.Match[str]) -> str:
    """An attribute with numbers of one decimal place, and variables in place of colours."""
    text = re.sub(r"(\.\d)\d+", r"\1", " ".join(attribute[0].split()))
    text = re.sub(r"#fe([0-9a-f]{4})", lambda found: f"var(--row-{int(found[1], 16)})", text)
    for colour, name in VARIABLES.items():
        text = text.replace(colour, f"var(--{name})")
    return text
