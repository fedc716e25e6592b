"""Metrics over epochs, as a PNG file and as drawings for the page. Both are made of the same panels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pucl.estimation.communities import REPEATABLE
from pucl.evaluation import PROBES
from pucl.evaluation.probe import LEADING
from pucl.reports.canvas import TAU, add_title, as_png, as_svg, colours_of, new_figure
from pucl.reports.palette import INK, MUTED
from pucl.texts import capitalised, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

History = Sequence[Mapping[str, Any]]
"""The metrics of one run, a mapping for each epoch."""

Points = dict[int, float]
"""A metric of one run: its value by epoch."""

Curves = dict[int, list[Points]]
"""A metric of all runs: the points of each seed, by the index of the row. Rows without the metric are left out."""

COLUMNS = 3  # Panels side by side in the PNG file.


@dataclass(frozen=True)
class Metric:
    """One quantity that is drawn over epochs."""

    key: str  # Its name in the metrics.
    title: str
    meaning: str
    percent: bool = False
    from_zero: bool = False


METRICS = (
    Metric("loss", "Loss", "its size depends on the correction"),
    Metric("floored", "Anchors at the floor", "learn nothing from the unlabelled", percent=True, from_zero=True),
    Metric("tau_plus", f"{TAU}, share of hidden positives", "as the correction assumes", from_zero=True),
    Metric("positive_similarity", "Similarity to the positive", "mean cosine"),
    Metric("unlabelled_similarity", "Similarity to the unlabelled", "mean cosine; 1 means collapse"),
    Metric(
        "correction.removed", "Removed from plain's sum", "by a correction that learns", percent=True, from_zero=True
    ),
    Metric(
        "correction.repeatable",
        "Agreement of communities",
        f"{REPEATABLE} is needed to begin",
        from_zero=True,
    ),
    Metric("calibration.error", "Calibration error of r", "expected, by the labels; 0 is perfect", from_zero=True),
)


def curves_of(histories: Sequence[Sequence[History]], *, cosines: bool = True) -> dict[Metric, Curves]:
    """The metrics that at least one run has.

    Args:
        histories: For each row, the metrics of each seed.
        cosines: Whether similarities are cosines. Without a temperature they are inner products.
    """
    monitored = [
        Metric(
            name, capitalised(probe.numbers[LEADING].name), "of training samples, a fifth of each class", percent=True
        )
        for name, probe in PROBES.items()
        if probe.monitored
    ]
    found: dict[Metric, Curves] = {}
    for metric in (*METRICS, *monitored):
        rows = {
            number: seeds
            for number, runs in enumerate(histories)
            if (seeds := [points for run in runs if (points := _points(run, metric.key))])
        }
        if metric.key.endswith("similarity") and not cosines:
            metric = replace(metric, meaning="mean inner product")  # noqa: PLW2901
        if rows:
            found[metric] = rows
    return found


def draw_curves(histories: Mapping[str, Sequence[History]], *, subject: str = "", cosines: bool = True) -> bytes:
    """Draw metrics over epochs: a thin line for each seed, a thick line for their mean. Return a PNG file.

    Args:
        histories: By correction, the metrics of each seed. Corrections without metrics are skipped.
        subject: Framework and data, for the subtitle.
        cosines: See `curves_of`.
    """
    panels = curves_of(list(histories.values()), cosines=cosines)
    if not panels:
        raise ValueError("curves are drawn of trainings: expected the metrics of one epoch or more, got none")
    seeds = max(len(each) for curves in panels.values() for each in curves.values())
    lines = "" if seeds == 1 else f"thick lines are means over {seeds} seeds, thin lines the seeds"
    height = 3.05 * math.ceil(len(panels) / COLUMNS) + 0.4
    figure = new_figure(13.5, height, "Metrics during training", subject, lines, panels=len(panels), columns=COLUMNS)
    names, colours = list(histories), colours_of(list(histories))
    means: dict[int, Line2D] = {}
    for axes, (metric, curves) in zip(figure.axes, panels.items(), strict=True):
        means |= draw_metric(axes, metric, curves, colours)
        add_title(axes, metric.title, metric.meaning)
    figure.legend(
        [means[row] for row in sorted(means)],
        [names[row] for row in sorted(means)],
        loc="outside lower left",
        ncols=min(len(means), 8),
        frameon=False,
        fontsize=11,
        labelcolor=INK,
    )
    return as_png(figure)


def draw_metric(axes: "Axes", metric: Metric, curves: Curves, colours: Sequence[str]) -> dict[int, "Line2D"]:
    """Draw one metric of all rows, and return the lines of the means by row."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter  # noqa: PLC0415

    means = {}
    for row, seeds in curves.items():
        mean = _mean_curve(seeds)
        # Lines are not clipped, so that a line at 100 % is whole.
        shared: dict[str, Any] = {"color": colours[row], "gid": f"row-{row}", "clip_on": False}
        for points in seeds if len(seeds) > 1 else []:
            axes.plot(list(points), list(points.values()), linewidth=0.8, alpha=0.45, **shared)
        marker = "o" if len(mean) == 1 else ""
        (means[row],) = axes.plot(list(mean), list(mean.values()), linewidth=2.0, marker=marker, **shared)
    if metric.from_zero:
        axes.update_datalim([(0.0, 0.0), (0.0, 0.05)], updatex=False)
    axes.margins(x=0, y=0.05)  # A line at zero is above the axis.
    if metric.percent:
        low, high = axes.get_ylim()
        axes.set_ylim(low if metric.from_zero else max(low, 0.0), min(high, 1.0))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    axes.set_xlabel("epoch", fontsize=10, color=MUTED)
    axes.grid(visible=False, axis="x")
    axes.spines["left"].set_visible(False)
    return means


def page_curves(
    histories: Sequence[Sequence[History]], corrections: Sequence[str], names: Sequence[str], *, cosines: bool, key: str
) -> list[dict[str, str]]:
    """The panels of metrics for the page: title, meaning and ``svg``.

    Args:
        histories: For each row, the metrics of each seed.
        corrections: For each row, its correction.
        names: For each row, its name.
        cosines: See `curves_of`.
        key: Unique for the group of runs.
    """
    colours = colours_of(corrections, on_page=True)
    drawn: list[dict[str, str]] = []
    for metric, curves in curves_of(histories, cosines=cosines).items():
        figure = new_figure(4.1, 2.2)
        draw_metric(figure.axes[0], metric, curves, colours)
        means = {names[row]: _mean_curve(seeds) for row, seeds in curves.items()}
        last = max(epoch for mean in means.values() for epoch in mean)
        ends = ", ".join(f"{name} {mean[max(mean)]:.3g}" for name, mean in means.items())
        label = f"{metric.title} over {counted(last, 'epoch')}; at the end {ends}"
        svg = as_svg(figure, label, f"{key}-{len(drawn)}")
        drawn.append({"title": metric.title, "meaning": metric.meaning, "svg": svg})
    return drawn


def _mean_curve(seeds: Sequence[Points]) -> Points:
    """The mean at each epoch over the seeds that have it."""
    epochs = sorted({epoch for points in seeds for epoch in points})
    return {epoch: float(np.mean([points[epoch] for points in seeds if epoch in points])) for epoch in epochs}


def _points(run: History, key: str) -> Points:
    return {line["epoch"]: float(line[key]) for line in run if key in line and math.isfinite(line[key])}
