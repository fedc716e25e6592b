"""A picture of what the loss of a run compares: how alike pairs are, and what its correction takes them for."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.diagnosis.priors import APART
from pucl.diagnosis.similarities import Similarities
from pucl.reports.canvas import as_png, dress, new_figure, put_head
from pucl.reports.curves import TAU
from pucl.reports.palette import COLOURS, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = NDArray[np.float64]

POSITIVE, SAME, OTHER, FITTED = COLOURS["pucl"], COLOURS["deb"], COLOURS["plain"], INK
FILL = "#dddddd"
BINS = 48
TAILS = 0.0005  # Of each kind of pairs that may lie beyond the edges of the panels.
ENOUGH = 25  # Pairs in a bin from which a share of them is drawn.
LOWEST = 1e-3  # Where the logarithmic axis of densities begins, as a share of the highest.
MOST = 1.25  # Where the axis of chances ends: a correction may take off more than there is.
HEIGHT, LEFT = 5.5, 0.055


def draw_similarities(similarities: Similarities) -> bytes:
    r"""Three panels, as the bytes of a PNG file.

    Left, the laws of known positives :math:`p^+`, of pairs of one class and of pairs of different classes
    :math:`p^-`. Middle, the law of the unlabelled; above it what the correction of the run takes it for,
    :math:`(1 - \tau')\, p^- + \tau' p^+`, the same with the pairs of one class for :math:`p^+`, and the two Gaussians
    that were fitted. Right, for each similarity the share of pairs of one class by the labels, the share that belongs
    to the upper Gaussian, and the share :math:`\tau' p^+ / p^u` that the correction takes off.

    Without labels there is no :math:`p^-`, the middle panel shows :math:`\tau' p^+` alone, and the right panel says
    that nothing checks what it shows.

    Args:
        similarities: Of a finished run.

    Raises:
        MatplotlibMissingError: If matplotlib is not installed.
    """
    figure = new_figure(13.5, HEIGHT)
    laws, unlabelled, chances = figure.subplots(1, 3)
    figure.subplots_adjust(left=LEFT, right=0.985, top=1 - 1.5 / HEIGHT, bottom=1.35 / HEIGHT, wspace=0.22)
    edges = _edges(similarities)
    _draw_laws(laws, similarities, edges)
    _draw_unlabelled(unlabelled, similarities, edges)
    _draw_chances(chances, similarities, edges)
    for axes in (laws, unlabelled, chances):
        axes.set_xlim(edges[0], edges[-1])
        axes.set_xlabel("cosine", fontsize=10.5, color=INK)
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.17),
            ncols=1,
            frameon=False,
            fontsize=9.5,
            labelcolor=INK,
            handlelength=1.6,
            labelspacing=0.3,
            borderaxespad=0,
        )
    found = f"{similarities.subject}, {similarities.anchors:,} training samples, each with each"
    put_head(figure, (LEFT, HEIGHT), f"How alike pairs are: {similarities.name}", found, _estimates(similarities))
    return as_png(figure)


def _estimates(similarities: Similarities) -> str:
    """Every tau' that there is, in words."""
    found = {
        "used": similarities.tau_plus,
        "by best bin": None if similarities.best_bin is None else similarities.best_bin.tau_plus,
        "by two Gaussians": similarities.mixture.tau_plus,
        "by labels": similarities.truth,
    }
    return f"{TAU} " + ", ".join(f"{name} {value:.3f}" for name, value in found.items() if value is not None)


def _draw_laws(axes: "Axes", similarities: Similarities, edges: Numbers) -> None:
    kinds = [
        (similarities.other_class, "pairs of different classes", OTHER),
        (similarities.same_class, "pairs of one class", SAME),
        (similarities.positive, f"known positives: {similarities.known}", POSITIVE),
    ]
    if similarities.same_class is None and similarities.other_class is None:
        kinds.insert(0, (similarities.unlabelled, "unlabelled pairs", MUTED))
    for values, label, colour in kinds:
        if values is None:
            continue
        density = _density(values, edges)
        axes.stairs(density, edges, fill=True, color=colour, alpha=0.16)
        axes.stairs(density, edges, color=colour, linewidth=1.6, label=label)
    dress(axes, "Pairs of each kind", "density")


def _draw_unlabelled(axes: "Axes", similarities: Similarities, edges: Numbers) -> None:
    """The law of the unlabelled, on a logarithmic axis: hidden positives are few, and at the edge."""
    density, tau = _density(similarities.unlabelled, edges), similarities.tau_plus
    axes.set_yscale("log")
    axes.stairs(density, edges, fill=True, color=FILL, label="unlabelled pairs")
    known, same, other = (
        None if values is None else _density(values, edges)
        for values in (similarities.positive, similarities.same_class, similarities.other_class)
    )
    if tau is not None and other is not None:
        for hidden, label, colour, style in (
            (known, "hidden positives like the known ones", POSITIVE, "-"),
            (same, "hidden positives like pairs of one class", SAME, "--"),
        ):
            if hidden is not None:
                mixed = (1 - tau) * other + tau * hidden
                _draw_steps(axes, edges, mixed, f"with {TAU} = {tau:.3f}, {label}", colour, style)
    elif tau and known is not None:
        _draw_steps(axes, edges, tau * known, f"{TAU} = {tau:.3f} of known positives", POSITIVE, "-")
    fit = similarities.mixture
    places = np.linspace(edges[0], edges[-1], 400)
    lower, upper = (each.numpy() for each in fit.densities(torch.from_numpy(places)))
    guess = "" if fit.separation >= APART else ", hardly told apart"
    axes.plot(
        places, lower + upper, color=FITTED, linewidth=1.4, label=f"two Gaussians, upper {fit.tau_plus:.3f}{guess}"
    )
    for part in (lower, upper):
        axes.plot(places, part, color=FITTED, linewidth=0.9, linestyle=":")
    top = float(density.max())
    axes.set_ylim(LOWEST * top, 2 * top)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    dress(axes, "Unlabelled pairs, and how they are read", "density, log scale")


def _draw_chances(axes: "Axes", similarities: Similarities, edges: Numbers) -> None:
    """For each similarity: how many of the unlabelled are positives, by the labels, the fit and the correction."""
    from matplotlib.ticker import PercentFormatter  # noqa: PLC0415

    tau = similarities.tau_plus
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    unlabelled = _density(similarities.unlabelled, edges)
    enough = unlabelled * widths * len(similarities.unlabelled) >= ENOUGH
    if similarities.truth is not None:
        same, other = (
            np.zeros_like(unlabelled) if values is None else share * _density(values, edges)
            for values, share in (
                (similarities.same_class, similarities.truth),
                (similarities.other_class, 1 - similarities.truth),
            )
        )
        with np.errstate(invalid="ignore"):  # A bin without pairs is left out.
            truth = np.where(enough, same / (same + other), np.nan)
        axes.plot(middles, truth, "o", color=SAME, markersize=3.8, label="pairs of one class, by labels")
    if tau and similarities.positive is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            taken = np.where(enough, tau * _density(similarities.positive, edges) / unlabelled, np.nan)
        axes.plot(middles, taken, color=POSITIVE, linewidth=1.6, label=f"taken off with {TAU} = {tau:.3f}")
    places = np.linspace(edges[0], edges[-1], 400)
    fitted = similarities.mixture.posterior(torch.from_numpy(places)).numpy()
    axes.plot(places, fitted, color=FITTED, linewidth=1.4, label="upper of two Gaussians")
    meaning = "share of those at this cosine"
    if tau and similarities.positive is not None:
        meaning = "share; above 100 % more is taken off than is there"
        axes.axhline(1, color=MUTED, linewidth=0.8)
        axes.set_ylim(0, MOST)
    else:
        axes.set_ylim(0, 1.02)
    if similarities.truth is None:
        meaning = "share; there are no labels to check it by"
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    dress(axes, "Taken for hidden positives", meaning)


def _draw_steps(axes: "Axes", edges: Numbers, density: Numbers, label: str, colour: str, style: str) -> None:
    axes.stairs(density, edges, color=colour, linewidth=1.6, linestyle=style, label=label)


def _edges(similarities: Similarities) -> Numbers:
    """Bins that reach as far as any kind of pairs does."""
    kinds = (similarities.positive, similarities.same_class, similarities.other_class, similarities.unlabelled)
    ends = np.array([np.quantile(values, [TAILS, 1 - TAILS]) for values in kinds if values is not None])
    low, high = max(-1.0, float(ends[:, 0].min())), min(1.0, float(ends[:, 1].max()))
    slack = max(0.02 * (high - low), 1e-3)
    return np.linspace(max(-1.0, low - slack), min(1.0, high + slack), BINS + 1)


def _density(values: NDArray[np.float32], edges: Numbers) -> Numbers:
    """A histogram whose area is the share of the values that lie within."""
    density: Numbers = np.histogram(values, edges)[0] / (len(values) * np.diff(edges))
    return density
