"""Scores of a comparison, as a PNG file and as drawings for the page. Both are made of the same panels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pucl.config import NOT_TRAINED
from pucl.evaluation import known_numbers
from pucl.reports.canvas import add_title, as_png, as_svg, colours_of, new_figure
from pucl.reports.palette import INK, MUTED
from pucl.runs.rows import TableRow, leading_numbers
from pucl.runs.statistics import Spread
from pucl.runs.tables import BASE
from pucl.texts import capitalised, fixed, shortened, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PERCENT = (0.0, 100.0)
"""The range of a score in percent."""

MOST_NUMBERS = 3  # Probes in the PNG file; the page has all.
LONGEST_NAME = 24  # Characters of a row's name in a chart.


def draw_scores(rows: Sequence[TableRow], *, subject: str = "", base: str = BASE, yardstick: str = "") -> bytes:
    """Draw the scores of each row, and their differences to the base. Return a PNG file.

    A small dot is a seed, a large dot the mean. Lines are 95 % intervals by Student's t. The interval of a difference
    is narrower than that of a mean if seeds go up and down together.

    Args:
        rows: Of a comparison.
        subject: Framework and data, for the subtitle.
        base: Name of the row that differences are taken to.
        yardstick: The number that comes first, if the rows have it.
    """
    numbers = leading_numbers(rows, yardstick)[:MOST_NUMBERS]
    panels = [panel for number in numbers for panel in score_panels(rows, number, base)]
    if not panels:
        raise ValueError("scores are drawn of a comparison: expected one row or more, got none")
    seeds = max(row.count for row in rows)
    dots = "one seed" if seeds == 1 else "large dots are means with 95 % intervals, small dots are seeds"
    columns = 2 if len(panels) > 1 else 1
    width = 6.2 * columns + 0.5
    height = math.ceil(len(panels) / columns) * (0.95 + 0.38 * max(len(panel.dots) for panel in panels))
    title = "Evaluation of frozen features"
    figure = new_figure(width, height, title, subject, dots, panels=len(panels), columns=columns)
    colours = colours_of([row.correction for row in rows])
    for axes, panel in zip(figure.axes, panels, strict=True):
        draw_dots(axes, panel, colours)
        add_title(axes, panel.title, panel.meaning)
    return as_png(figure)


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One row in a panel of scores or of differences."""

    row: int  # Its index.
    name: str
    trained: bool
    mean: float
    interval: tuple[float, float]  # Of 95 %; both ends are the mean if it is unknown.
    seeds: tuple[float, ...]  # The values of single seeds.
    text: str  # The mean in digits.


@dataclass(frozen=True, kw_only=True)
class DotPanel:
    """A panel of scores or of differences."""

    title: str
    meaning: str
    dots: tuple[Dot, ...]
    reference: float | None  # Where a vertical line is drawn, such as the mean of the base.
    bounds: tuple[float, float]  # The range of possible values.


def score_panels(rows: Sequence[TableRow], number: str, base: str) -> list[DotPanel]:
    """The scores by one number of a probe, and the differences to the base if they have intervals."""
    scores, differences = [], []
    for index, row in enumerate(rows):
        seeds = tuple(value for value in row.by_seed.get(number, ()) if math.isfinite(value))
        about: dict[str, Any] = {"row": index, "name": row.name, "trained": row.correction not in NOT_TRAINED}
        if seeds:
            spread = Spread.of(list(seeds))
            interval = spread.interval(min(PERCENT[0], *seeds), PERCENT[1]) or (spread.mean, spread.mean)
            scores.append(Dot(mean=spread.mean, interval=interval, seeds=seeds, text=fixed(spread.mean), **about))
        found = row.differences.get(number)
        if found is not None and found.low is not None and found.high is not None:
            interval = (found.low, found.high)
            differences.append(Dot(mean=found.mean, interval=interval, seeds=(), text=signed_text(found.mean), **about))
    panels = []
    if scores:
        several = any(len(dot.seeds) > 1 for dot in scores)
        panels.append(
            DotPanel(
                title=f"{capitalised(known_numbers()[number].name)}, %",
                meaning="mean, its 95 % interval, and the seeds" if several else "one seed each",
                dots=tuple(scores),
                reference=next((dot.mean for dot in scores if dot.name == base), None),
                bounds=(min([PERCENT[0], *(dot.mean for dot in scores)]), PERCENT[1]),
            )
        )
    if differences:
        panels.append(
            DotPanel(
                title=f"Difference to {base}, percentage points",
                meaning="paired by seed, with its 95 % interval",
                dots=tuple(differences),
                reference=0.0,
                bounds=(-PERCENT[1], PERCENT[1]),
            )
        )
    return panels


def draw_dots(axes: "Axes", panel: DotPanel, colours: Sequence[str]) -> None:
    """Draw each row: its seeds, the mean, its interval, and the mean in digits."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    low, high = dot_limits(panel)
    if panel.reference is not None:
        axes.axvline(panel.reference, color=MUTED, linewidth=1, linestyle=":", zorder=1)
    for height, dot in enumerate(panel.dots):
        mark: dict[str, Any] = {"color": colours[dot.row], "clip_on": False}
        axes.plot(np.clip(dot.interval, low, high), [height] * 2, linewidth=1.8, **mark)
        inside = [seed for seed in dot.seeds if low <= seed <= high]
        if len(dot.seeds) > 1 and inside:
            axes.plot(inside, [height + 0.27] * len(inside), "o", markersize=3.2, alpha=0.65, **mark)
        if dot.interval[0] < low:
            axes.plot(low, height, "<", markersize=5.5, **mark)
        if dot.interval[1] > high:
            axes.plot(high, height, ">", markersize=5.5, **mark)
        if low <= dot.mean <= high:
            axes.plot(dot.mean, height, "o", markersize=7, **mark)
        axes.annotate(
            dot.text, (1, height), (9, 0), axes.get_yaxis_transform(), "offset points", color=INK, va="center"
        )
    axes.set_xlim(low, high)
    axes.set_ylim(len(panel.dots) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    axes.set_yticks(range(len(panel.dots)), [shortened(dot.name, LONGEST_NAME) for dot in panel.dots])
    axes.tick_params(axis="y", pad=9)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def dot_limits(panel: DotPanel) -> tuple[float, float]:
    """The range of the axis: all trained rows, and others if they are near."""
    trained = [dot for dot in panel.dots if dot.trained]
    kept = trained if len(trained) > 1 else panel.dots
    values = [value for dot in kept for value in (dot.mean, *dot.seeds)]
    if panel.reference is not None:
        values.append(panel.reference)
    low, high = min(values), max(values)
    # The interval of two seeds can be very wide. It ends in an arrow instead of hiding the differences.
    reach = 2 * max(high - low, 0.5)
    ends = [end for dot in kept for end in dot.interval]
    low, high = max(low - reach, min(low, *ends)), min(high + reach, max(high, *ends))
    everything = [value for dot in panel.dots for value in (dot.mean, *dot.seeds)]
    span = high - low
    if low - min(everything) < span:
        low = min(low, *everything)
    if max(everything) - high < span:
        high = max(high, *everything)
    slack = max(0.08 * (high - low), 0.2)
    low, high = max(low - slack, panel.bounds[0]), min(high + slack, panel.bounds[1])
    # Scores that are not far from the best possible one are drawn up to it: how much is missing is then in sight.
    return low, panel.bounds[1] if panel.bounds[1] - high < span else high


def page_scores(rows: Sequence[TableRow], base: str, yardstick: str, key: str) -> dict[str, list[dict[str, str]]]:
    """The panels of scores for the page, by the leading numbers of the probes: title, meaning and ``svg``.

    The arguments are those of `draw_scores`, and a key that is unique for the group of runs.
    """
    colours = colours_of([row.correction for row in rows], on_page=True)
    drawn: dict[str, list[dict[str, str]]] = {}
    for number in leading_numbers(rows, yardstick):
        drawn[number] = []
        for panel in score_panels(rows, number, base):
            figure = new_figure(4.7, 0.35 + 0.34 * len(panel.dots))
            draw_dots(figure.axes[0], panel, colours)
            label = f"{panel.title}: {', '.join(f'{dot.name} {dot.text}' for dot in panel.dots)}"
            svg = as_svg(figure, label, f"{key}-{number}-{len(drawn[number])}")
            drawn[number].append({"title": panel.title, "meaning": panel.meaning, "svg": svg})
    return drawn


def signed_text(value: float) -> str:
    """A difference with its sign.

    Example:
        >>> signed_text(1.234), signed_text(-0.5)
        ('+1.23', '−0.50')
    """
    return signed(value).replace("-", "\N{MINUS SIGN}")
