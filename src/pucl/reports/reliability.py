"""How good the probabilities r of a correction were when the training ended: a reliability chart for the page."""

import math
from collections.abc import Sequence

from pucl.estimation.calibration import BINS
from pucl.reports.canvas import as_svg, colours_of, new_figure
from pucl.reports.curves import History
from pucl.reports.palette import MUTED
from pucl.texts import fixed

Bin = tuple[float, float, float]
"""Mean r of the pairs in a bin, the share of them that are of one class, and their number."""


def page_reliability(
    histories: Sequence[Sequence[History]], corrections: Sequence[str], names: Sequence[str], *, key: str
) -> dict[str, str] | None:
    """The panel for the page: title, meaning and ``svg``; None if no run has a calibration.

    Args:
        histories: For each row, the metrics of each seed.
        corrections: For each row, its correction.
        names: For each row, its name.
        key: Unique for the group of runs.
    """
    rows = {
        number: bins for number, runs in enumerate(histories) if (bins := pooled([_last_curve(run) for run in runs]))
    }
    if not rows:
        return None
    colours = colours_of(corrections, on_page=True)
    figure = new_figure(4.1, 2.9)
    axes = figure.axes[0]
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)))
    for row, bins in rows.items():
        r, shares, _ = zip(*bins, strict=True)
        axes.plot(
            r, shares, color=colours[row], gid=f"row-{row}", linewidth=2.0, marker="o", markersize=4, clip_on=False
        )
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    axes.set_xlabel("r", fontsize=10, color=MUTED)
    axes.set_ylabel("share of one class", fontsize=10, color=MUTED)
    axes.spines["left"].set_visible(False)
    described = "; ".join(
        f"{names[row]}: " + ", ".join(f"{fixed(share)} at r {fixed(r)}" for r, share, _ in bins)
        for row, bins in rows.items()
    )
    return {
        "title": "Reliability of r",
        "meaning": "pairs of one class, by r, at the end; on the dashed line r is a probability",
        "svg": as_svg(figure, f"Share of pairs of one class by r. {described}", f"{key}-reliability"),
    }


def pooled(curves: Sequence[Sequence[Bin]]) -> list[Bin]:
    """The bins of several runs taken together, in rising order of r.

    Example:
        >>> pooled([[(0.05, 0.0, 100), (1.0, 0.9, 10)], [(1.0, 0.7, 30)]])
        [(0.05, 0.0, 100), (1.0, 0.75, 40)]
    """
    members: dict[int, list[Bin]] = {}
    for each in (each for curve in curves for each in curve):
        members.setdefault(min(int(each[0] * BINS), BINS - 1), []).append(each)
    found = []
    for _, bins in sorted(members.items()):
        count = sum(number for _, _, number in bins)
        means = [sum(each[which] * each[2] for each in bins) / count for which in (0, 1)]
        found.append((means[0], means[1], count))
    return found


def _last_curve(run: History) -> list[Bin]:
    """The reliability curve of the last epoch; empty if it has none."""
    rows = run[-1].get("calibration.curve", []) if run else []
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3 and _is_bin(*row)]


def _is_bin(r: float, share: float, count: float) -> bool:
    """Whether these numbers are possible: a record may have been written by anyone."""
    return 0 <= r <= 1 and 0 <= share <= 1 and 0 < count < math.inf
