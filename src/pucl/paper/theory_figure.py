"""How far each loss is from the ideal one, drawn."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pucl.paper.theory import Estimate, Row, TheoryResult
from pucl.reports.canvas import as_png, dress, new_figure, put_head
from pucl.reports.palette import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALPHA = "\N{GREEK SMALL LETTER ALPHA}"
HEIGHT = 5.8  # Inches.
ERRORS_SHOWN = 2.0  # Error bars reach this many standard errors to each side.


@dataclass(frozen=True)
class Line:
    """How the bias of one loss looks, in every panel the same."""

    label: str
    colour: str
    marker: str
    style: str
    bias: Callable[[Row], Estimate]


def draw_theory(result: TheoryResult) -> bytes:
    """The bias of every loss against N, alpha and c, as the bytes of a PNG file.

    The first panel has logarithmic axes and absolute values, so that the bound and what it bounds fit into one
    picture; the others show the bias with its sign.

    Raises:
        MatplotlibMissingError: If matplotlib is not installed.
    """
    settings, base = result.settings, result.base
    # Colours that colour-blind readers tell apart; the markers do it without colour.
    lines = [
        Line("standard", "#D55E00", "o", "-", lambda row: row.standard.bias),
        Line("corrected, 1 positive", "#0072B2", "s", "-", lambda row: row.corrected_one.bias),
        Line(f"corrected, {settings.positives} positives", "#009E73", "^", "-", lambda row: row.corrected_several.bias),
        Line("corrected, exact mean", INK, "D", ":", lambda row: row.exact.bias),
    ]
    figure = new_figure(13.5, HEIGHT)
    over_unlabelled, over_alpha, over_c = figure.subplots(1, 3, width_ratios=(1.1, 1, 1))
    figure.subplots_adjust(left=0.065, right=0.985, top=0.745, bottom=0.205, wspace=0.25)

    counts = [row.unlabelled for row in result.over_unlabelled]
    bounds = [row.bound for row in result.over_unlabelled]
    over_unlabelled.set(xscale="log", yscale="log")
    _draw(over_unlabelled, lines, counts, result.over_unlabelled, absolute=True)
    over_unlabelled.plot(counts, bounds, color=MUTED, linestyle="--", linewidth=1.6, label="its bound by Theorem 1")
    over_unlabelled.minorticks_off()
    over_unlabelled.set_xticks(counts, [f"{count}" for count in counts])
    over_unlabelled.yaxis.set_major_formatter(_power_of_ten)
    _dress(
        over_unlabelled,
        title="More unlabelled samples",
        fixed=f"{ALPHA} = {base.alpha:g}, c = {base.c:g}",
        across="N, unlabelled samples per anchor",
        up="size of the bias, log scale",
    )
    _draw(over_alpha, lines, [row.alpha for row in result.over_alpha], result.over_alpha)
    _dress(
        over_alpha,
        title="More positives in the data",
        fixed=f"N = {base.unlabelled}, c = {base.c:g}",
        across=f"{ALPHA}, share of positives in the data",
        up="bias: loss minus ideal loss",
    )
    _draw(over_c, lines, [row.c for row in result.over_c], result.over_c)
    _dress(
        over_c,
        title="More of the positives labelled",
        fixed=f"N = {base.unlabelled}, {ALPHA} = {base.alpha:g}",
        across="c, share of the positives that is labelled",
        up="bias: loss minus ideal loss",
    )

    handles, labels = over_unlabelled.get_legend_handles_labels()
    handles, labels = handles[1:] + handles[:1], labels[1:] + labels[:1]  # matplotlib has the bound first.
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=11, columnspacing=2.4)
    put_head(
        figure,
        (0.065, HEIGHT),
        "How far each loss is from the ideal loss",
        f"{settings.classes} classes on a sphere, concentration {settings.concentration:g}, temperature "
        f"{settings.temperature:g}",
        f"mean over {settings.trials:,} anchors, bars are two standard errors",
    )
    return as_png(figure)


def _draw(
    axes: "Axes", lines: list[Line], places: Sequence[float], rows: Sequence[Row], absolute: bool = False
) -> None:
    """One line for every loss, with error bars."""
    if not absolute:
        axes.axhline(0, color=MUTED, linewidth=0.8)
    for line in lines:
        biases = [line.bias(row) for row in rows]
        values = [bias.value for bias in biases]
        if absolute:  # A logarithm has no place for zero: such a point is left out.
            values = [abs(value) or math.nan for value in values]
        axes.errorbar(
            places,
            values,
            yerr=[ERRORS_SHOWN * bias.error for bias in biases],
            label=line.label,
            color=line.colour,
            marker=line.marker,
            linestyle=line.style,
            markersize=5,
            linewidth=1.6,
            elinewidth=1,
            capsize=2.5,
        )


def _power_of_ten(value: float, _: int | None = None) -> str:
    """A tick of a logarithmic axis, written out as long as it is short."""
    return f"{value:g}" if 1e-4 <= value < 1e4 else f"$10^{{{round(math.log10(value))}}}$"


def _dress(axes: "Axes", *, title: str, fixed: str, across: str, up: str) -> None:
    """Titles, what stays fixed, and labels."""
    dress(axes, title, fixed)
    axes.set_xlabel(across, fontsize=11, color=INK)
    axes.set_ylabel(up, fontsize=11, color=INK)
