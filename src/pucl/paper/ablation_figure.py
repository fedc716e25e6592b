"""Pictures of the ablations: accuracy over the prior, the label frequency, and the number of unlabelled samples."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pucl.paper.ablations import Cell
from pucl.reports.canvas import PERCENT, as_png, dress, new_figure, put_head
from pucl.reports.palette import INK, MUTED
from pucl.runs.lines import PROBES, Line, probes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Those of Okabe and Ito.
MARKERS = ("o", "s", "^", "D", "v", "P")


def draw_alpha_c(lines: Sequence[Line], cells: Mapping[str, Cell], *, subject: str = "") -> bytes:
    """Accuracy over alpha, a line for each c; and over tau', where all of them are one curve. The bytes of a PNG file.

    Args:
        lines: The rows of the ablation.
        cells: By row, (alpha, c).
        subject: What was trained, for the second line of the title.
    """
    probe = probes_of(lines)[0]
    by_name = {line.name: line for line in lines}
    figure = new_figure(12.5, 5.2)
    over_alpha, over_tau = figure.subplots(1, 2, sharey=True)
    figure.subplots_adjust(left=0.075, right=0.97, top=0.73, bottom=0.13, wspace=0.12)
    for number, c in enumerate(sorted({c for _, c in cells.values()})):
        chosen = sorted((alpha, name) for name, (alpha, of) in cells.items() if of == c)
        _draw_series(
            over_alpha,
            [alpha for alpha, _ in chosen],
            [by_name[name] for _, name in chosen],
            probe,
            number,
            f"c = {c:g}",
        )
        places = [by_name[name].tau_plus or 0.0 for _, name in chosen]
        _draw_series(over_tau, places, [by_name[name] for _, name in chosen], probe, number, f"c = {c:g}")
    for axes in (over_alpha, over_tau):
        _draw_level(axes, by_name, probe)
    _end_at_100(over_alpha)  # Both panels share the axis.
    dress(over_alpha, "Over alpha", "a line for each label frequency c")
    dress(over_tau, "Over tau'", "all that reaches the loss: the grid is one curve")
    over_alpha.set_xlabel("alpha", fontsize=11, color=INK)
    over_tau.set_xlabel("tau' = alpha (1 - c) / (1 - alpha c)", fontsize=11, color=INK)
    over_alpha.set_ylabel(f"{PROBES[probe]}, %", fontsize=11, color=INK)
    over_alpha.legend(frameon=False, fontsize=10)
    put_head(figure, (0.075, 5.2), "Prior and label frequency", subject, _what(lines))
    return as_png(figure)


def draw_unlabelled(lines: Sequence[Line], cells: Mapping[str, Cell], *, subject: str = "") -> bytes:
    """Accuracy over the number of unlabelled samples, a line for each alpha. The bytes of a PNG file.

    Args:
        lines: The rows of the ablation.
        cells: By row, (N, alpha); alpha 0 is plain.
        subject: What was trained, for the second line of the title.
    """
    probe = probes_of(lines)[0]
    by_name = {line.name: line for line in lines}
    figure = new_figure(9.6, 5.2)
    axes = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.97, top=0.76, bottom=0.13)
    for number, alpha in enumerate(sorted({alpha for _, alpha in cells.values()})):
        chosen = sorted((count, name) for name, (count, of) in cells.items() if of == alpha)
        label = "plain" if alpha == 0 else f"alpha = {alpha:g}"
        _draw_series(axes, [count for count, _ in chosen], [by_name[name] for _, name in chosen], probe, number, label)
    _end_at_100(axes)
    counts = sorted({count for count, _ in cells.values()})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [f"{count:.0f}" for count in counts])
    axes.minorticks_off()
    dress(axes, "", "")
    axes.set_xlabel("unlabelled samples N of an anchor", fontsize=11, color=INK)
    axes.set_ylabel(f"{PROBES[probe]}, %", fontsize=11, color=INK)
    # Above the panel: inside it, lines may be anywhere.
    axes.legend(
        frameon=False,
        fontsize=10,
        ncols=6,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        columnspacing=1.0,
        handlelength=1.6,
    )
    put_head(figure, (0.1, 5.2), "How many unlabelled samples", subject, _what(lines))
    return as_png(figure)


def _draw_series(
    axes: "Axes", places: Sequence[float], lines: Sequence[Line], probe: str, number: int, label: str
) -> None:
    """Means joined by a line, each with the interval of its mean."""
    colour, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
    order = np.argsort(places)
    x = [places[place] for place in order]
    spreads = [lines[place].scores[probe] for place in order]
    # Of two seeds the interval would be nine times their deviation, and hide everything.
    margins = [spread.margin if spread.margin and spread.count > 2 else spread.deviation for spread in spreads]
    axes.errorbar(
        x,
        [spread.mean for spread in spreads],
        margins if any(spread.count > 1 for spread in spreads) else None,
        color=colour,
        marker=marker,
        markersize=6,
        linewidth=1.8,
        elinewidth=1.0,
        capsize=3,
        label=label,
    )


def _end_at_100(axes: "Axes") -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, PERCENT[0]), min(high, PERCENT[1]))


def _draw_level(axes: "Axes", by_name: Mapping[str, Line], probe: str) -> None:
    """Where plain is."""
    if "plain" in by_name:
        mean = by_name["plain"].scores[probe].mean
        axes.axhline(mean, color=MUTED, linestyle=":", linewidth=1.2)
        axes.annotate(
            "plain",
            (1, mean),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 3),
            textcoords="offset points",
            ha="right",
            fontsize=10,
            color=MUTED,
        )


def _what(lines: Sequence[Line]) -> str:
    seeds = max(line.count for line in lines)
    if seeds == 1:
        return "one seed"
    bars = "95 % intervals of the mean" if seeds > 2 else "the standard deviation"
    return f"means over {seeds} seeds, bars are {bars}"
