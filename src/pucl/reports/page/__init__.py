"""One page of what runs came to: table, curves, map of the embeddings, and the unlabelled samples near any anchor.

It is a single file that needs nothing else: no network, no other file, no library.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import pucl
from pucl.files import write_whole
from pucl.reports.page.colours import CLASSES, DARK, LIGHT, OTHER, SAME, on_dark, on_light, row_colours
from pucl.reports.page.data import POINTS, curves_of, probes_in, rows_of, space_of
from pucl.reports.page.markup import command_of, facts, foot, table, title_of, verdict
from pucl.reports.page.records import Gathered, Group, gather

__all__ = ["BYTES", "POINTS", "make_page", "write_report"]

BYTES = 3_000_000  # That a page takes at most, up to `POINTS` points.
OVERHEAD = 150_000  # Of these, for text, style, program and curves.
FEWEST_POINTS, MOST_POINTS = 10, 20_000
FEWEST_OF_A_GROUP = 500


def write_report(
    out: Path,
    places: Sequence[Path],
    *,
    root: Path | None = None,
    points: int = POINTS,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the page of these runs.

    A run that is damaged or of another version is named on the page and left out.

    Args:
        out: The file.
        places: Directories of runs, of comparisons or of tables.
        root: Where data are kept, for the pictures or graphs; see `pucl.images.registry.load`.
        points: How many samples the maps show, those of all data sets together.
        say: Is told what is being done, since a map takes some seconds.

    Returns:
        The file.
    """
    page = make_page(gather(places), out=out, places=places, root=root, points=points, say=say)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, page.encode())
    return out


def make_page(
    gathered: Gathered,
    *,
    out: Path,
    places: Sequence[Path] = (),
    root: Path | None = None,
    points: int = POINTS,
    say: Callable[[str], None] = lambda _: None,
) -> str:
    """The page as text.

    Args:
        gathered: What it is about.
        out: Where it will be: places are told as seen from there.
        places: What was asked for, to tell how to make it again.
        root: Where data are kept.
        points: How many samples the maps show.
        say: Is told what is being done.
    """
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise ValueError(
            f"points is how many samples the maps show: expected {FEWEST_POINTS} to {MOST_POINTS}, got {points}"
        )
    groups, skipped = gathered.groups, list(gathered.skipped)
    each = max(points // max(len(groups), 1), min(points, FEWEST_OF_A_GROUP))
    budget = (int(BYTES * max(1.0, points / POINTS)) - OVERHEAD) // max(len(groups), 1)
    parts, records, colours = [], [], []
    for number, group in enumerate(groups):
        record: dict[str, Any] = {
            "name": group.name,
            "base": group.base,
            "probes": probes_in(group),
            "rows": rows_of(group),
            "curves": curves_of(group),
            "space": space_of(
                group,
                root=root,
                points=each,
                budget=budget,
                skip=lambda place, why: skipped.append((place, why)),
                say=say,
            ),
        }
        parts.append(_part(number, group, record, alone=len(groups) == 1))
        records.append(record)
        colours.append(row_colours([row.line.correction for row in group.rows]))

    def near(place: Path) -> str:
        return _seen_from(out, place)

    tabs = _tabs([group.name for group in groups]) if len(groups) > 1 else ""
    nothing = '<p class="absent">None of what was given could be read; below is why.</p>'
    asked = [near(place) for place in places]
    return Template(_text("page.html")).substitute(
        title=escape(title_of(groups)),
        version=escape(pucl.__version__),
        style=_text("page.css"),
        colours=_style(colours),
        tabs=tabs,
        parts="\n".join(parts) or nothing,
        foot=foot(
            groups,
            [(near(place), why) for place, why in skipped],
            command_of(out, asked, points, POINTS, with_root=root is not None),
            near,
        ),
        data=as_script({"theme": _theme(), "parts": records}),
        program=_text("page.js"),
    )


def as_script(record: object) -> str:
    r"""JSON that may stand in a script of a page: nothing in it ends the script, and no number is NaN.

    Example:
        >>> as_script({"name": "</script>"})
        '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(_clean(record), separators=(",", ":"), allow_nan=False)  # It writes all but ASCII as escapes.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(number: int, group: Group, record: dict[str, Any], *, alone: bool) -> str:
    """One group as a part of the page; of what is missing a sentence says so."""
    scored = [row for row in record["rows"] if row["scores"]]
    seeds = max((len(score["seeds"]) for row in scored for score in row["scores"].values()), default=0)
    if not scored:
        dots = _absent("There is no chart of accuracies: none was measured.")
    elif len(scored) < 2 and seeds < 2:
        dots = _absent("One run alone is no comparison: there is nothing to draw beside it.")
    else:
        dots = '<div class="dots" data-chart="dots"></div>'
    curves = (
        '<div data-chart="curves"></div>'
        if record["curves"]
        else _absent("There are no curves: nothing was trained, or no metrics were kept.")
    )
    shown = isinstance(record["space"], dict)
    around = _text("space.html") if shown else _absent(str(record["space"]))
    return (
        Template(_text("part.html"))
        .substitute(
            number=number,
            hidden="" if number == 0 else "hidden",
            role='role="tabpanel"' if not alone else "",
            heading="" if alone else f"<h2 class='name'>{escape(group.name)}</h2>",
            label=escape(group.name),
            verdict=escape(verdict(group)),
            facts=facts(group),
            table=table(group),
            dots=dots,
            curves=curves,
            space=around if shown else f'<section id="map-{number}"><h2>The map of embeddings</h2>{around}</section>',
        )
        .replace("{number}", str(number))
    )


def _tabs(names: Sequence[str]) -> str:
    """Which part is shown; the arrow keys go from one to the next."""
    buttons = [
        f'<button type="button" role="tab" id="tab-{number}" aria-controls="part-{number}" '
        f'aria-selected="{str(number == 0).lower()}" tabindex="{0 if number == 0 else -1}">{escape(name)}</button>'
        for number, name in enumerate(names)
    ]
    return f'<div class="tabs" role="tablist" aria-label="Data">{"".join(buttons)}</div>'


def _absent(words: str) -> str:
    return f'<p class="absent">{escape(words)}</p>'


def _theme() -> dict[str, Any]:
    """What the canvas is painted with, by day and by night."""
    return {
        "light": LIGHT | {"classes": [on_light(colour) for colour in CLASSES], "same": SAME, "other": OTHER},
        "dark": DARK
        | {"classes": [on_dark(colour) for colour in CLASSES], "same": on_dark(SAME), "other": on_dark(OTHER)},
    }


def _style(colours: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The colours as variables of the style, in both kinds of light."""

    def variables(shade: int) -> str:
        theme = (LIGHT, DARK)[shade] | {
            "same": (SAME, on_dark(SAME))[shade],
            "other": (OTHER, on_dark(OTHER))[shade],
        }
        root = ";".join(f"--{name}:{colour}" for name, colour in theme.items())
        rows = "".join(
            f"#part-{part}{{{';'.join(f'--row-{number}:{pair[shade]}' for number, pair in enumerate(pairs))}}}"
            for part, pairs in enumerate(colours)
        )
        return f":root{{{root}}}{rows}"

    return f"{variables(0)}@media screen and (prefers-color-scheme:dark){{{variables(1)}}}"


def _seen_from(out: Path, place: Path) -> str:
    """A place as seen from the page, so that both can be moved together."""
    return Path(os.path.relpath(place.resolve(), out.parent.resolve())).as_posix()


def _clean(value: Any) -> Any:
    """The same without numbers that JSON does not know."""
    if isinstance(value, dict):
        return {key: _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(name: str) -> str:
    return resources.files("pucl.reports.page").joinpath(name).read_text(encoding="utf-8")
