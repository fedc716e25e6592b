"""Pictures of a comparison: how the trainings went, and what they came to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pucl.config import NOT_TRAINED
from pucl.reports.canvas import PERCENT, as_png, dress, new_figure, put_head
from pucl.reports.palette import INK, colour_of
from pucl.runs.compare import BASE
from pucl.runs.lines import PROBES, Line, probes_of
from pucl.runs.statistics import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

History = Sequence[Mapping[str, Any]]
"""The metrics of one run, an epoch each."""

LEFT, RIGHT = 0.055, 0.945  # Of the panels; names of lines stand to the right of them.
COLUMNS = 3
LABEL_GAP = 0.072  # Between the names of lines that end close together, in heights of a panel.
SLACK = 0.35  # By how much of the range of the dots an axis of accuracies goes on to each side.


@dataclass(frozen=True)
class Panel:
    """One quantity over epochs.

    Args:
        key: What metrics call it.
        title: What it is.
        meaning: What it tells.
        percent: Whether it is a share.
        from_zero: Whether its axis starts at zero.
    """

    key: str
    title: str
    meaning: str
    percent: bool = False
    from_zero: bool = False


TAU = "\N{GREEK SMALL LETTER TAU}\N{PRIME}"

PANELS = (
    Panel("loss", "Loss", "its size depends on the correction"),
    Panel("floored", "Anchors at the floor", "learn nothing from the unlabelled", percent=True, from_zero=True),
    Panel("tau_plus", f"{TAU}, share of hidden positives", "that the correction assumes", from_zero=True),
    Panel("positive_similarity", "Similarity to the positive", "mean cosine"),
    Panel("unlabelled_similarity", "Similarity to the unlabelled", "mean cosine; near 1 all is one"),
    Panel("knn", "Accuracy of nearest neighbours", "on frozen features, while training", percent=True),
)


def panels_of(*, cosines: bool) -> tuple[Panel, ...]:
    """What is drawn of a training; without a temperature its similarities are inner products."""
    if cosines:
        return PANELS
    return tuple(
        replace(panel, meaning="mean inner product") if panel.key.endswith("similarity") else panel for panel in PANELS
    )


def draw_curves(histories: Mapping[str, Sequence[History]], *, subject: str = "", cosines: bool = True) -> bytes:
    """Metrics over epochs, as the bytes of a PNG file: a thin line for each seed, a thick one for their mean.

    Quantities that no run has are left out, as are rows without a history (the untrained encoder).

    Args:
        histories: By correction, the metrics of each seed.
        subject: What was trained, for the second line of the title.
        cosines: Whether similarities are such; see `panels_of`.

    Raises:
        MatplotlibMissingError: If matplotlib is not installed.
        ValueError: If no run has a history.
    """
    drawn = {name: [run for run in runs if run] for name, runs in histories.items()}
    drawn = {name: runs for name, runs in drawn.items() if runs}
    if not drawn:
        raise ValueError("curves are drawn of trainings: expected the metrics of one epoch or more, got none")
    every = panels_of(cosines=cosines)
    panels = [panel for panel in every if any(_points(run, panel.key) for runs in drawn.values() for run in runs)]
    rows = math.ceil(len(panels) / COLUMNS)
    height = 1.15 + 3.05 * rows
    figure = new_figure(13.5, height)
    grid = figure.subplots(rows, COLUMNS, squeeze=False)
    figure.subplots_adjust(left=LEFT, right=RIGHT, top=1 - 1.5 / height, bottom=0.6 / height, wspace=0.42, hspace=0.62)
    last = max(line["epoch"] for runs in drawn.values() for run in runs for line in run)
    for number, axes in enumerate(grid.flat):
        if number >= len(panels):
            axes.set_axis_off()
            continue
        _draw_panel(axes, panels[number], drawn, last, across=number + COLUMNS >= len(panels))
    seeds = max(map(len, drawn.values()))
    lines = "" if seeds == 1 else f"thick lines are means over {seeds} seeds, thin ones the seeds"
    put_head(figure, (LEFT, height), "How the trainings went", subject, lines)
    return as_png(figure)


CLASSIFIERS = 2  # That are drawn: the main one, and the next.


def draw_accuracies(lines: Sequence[Line], *, subject: str = "") -> bytes:
    """What each correction came to, as the bytes of a PNG file: a dot for each seed, the mean, and its interval.

    The interval is that of the mean, at 95 % by Student's t. It is wider than that of the paired differences in the
    table wherever seeds go up and down together.

    Args:
        lines: The rows of a comparison.
        subject: What was trained, for the second line of the title.

    Raises:
        MatplotlibMissingError: If matplotlib is not installed.
        ValueError: If there are no rows.
    """
    lines = [line for line in lines if line.scores]
    if not lines:
        raise ValueError("accuracies are drawn of a comparison: expected one row or more, got none")
    height = 1.75 + 0.42 * len(lines)
    figure = new_figure(11.5, height)
    probes = probes_of(lines)[:CLASSIFIERS]
    panels = figure.subplots(1, len(probes), sharey=True, squeeze=False)[0]
    left = 0.015 + 0.0085 * max(len(line.name) for line in lines)
    figure.subplots_adjust(left=left, right=0.89, top=1 - 1.18 / height, bottom=0.52 / height, wspace=0.36)
    for axes, probe in zip(panels, probes, strict=True):
        _draw_dots(
            axes, PROBES[probe], [(line.correction, line.by_seed[probe]) for line in lines if probe in line.by_seed]
        )
    panels[0].set_yticks(range(len(lines)), [line.name for line in lines], fontsize=11)
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    for label, line in zip(panels[0].get_yticklabels(), lines, strict=True):
        label.set_color(colour_of(line.correction))
    seeds = max(line.count for line in lines)
    dots = "one seed" if seeds == 1 else "large dots are means with their 95 % intervals, small ones are seeds"
    put_head(figure, (left, height), "Accuracy on frozen features", subject, dots)
    return as_png(figure)


def _draw_panel(axes: "Axes", panel: Panel, drawn: Mapping[str, Sequence[History]], last: int, *, across: bool) -> None:
    """One quantity of all runs, and the name of each correction where its line ends."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter  # noqa: PLC0415

    ends: list[tuple[str, float]] = []
    for name, runs in drawn.items():
        colour = colour_of(name)
        curves = [points for run in runs if (points := _points(run, panel.key))]
        if not curves:
            continue
        if len(curves) > 1:
            for points in curves:
                axes.plot(list(points), list(points.values()), color=colour, linewidth=0.8, alpha=0.45)
        mean = _mean(curves)
        axes.plot(
            list(mean),
            list(mean.values()),
            color=colour,
            linewidth=2.0,
            marker="o" if len(mean) == 1 else "",
            clip_on=len(mean) > 1 and not panel.percent,  # A line at 100 % lies on the edge, and is whole.
        )
        ends.append((name, mean[max(mean)]))
    axes.set_xlim(min(1, last - 1), last)
    low, high = axes.get_ylim()
    if panel.from_zero:
        top = max(high, 0.05)
        axes.set_ylim(-0.03 * top, min(top, 1.0) if panel.percent else top)  # A line at zero is above the axis.
    elif panel.percent:
        axes.set_ylim(max(low, 0.0), min(high, 1.0))
    elif high - low < 1e-6:
        axes.set_ylim(low - 0.5, high + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    if panel.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    _name_ends(axes, ends)
    dress(axes, panel.title, panel.meaning)
    if across:
        axes.set_xlabel("epoch", fontsize=10.5, color=INK)


def _name_ends(axes: "Axes", ends: Sequence[tuple[str, float]]) -> None:
    """Names to the right of where lines end, moved apart where they would meet, each led to its line."""
    low, high = axes.get_ylim()
    wanted = sorted(((value - low) / (high - low), name) for name, value in ends)
    for (place, name), at in zip(wanted, spread([place for place, _ in wanted]), strict=True):
        axes.plot(
            [1.0, 1.03], [place, at], transform=axes.transAxes, color=colour_of(name), linewidth=0.8, clip_on=False
        )
        axes.text(1.038, at, name, transform=axes.transAxes, color=colour_of(name), fontsize=9.5, va="center")


def spread(places: Sequence[float], gap: float = LABEL_GAP) -> list[float]:
    """Places, in rising order, moved as little as need be until no two are closer than the gap, and none is below 0.

    Those that meet become a block around their middle; blocks that meet become one.

    Example:
        >>> [round(place, 3) for place in spread([0.0, 0.5, 0.5], gap=0.1)]
        [0.0, 0.45, 0.55]
    """

    def bottom(block: list[float]) -> float:
        return max(0.0, sum(block) / len(block) - gap * (len(block) - 1) / 2)

    blocks: list[list[float]] = []
    for place in places:
        blocks.append([place])
        while len(blocks) > 1 and bottom(blocks[-2]) + gap * len(blocks[-2]) > bottom(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return [bottom(block) + gap * number for block in blocks for number in range(len(block))]


def _draw_dots(axes: "Axes", title: str, rows: Sequence[tuple[str, Sequence[float]]]) -> None:
    """A row for each correction: its seeds, their mean, the mean's interval, and the mean in digits."""
    low, high = _limits(rows)
    for number, (name, values) in enumerate(rows):
        colour, spread = colour_of(name), Spread.of(list(values))
        mean = spread.mean
        if name == BASE:
            axes.axvline(mean, color=colour, linewidth=1, linestyle=":", zorder=1)
        if spread.count > 1:
            inside = [value for value in values if low <= value <= high]
            axes.plot(inside, [number + 0.24] * len(inside), "o", color=colour, markersize=3.6, clip_on=False)
        _draw_interval(axes, number, spread.interval(*PERCENT) or (mean, mean), (low, high), colour)
        if low <= mean <= high:  # A dot at 0 or 100 % lies on the edge, and is whole.
            axes.plot([mean], [number], "o", color=colour, markersize=7.5, clip_on=False)
        beside = axes.get_yaxis_transform()
        axes.text(1.035, number, str(spread), transform=beside, fontsize=10, color=colour, va="center")
    axes.set_xlim(low, high)
    dress(axes, title, "")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0, pad=9)
    axes.spines["left"].set_visible(False)
    several = any(len(values) > 1 for _, values in rows)
    axes.set_xlabel("%, mean ± standard deviation" if several else "%", fontsize=10.5, color=INK)


def _limits(rows: Sequence[tuple[str, Sequence[float]]]) -> tuple[float, float]:
    """An axis for what was trained. What was not, far off, would press all others into one place."""
    trained = [value for name, values in rows for value in values if name not in NOT_TRAINED]
    everything = [value for _, values in rows for value in values]
    low, high = min(trained or everything), max(trained or everything)
    slack = max(SLACK * (high - low), 0.5)
    span = high - low
    if low - min(everything) < span:
        low = min(low, *everything)
    if max(everything) - high < span:
        high = max(high, *everything)
    return max(low - slack, PERCENT[0]), min(high + slack, PERCENT[1])


def _draw_interval(
    axes: "Axes", number: int, interval: tuple[float, float], limits: tuple[float, float], colour: str
) -> None:
    """A bar, with the head of an arrow at the edge of the panel where it runs past that."""
    (low, high), (left, right) = interval, limits
    inside = [min(max(end, left), right) for end in interval]
    axes.plot(inside, [number] * 2, color=colour, linewidth=1.6)
    for past, edge, head in ((low < left, left, "<"), (high > right, right, ">")):
        if past:
            axes.plot([edge], [number], head, color=colour, markersize=6, clip_on=False)


def _points(run: History, key: str) -> dict[int, float]:
    """A quantity by epoch, where it was measured."""
    return {line["epoch"]: float(line[key]) for line in run if key in line and math.isfinite(line[key])}


def _mean(curves: Sequence[dict[int, float]]) -> dict[int, float]:
    """The mean over seeds at each epoch, of those that have it."""
    epochs = sorted({epoch for points in curves for epoch in points})
    return {epoch: float(np.mean([points[epoch] for points in curves if epoch in points])) for epoch in epochs}
