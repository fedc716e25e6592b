"""The colours of all figures and of the page, on light and on dark backgrounds."""

from collections.abc import Sequence

INK, MUTED, GRID = "#222222", "#666666", "#e6e6e6"

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
COLOURS = {
    "raw": "#8C6D31",
    "untrained": "#999999",
    "plain": "#D55E00",
    "deb": "#009E73",
    "hard": "#CC79A7",
    "ring": "#E69F00",
    "pucl": "#0072B2",
    "bcl": "#8DB600",
    "glofnd": "#B2182B",
    "clusters": "#6A3D9A",
    "ratio": "#1B9AAA",
    "auto": "#3B2FC9",
    "oracle": INK,
    "oracle-attract": "#4D4D4D",
}
"""Colour of a row, by its correction."""

OTHER = "#56B4E9"
"""Colour of any correction that `COLOURS` does not list."""

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
"""Colours of classes on a map. Further classes repeat them with another marker."""

SAME_CLASS, OTHER_CLASS = "#0072B2", "#B84A00"
"""Colours of a neighbour that has the anchor's class, and of one that has another class."""

LIGHT = {
    "paper": "#ffffff",
    "panel": "#f7f7f5",
    "ink": INK,
    "muted": "#5c5c5c",
    "grid": GRID,
    "line": "#8a8a8a",
    "same": SAME_CLASS,
    "other": OTHER_CLASS,
}
DARK = {
    "paper": "#15171a",
    "panel": "#1d2024",
    "ink": "#ececec",
    "muted": "#a9adb3",
    "grid": "#2e3238",
    "line": "#7d838c",
    "same": "#338ec1",
    "other": "#c87238",
}
"""The page's colours by purpose. They are the variables of its style sheet."""

LEGIBLE = 4.5  # Contrast that small text needs (WCAG 2, level AA).
VISIBLE = 3.0  # Contrast that a mark needs.


def row_colours(corrections: Sequence[str]) -> list[tuple[str, str]]:
    """For each row, its colour on a light and on a dark background.

    Rows with the same correction get different shades of its colour.

    Example:
        >>> colours = row_colours(["plain", "pucl", "pucl"])
        >>> len(set(colours))
        3
    """
    colours, seen = [], dict.fromkeys(corrections, 0)
    for name in corrections:
        shades = corrections.count(name)
        colour = on_light(COLOURS.get(name, OTHER))
        if shades > 1:
            darkest, lightest = mixed(colour, "#000000", 0.35), mixed(colour, "#ffffff", 0.25)
            colour = mixed(darkest, lightest, seen[name] / (shades - 1))
        seen[name] += 1
        colours.append((colour, on_dark(colour)))
    return colours


def on_light(colour: str) -> str:
    """The colour, darkened until a mark is visible on the light page."""
    return _mixed_until(colour, "#000000", LIGHT["paper"], VISIBLE)


def on_dark(colour: str) -> str:
    """The colour, lightened until text is legible on the dark page.

    Example:
        >>> contrast(on_dark("#0072B2"), DARK["panel"]) >= LEGIBLE
        True
    """
    return DARK["ink"] if colour == INK else _mixed_until(colour, "#ffffff", DARK["panel"], LEGIBLE)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21, as WCAG 2 defines it.

    Example:
        >>> round(contrast("#000000", "#ffffff"))
        21
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(one: str, other: str, share: float) -> str:
    """A mixture of two colours, with this share of the other one."""
    parts = (round((1 - share) * a + share * b) for a, b in zip(_channels(one), _channels(other), strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def _mixed_until(colour: str, other: str, background: str, wanted: float) -> str:
    """The colour with as much of another one mixed in as the contrast requires."""
    steps = (mixed(colour, other, step / 50) for step in range(51))
    return next(each for each in steps if contrast(each, background) >= wanted)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
