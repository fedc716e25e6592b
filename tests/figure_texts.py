"""The texts of a figure, and which of them overlap."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text


def panel_texts(axes: Axes) -> list[str]:
    """The titles and annotations of a panel."""
    return [text.get_text() for text in axes.texts]


def drawn_texts(figure: Figure) -> list[Text]:
    """All texts that are drawn. Ticks outside of an axis have texts that are not."""
    texts = list(figure.texts)
    for legend in figure.legends:
        texts += [*legend.get_texts(), legend.get_title()]
    for axes in figure.axes:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label]
        if (legend_of := axes.get_legend()) is not None:
            texts += legend_of.get_texts()
        for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(ends)
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that overlap, and texts that leave the figure."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn_texts(figure)]
    found = []
    for number, (one, box) in enumerate(boxes):
        if box.x0 < 0 or box.y0 < 0 or box.x1 > figure.bbox.x1 or box.y1 > figure.bbox.y1:
            found.append((one, "the edge"))
        for other, its in boxes[number + 1 :]:
            across, up = min(box.x1, its.x1) - max(box.x0, its.x0), min(box.y1, its.y1) - max(box.y0, its.y0)
            if across > 1 and up > 0.35 * min(box.height, its.height):  # Boxes of text have room above and below.
                found.append((one, other))
    return found
