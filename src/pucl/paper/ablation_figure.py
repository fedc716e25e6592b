"""Figures of the ablations: scores over the prior, the label frequency, and the number of unlabelled samples."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pucl.config import ORACLE, PLAIN, RunConfig
from pucl.evaluation import known_numbers
from pucl.paper.ablations import YARDSTICK, alpha_and_c, lines_over_unlabelled
from pucl.reports.canvas import add_title, as_png, new_figure
from pucl.reports.palette import CLASSES, MUTED
from pucl.reports.scores import PERCENT
from pucl.runs.rows import TableRow, numbers_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P")


def draw_alpha_c(rows: Sequence[TableRow], configs: Mapping[str, RunConfig], *, subject: str = "") -> bytes:
    """Draw the score over alpha, a line for each c, and over tau', where all form one curve. Return a PNG file.

    Args:
        rows: The rows of the ablation.
        configs: Configurations by the name of their row.
        subject: Framework and data, for the subtitle.
    """
    probe = numbers_of(rows, YARDSTICK)[0]
    by_name = {row.name: row for row in rows}
    cells = {name: cell for name, cell in alpha_and_c(configs).items() if name in by_name}
    figure = new_figure(12.5, 4.4, "Prior and label frequency", subject, _caption(rows), panels=2, columns=2)
    over_alpha, over_tau = figure.axes
    over_tau.sharey(over_alpha)
    over_tau.tick_params(labelleft=False)
    for number, c in enumerate(sorted({c for _, c in cells.values()})):
        chosen = [(alpha, by_name[name]) for name, (alpha, its_c) in cells.items() if its_c == c]
        _draw_series(over_alpha, chosen, probe, number, f"c = {c:g}")
        _draw_series(over_tau, [(row.tau_plus or 0.0, row) for _, row in chosen], probe, number, f"c = {c:g}")
    for name in (name for name in (PLAIN, ORACLE) if name in by_name):
        for axes in figure.axes:
            mean = by_name[name].scores[probe].mean
            axes.axhline(mean, color=MUTED, linestyle=":", linewidth=1.2)
            axes.text(1, mean, f" {name}", transform=axes.get_yaxis_transform(), ha="left", va="center", color=MUTED)
    _label_scores(over_alpha, probe)
    add_title(over_alpha, "Over alpha", "a line for each label frequency c")
    add_title(over_tau, "Over tau'", "the loss depends on tau' alone: the grid is one curve")
    over_alpha.set_xlabel("alpha")
    over_tau.set_xlabel("tau' = alpha (1 - c) / (1 - alpha c)")
    over_alpha.legend(frameon=False)
    return as_png(figure)


def draw_unlabelled(rows: Sequence[TableRow], configs: Mapping[str, RunConfig], *, subject: str = "") -> bytes:
    """Draw the score over the number of unlabelled samples: plain, the oracle, and each alpha. Return a PNG file.

    Args:
        rows: The rows of the ablation.
        configs: Configurations by the name of their row.
        subject: Framework and data, for the subtitle.
    """
    probe = numbers_of(rows, YARDSTICK)[0]
    figure = new_figure(9.6, 4.4, "Number of unlabelled samples", subject, _caption(rows))
    (axes,) = figure.axes
    points = lines_over_unlabelled(configs)
    lines: dict[str, list[tuple[float, TableRow]]] = {}
    for row in rows:
        count, line = points[row.name]
        lines.setdefault(line, []).append((count, row))
    for number, (line, found) in enumerate(lines.items()):
        _draw_series(axes, found, probe, number, line)
    _label_scores(axes, probe)
    counts = sorted({count for count, _ in points.values()})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("N, unlabelled samples per anchor")
    figure.legend(frameon=False, fontsize=10, ncols=7, loc="outside lower left", columnspacing=1.0, handlelength=1.6)
    return as_png(figure)


def _draw_series(axes: "Axes", points: Sequence[tuple[float, TableRow]], probe: str, number: int, label: str) -> None:
    """Draw the means of rows at their positions, joined by a line, each with its interval."""
    points = sorted(points, key=lambda point: point[0])
    spreads = [row.scores[probe] for _, row in points]
    # The interval of two seeds is nine times their deviation, and would hide everything.
    margins = [spread.margin if spread.margin and spread.count > 2 else spread.deviation for spread in spreads]
    axes.errorbar(
        [position for position, _ in points],
        [spread.mean for spread in spreads],
        margins if any(spread.count > 1 for spread in spreads) else None,
        color=CLASSES[number % len(CLASSES)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=6,
        linewidth=1.8,
        elinewidth=1.0,
        capsize=3,
        label=label,
    )


def _label_scores(axes: "Axes", probe: str) -> None:
    """Name the axis of scores, and end it at 0 and 100 %."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, PERCENT[0]), min(high, PERCENT[1]))
    axes.set_ylabel(f"{known_numbers()[probe].name}, %")


def _caption(rows: Sequence[TableRow]) -> str:
    seeds = max(row.count for row in rows)
    if seeds == 1:
        return "one seed"
    bars = "95 % intervals of the mean" if seeds > 2 else "the standard deviation"
    return f"means over {seeds} seeds, bars are {bars}"
