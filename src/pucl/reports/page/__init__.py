"""The report page: what false negatives cost, how much came back, and which samples it is about.

The page is a single file. It needs no network, no other file and no library. `gather` reads the records of runs,
`write_page` makes the page of them. `schema` describes the data that the program in the page reads.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template

import pucl
from pucl.files import write_whole
from pucl.reports.page.maps import POINTS, space_of
from pucl.reports.page.markup import charts_of, foot, part_of, read_file, tabs, title_of
from pucl.reports.page.records import Gathered
from pucl.reports.page.schema import Page, Theme
from pucl.reports.palette import CLASSES, DARK, LIGHT, on_dark, on_light, row_colours

BYTES = 3_000_000  # Most bytes of a page with up to `POINTS` points.
OVERHEAD = 120_000  # Bytes for text, style sheet and program.
FEWEST_POINTS, MOST_POINTS = 10, 20_000
FEWEST_OF_A_GROUP = 500
PROGRAM = ("tools", "thumbnails", "samples", "pairs", "anchor", "map", "page")
"""The files of the page's program, in their order."""


def write_page(
    gathered: Gathered,
    out: Path,
    *,
    root: Path | None = None,
    points: int = POINTS,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Write the page of these runs.

    The page names runs that are damaged or of another version, and leaves them out.

    Args:
        gathered: The runs.
        out: The file. Paths on the page are relative to it.
        root: Directory of the data, for the thumbnails; see `pucl.data.root.data_root`.
        points: Most samples on the maps of all data sets together.
        report: Called with a description of the current step; a map takes some seconds.

    Raises:
        ValueError: If no run could be read.
    """
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise ValueError(
            f"points is the number of samples on the maps: expected {FEWEST_POINTS} to {MOST_POINTS}, got {points}"
        )
    if not gathered.groups:
        raise ValueError("a page is about runs: expected one that can be read, got none")
    groups, skipped = gathered.groups, list(gathered.skipped)
    report("charts")
    charts = [charts_of(group, number) for number, group in enumerate(groups)]
    budget = int(BYTES * max(1.0, points / POINTS)) - OVERHEAD - sum(len(html) for each in charts for html in each)
    parts, spaces = [], []
    for number, (group, drawn) in enumerate(zip(groups, charts, strict=True)):
        space, about = space_of(
            group,
            root=root,
            points=max(points // len(groups), min(points, FEWEST_OF_A_GROUP)),
            budget=budget // len(groups),
            skip=lambda path, why: skipped.append((path, why)),
            report=report,
        )
        parts.append(part_of(group, number, drawn, (space is not None, about), len(groups) == 1))
        spaces.append(space)
    data = Page(light=_theme(LIGHT, on_light), dark=_theme(DARK, on_dark), spaces=tuple(spaces))
    page = Template(read_file("page.html")).substitute(
        title=escape(title_of(groups)),
        version=escape(pucl.__version__),
        style=read_file("page.css"),
        colours=_colours(gathered),
        tabs=tabs([group.name for group in groups]) if len(groups) > 1 else "",
        parts="\n".join(parts),
        foot=foot(gathered, skipped, out, points=None if points == POINTS else points, with_root=root is not None),
        data=as_script(asdict(data)),
        program="\n".join(read_file(f"{name}.js") for name in PROGRAM),
    )
    write_whole(out, page.encode())


def as_script(record: object) -> str:
    r"""JSON that is safe inside a script element, which nothing in it can end.

    Example:
        >>> as_script({"name": "</script>"})
        '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(record, separators=(",", ":"), allow_nan=False)  # Escapes all but ASCII.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _theme(purposes: Mapping[str, str], visible: Callable[[str], str]) -> Theme:
    """Colours for the program, of which those of classes are made visible on the background."""
    names = ("paper", "ink", "line", "same", "other")
    return Theme(**{name: purposes[name] for name in names}, classes=tuple(map(visible, CLASSES)))


def _colours(gathered: Gathered) -> str:
    """The colours of the page and of all rows as variables of the style sheet, for light and dark backgrounds."""
    sheets = []
    for shade, purposes in enumerate((LIGHT, DARK)):
        sheet = f":root{{{';'.join(f'--{name}:{colour}' for name, colour in purposes.items())}}}"
        for part, group in enumerate(gathered.groups):
            pairs = row_colours([row.summary.correction for row in group.rows])
            sheet += f"#part-{part}{{{';'.join(f'--row-{row}:{pair[shade]}' for row, pair in enumerate(pairs))}}}"
        sheets.append(sheet)
    return f"{sheets[0]}@media screen and (prefers-color-scheme:dark){{{sheets[1]}}}"
