"""Colours of the page, by day and by night: those of the figures, moved only as far as the ground asks for."""

from collections.abc import Sequence

from pucl.reports.palette import GRID, INK, colour_of

LIGHT = {"paper": "#ffffff", "panel": "#f7f7f5", "ink": INK, "muted": "#5c5c5c", "grid": GRID, "line": "#8a8a8a"}
DARK = {
    "paper": "#15171a",
    "panel": "#1d2024",
    "ink": "#ececec",
    "muted": "#a9adb3",
    "grid": "#2e3238",
    "line": "#7d838c",
}
LEGIBLE = 4.5  # Contrast that small text needs (WCAG 2, AA).
SEEN = 3.0  # That a mark needs.

CLASSES = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#8DB600",
    "#8C6D31",
    "#6A3D9A",
    "#B2182B",
    "#7F7F7F",
)
"""Of classes on the map; with more classes they come again, in other shapes."""

SAME, OTHER = "#0072B2", "#B84A00"  # A neighbour of the anchor's class, and of another.


def contrast(one: str, other: str) -> float:
    """By how much two colours differ in lightness, 1 to 21, as WCAG 2 defines it.

    Example:
        >>> round(contrast("#000000", "#ffffff"))
        21
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def on_dark(colour: str) -> str:
    """The same colour where the ground is dark: as much white in it as it takes to be legible.

    Example:
        >>> contrast(on_dark("#0072B2"), DARK["panel"]) >= LEGIBLE
        True
    """
    return DARK["ink"] if colour == INK else _until(colour, "#ffffff", DARK["panel"], LEGIBLE)


def on_light(colour: str) -> str:
    """The same colour where it is a mark on a light ground: as much black in it as it takes to be seen."""
    return _until(colour, "#000000", LIGHT["paper"], SEEN)


def row_colours(corrections: Sequence[str]) -> list[tuple[str, str]]:
    """For each row its colour on a light and on a dark ground: that of its correction, in shades where rows share one.

    Example:
        >>> colours = row_colours(["plain", "pucl", "pucl"])
        >>> len(set(colours))
        3
    """
    made, seen = [], dict.fromkeys(corrections, 0)
    for name in corrections:
        shades = corrections.count(name)
        place = seen[name] / (shades - 1) if shades > 1 else 0.0
        seen[name] += 1
        colour = on_light(colour_of(name))
        if shades > 1:  # From dark to light around the correction's own.
            colour = mixed(mixed(colour, "#000000", 0.35), mixed(colour, "#ffffff", 0.25), place)
        made.append((colour, on_dark(colour)))
    return made


def mixed(one: str, other: str, share: float) -> str:
    """A colour between two: this share of the other."""
    parts = (round((1 - share) * a + share * b) for a, b in zip(_channels(one), _channels(other), strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def _until(colour: str, towards: str, ground: str, wanted: float) -> str:
    """As much of another colour mixed in as the contrast to the ground asks for."""
    steps = (mixed(colour, towards, step / 50) for step in range(51))
    return next(made for made in steps if contrast(made, ground) >= wanted)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
