"""Draw the problem in one picture: ``python docs/site/drawing.py`` writes docs/problem.svg.

An anchor, another view of it, and the rest of the batch. Contrastive learning pulls the view and pushes all the rest.
Some of the rest is of the anchor's own class.
"""

import math
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "problem.svg"
WIDTH, HEIGHT, TOP = 880, 392, 84
SHAPES = {"own": "#00897b", "square": "#9e9e9e", "triangle": "#9e9e9e"}
"""Colours of the anchor's class and of the two others."""

PUSH, PULL, INK, PALE = "#c62828", "#00695c", "#333333", "#bdbdbd"
ANCHOR, VIEW = (0.0, 0.0), (46.0, -34.0)
MATES = [(-62.0, 26.0), (10.0, 72.0), (-30.0, -70.0)]
OTHERS = [("square", (130.0, 40.0)), ("square", (112.0, 88.0)), ("square", (148.0, -8.0))]
OTHERS += [("triangle", (-150.0, -30.0)), ("triangle", (-128.0, -76.0)), ("triangle", (-136.0, 40.0))]


def draw() -> str:
    """The picture: what plain InfoNCE does on the left, what a correction does on the right."""
    left, right = WIDTH / 4, 3 * WIDTH / 4
    parts = [
        *_panel(left, "InfoNCE pushes every other sample away", corrected=False),
        *_panel(right, "A correction weighs them by what they are", corrected=True),
        f'<line x1="{WIDTH / 2}" y1="24" x2="{WIDTH / 2}" y2="{HEIGHT - 60}" stroke="#e0e0e0"/>',
        *_legend(),
    ]
    frame = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>'
    title = "<title>False negatives: samples of the anchor's own class that InfoNCE pushes away</title>"
    arrows = "".join(_head(name, colour) for name, colour in (("push", PUSH), ("pull", PULL), ("pale", PALE)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="15">\n{title}\n<defs>{arrows}</defs>\n{frame}\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(x: float, heading: str, *, corrected: bool) -> Iterator[str]:
    y = (TOP + HEIGHT) / 2 - 34
    yield f'<text x="{x}" y="34" text-anchor="middle" font-weight="bold" fill="{INK}">{heading}</text>'
    yield _arrow((x + VIEW[0], y + VIEW[1]), (x, y), 0.62, "pull", PULL, 2.5, start=0.28)
    for mate in MATES:
        colour, name, width = (PALE, "pale", 1.2) if corrected else (PUSH, "push", 2.5)
        yield _arrow((x + mate[0], y + mate[1]), _beyond(x, y, mate, 0.55), 1.0, name, colour, width, start=0.3)
        yield _shape("own", x + mate[0], y + mate[1])
    for kind, place in OTHERS:
        yield _arrow((x + place[0], y + place[1]), _beyond(x, y, place, 0.28), 1.0, "push", PUSH, 1.8, start=0.4)
        yield _shape(kind, x + place[0], y + place[1])
    yield _shape("own", x + VIEW[0], y + VIEW[1])
    yield f'<circle cx="{x}" cy="{y}" r="12" fill="{SHAPES["own"]}" stroke="{INK}" stroke-width="3"/>'


def _legend() -> Iterator[str]:
    anchor = f'<circle r="8" fill="{SHAPES["own"]}" stroke="{INK}" stroke-width="2.5"/>'
    others = _shape("square", -18, 0, 7) + _shape("triangle", 0, 0, 7)
    entries = [
        (71, anchor, "anchor"),
        (165, _shape("own", 0, 0, 7), "its class: a view of it, or a false negative"),
        (530, others, "other classes: true negatives"),
    ]
    for x, picture, words in entries:
        yield f'<g transform="translate({x} {HEIGHT - 24})">{picture}<text x="16" y="5" fill="{INK}">{words}</text></g>'


def _beyond(x: float, y: float, place: tuple[float, float], share: float) -> tuple[float, float]:
    """The end of a push: farther from the anchor by this share."""
    return x + place[0] * (1 + share), y + place[1] * (1 + share)


def _arrow(
    a: tuple[float, float], b: tuple[float, float], end: float, head: str, colour: str, width: float, *, start: float
) -> str:
    """An arrow along the line from a to b, from one share of it to another."""
    (x1, y1), (x2, y2) = ((a[0] + s * (b[0] - a[0]), a[1] + s * (b[1] - a[1])) for s in (start, end))
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}" '
        f'marker-end="url(#{head})"/>'
    )


def _head(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="6" refY="5" markerUnits="userSpaceOnUse" markerWidth="11" '
        f'markerHeight="11" orient="auto"><path d="M0 0 10 5 0 10z" fill="{colour}"/></marker>'
    )


def _shape(kind: str, x: float, y: float, size: float = 10) -> str:
    if kind == "own":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{SHAPES[kind]}"/>'
    corners = 4 if kind == "square" else 3
    first = math.pi / 4 if kind == "square" else -math.pi / 2
    turns = [first + 2 * math.pi * k / corners for k in range(corners)]
    points = " ".join(f"{x + 1.2 * size * math.cos(t):.1f},{y + 1.2 * size * math.sin(t):.1f}" for t in turns)
    return f'<polygon points="{points}" fill="{SHAPES[kind]}"/>'


if __name__ == "__main__":
    TARGET.write_text(draw())
