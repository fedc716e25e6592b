"""A picture of the pairs that a run's loss compares: their similarities, and how its correction reads them."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.diagnosis.similarities import Similarities
from pucl.estimation.mixture import APART
from pucl.reports.canvas import TAU, add_title, as_png, new_figure
from pucl.reports.palette import COLOURS, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = NDArray[np.float64]

POSITIVE, SAME, OTHER, FITTED = COLOURS["pucl"], COLOURS["deb"], COLOURS["plain"], INK
FILL = "#dddddd"
BINS = 48
TAILS = 0.0005  # Share of each kind of pairs that may lie outside of the panels.
ENOUGH = 25  # Fewest pairs in a bin for which a share is drawn.
LOWEST = 1e-3  # Start of the logarithmic axis of densities, as a share of the highest density.
HIGHEST_SHARE = 1.25  # End of the axis of shares: a correction may remove more than there is.


def draw_similarities(similarities: Similarities) -> bytes:
    r"""Draw three panels of the similarities of a finished run. Return a PNG file.

    Left: the distributions of known positives :math:`p^+`, of pairs of the same class, and of pairs of different
    classes :math:`p^-`.

    Middle: the distribution of the unlabelled pairs :math:`p^u`. Above it is the mixture that the correction assumes,
    :math:`(1 - \tau')\, p^- + \tau' p^+`, the same mixture with pairs of the same class as :math:`p^+`, and the two
    fitted Gaussians.

    Right: for each similarity, the share of pairs of the same class by the labels, the share that belongs to the upper
    Gaussian, and the share :math:`\tau' p^+ / p^u` that the correction removes.

    Without labels :math:`p^-` is unknown. Then the middle panel shows :math:`\tau' p^+` alone, and the right panel says
    that its shares are not checked.
    """
    figure = new_figure(
        13.5,
        4.7,
        f"Similarities of pairs: {similarities.config.short_name}",
        f"{similarities.config.subject}, all pairs of {similarities.anchors:,} training samples",
        _estimates(similarities),
        panels=3,
        columns=3,
    )
    edges = _edges(similarities)
    for axes, draw in zip(figure.axes, (_draw_distributions, _draw_unlabelled, _draw_shares), strict=True):
        draw(axes, similarities, edges)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_xlabel("cosine")
        axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.15), frameon=False, fontsize=9.5, labelspacing=0.3)
    return as_png(figure)


def _estimates(similarities: Similarities) -> str:
    """All estimates of tau' in words."""
    found = {
        "used": similarities.tau_plus,
        "by best bin": None if similarities.best_bin is None else similarities.best_bin.tau_plus,
        "by two Gaussians": similarities.mixture.tau_plus,
        "by labels": similarities.truth,
    }
    return f"{TAU} " + ", ".join(f"{name} {value:.3f}" for name, value in found.items() if value is not None)


def _draw_distributions(axes: "Axes", similarities: Similarities, edges: Numbers) -> None:
    kinds = [
        (similarities.other_class, "pairs of different classes", OTHER),
        (similarities.same_class, "pairs of the same class", SAME),
        (similarities.positive, f"known positives: {similarities.known}", POSITIVE),
    ]
    if similarities.same_class is None and similarities.other_class is None:
        kinds.insert(0, (similarities.unlabelled, "unlabelled pairs", MUTED))
    for values, label, colour in kinds:
        if values is not None:
            density = _density(values, edges)
            axes.stairs(density, edges, fill=True, color=colour, alpha=0.16)
            axes.stairs(density, edges, color=colour, linewidth=1.6, label=label)
    add_title(axes, "Kinds of pairs", "density")


def _draw_unlabelled(axes: "Axes", similarities: Similarities, edges: Numbers) -> None:
    """Draw the distribution of unlabelled pairs on a logarithmic axis, since hidden positives are few."""
    density, tau = _density(similarities.unlabelled, edges), similarities.tau_plus
    axes.set_yscale("log")
    axes.stairs(density, edges, fill=True, color=FILL, label="unlabelled pairs")
    known, same, other = (
        None if values is None else _density(values, edges)
        for values in (similarities.positive, similarities.same_class, similarities.other_class)
    )
    if tau is not None and other is not None:
        for hidden, kind, colour, style in (
            (known, "hidden positives like the known ones", POSITIVE, "-"),
            (same, "hidden positives like pairs of the same class", SAME, "--"),
        ):
            if hidden is not None:
                mixed = (1 - tau) * other + tau * hidden
                label = f"with {TAU} = {tau:.3f}, {kind}"
                axes.stairs(mixed, edges, color=colour, linewidth=1.6, linestyle=style, label=label)
    elif tau and known is not None:
        label = f"{TAU} = {tau:.3f} of known positives"
        axes.stairs(tau * known, edges, color=POSITIVE, linewidth=1.6, label=label)
    fit = similarities.mixture
    cosines = np.linspace(edges[0], edges[-1], 400)
    lower, upper = (each.numpy() for each in fit.densities(torch.from_numpy(cosines)))
    label = f"two Gaussians, upper {fit.tau_plus:.3f}" + ("" if fit.separation >= APART else ", hardly separated")
    axes.plot(cosines, lower + upper, color=FITTED, linewidth=1.4, label=label)
    for part in (lower, upper):
        axes.plot(cosines, part, color=FITTED, linewidth=0.9, linestyle=":")
    top = float(density.max())
    axes.set_ylim(LOWEST * top, 2 * top)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    add_title(axes, "Unlabelled pairs, and what is assumed", "density, log scale")


def _draw_shares(axes: "Axes", similarities: Similarities, edges: Numbers) -> None:
    """Draw, for each similarity, the share of positives among the unlabelled by labels, fit and correction."""
    from matplotlib.ticker import PercentFormatter  # noqa: PLC0415

    tau = similarities.tau_plus
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    unlabelled = _density(similarities.unlabelled, edges)
    enough = unlabelled * widths * len(similarities.unlabelled) >= ENOUGH
    if similarities.truth is not None:
        same, other = (
            0.0 if values is None else share * _density(values, edges)
            for values, share in (
                (similarities.same_class, similarities.truth),
                (similarities.other_class, 1 - similarities.truth),
            )
        )
        with np.errstate(invalid="ignore"):  # Bins without pairs are left out.
            truth = np.where(enough, same / (same + other), np.nan)
        axes.plot(middles, truth, "o", color=SAME, markersize=3.8, label="same class, by labels")
    cosines = np.linspace(edges[0], edges[-1], 400)
    fitted = similarities.mixture.posterior(torch.from_numpy(cosines)).numpy()
    meaning, top = "share at this cosine", 1.02
    if tau and similarities.positive is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            removed = np.where(enough, tau * _density(similarities.positive, edges) / unlabelled, np.nan)
        axes.plot(middles, removed, color=POSITIVE, linewidth=1.6, label=f"removed with {TAU} = {tau:.3f}")
        axes.axhline(1, color=MUTED, linewidth=0.8)
        meaning, top = "share; above 100 % more is removed than is there", HIGHEST_SHARE
    axes.plot(cosines, fitted, color=FITTED, linewidth=1.4, label="upper of two Gaussians")
    if similarities.truth is None:
        meaning = "share; there are no labels to check it"
    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    add_title(axes, "Assumed hidden positives", meaning)


def _edges(similarities: Similarities) -> Numbers:
    """Edges of bins that cover all kinds of pairs."""
    kinds = (similarities.positive, similarities.same_class, similarities.other_class, similarities.unlabelled)
    ends = np.array([np.quantile(values, [TAILS, 1 - TAILS]) for values in kinds if values is not None])
    low, high = max(-1.0, float(ends[:, 0].min())), min(1.0, float(ends[:, 1].max()))
    slack = max(0.02 * (high - low), 1e-3)
    return np.linspace(max(-1.0, low - slack), min(1.0, high + slack), BINS + 1)


def _density(values: NDArray[np.float32], edges: Numbers) -> Numbers:
    """A histogram whose area is the share of the values inside the edges."""
    density: Numbers = np.histogram(values, edges)[0] / (len(values) * np.diff(edges))
    return density
