"""The colours of the corrections, in every figure the same, and of what is written beside them."""

INK, MUTED, GRID = "#222222", "#666666", "#e6e6e6"

# Those of Okabe and Ito, which colour-blind readers tell apart.
COLOURS = {
    "raw": "#8C6D31",
    "untrained": "#999999",
    "plain": "#D55E00",
    "deb": "#009E73",
    "hard": "#CC79A7",
    "ring": "#E69F00",
    "pucl": "#0072B2",
    "oracle": INK,
}
"""By the name of a row in a comparison."""

OTHER = "#56B4E9"


def colour_of(correction: str) -> str:
    """The colour of a row; one that has none of its own here still gets one."""
    return COLOURS.get(correction, OTHER)
