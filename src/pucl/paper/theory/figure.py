"""The figure of the theory: the bias of each loss, and the bound of Theorem 1."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pucl.paper.theory.sweeps import LossRow, TheoryResult
from pucl.reports.canvas import add_title, as_png, new_figure
from pucl.reports.palette import COLOURS, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALPHA = "\N{GREEK SMALL LETTER ALPHA}"
ERRORS_SHOWN = 2.0  # Error bars reach this many standard errors to each side.


def draw_theory(result: TheoryResult) -> bytes:
    """Draw the bias of each loss over N, alpha and c. Return a PNG file.

    The first panel has logarithmic axes and absolute values, so that it can show the bound too. The other panels show
    the bias with its sign.
    """
    settings, base = result.settings, result.base
    figure = new_figure(
        13.5,
        4.9,
        "Bias of each loss: its distance from the ideal loss",
        f"{settings.classes} classes on a sphere, concentration {settings.concentration:g}, temperature "
        f"{settings.temperature:g}",
        f"means over {settings.trials:,} anchors, bars are two standard errors",
        panels=3,
        columns=3,
    )
    over_unlabelled, over_alpha, over_c = figure.axes
    counts = [row.unlabelled for row in result.over_unlabelled]
    bounds = [row.bound for row in result.over_unlabelled]
    over_unlabelled.set(xscale="log", yscale="log")
    _draw(over_unlabelled, settings.positives, counts, result.over_unlabelled, absolute=True)
    over_unlabelled.plot(counts, bounds, color=MUTED, linestyle="--", linewidth=1.6, label="bound of Theorem 1")
    over_unlabelled.minorticks_off()
    over_unlabelled.set_xticks(counts, [f"{count}" for count in counts])
    add_title(over_unlabelled, "More unlabelled samples", f"{ALPHA} = {base.alpha:g}, c = {base.c:g}")
    over_unlabelled.set(xlabel="N, unlabelled samples per anchor", ylabel="size of the bias, log scale")
    _draw(over_alpha, settings.positives, [row.alpha for row in result.over_alpha], result.over_alpha)
    add_title(over_alpha, "More positives in the data", f"N = {base.unlabelled}, c = {base.c:g}")
    over_alpha.set(xlabel=f"{ALPHA}, share of positives in the data", ylabel="bias: loss minus ideal loss")
    _draw(over_c, settings.positives, [row.c for row in result.over_c], result.over_c)
    add_title(over_c, "More of the positives labelled", f"N = {base.unlabelled}, {ALPHA} = {base.alpha:g}")
    over_c.set(xlabel="c, share of positives that are labelled", ylabel="bias: loss minus ideal loss")
    handles, labels = over_unlabelled.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=11, columnspacing=2.4
    )
    return as_png(figure)


def _draw(
    axes: "Axes", positives: int, across: Sequence[float], rows: Sequence[LossRow], *, absolute: bool = False
) -> None:
    """Draw a line for each loss, with error bars. The markers distinguish the losses without colours."""
    if not absolute:
        axes.axhline(0, color=MUTED, linewidth=0.8)
    for label, losses, colour, marker, style in (
        ("standard", [row.standard for row in rows], COLOURS["plain"], "o", "-"),
        ("corrected, 1 positive", [row.corrected_one for row in rows], COLOURS["pucl"], "s", "-"),
        (f"corrected, {positives} positives", [row.corrected_several for row in rows], COLOURS["deb"], "^", "-"),
        ("corrected, exact mean", [row.exact for row in rows], INK, "D", ":"),
    ):
        values = [loss.bias.value for loss in losses]
        if absolute:  # Zero has no logarithm: such a point is left out.
            values = [abs(value) or math.nan for value in values]
        axes.errorbar(
            across,
            values,
            yerr=[ERRORS_SHOWN * loss.bias.error for loss in losses],
            label=label,
            color=colour,
            marker=marker,
            linestyle=style,
            markersize=5,
            linewidth=1.6,
            elinewidth=1,
            capsize=2.5,
        )
