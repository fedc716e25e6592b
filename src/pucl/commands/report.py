"""Write one page of what runs came to, to read, to show and to look for hidden positives in.

RUN is the directory of a run, of a comparison (`pucl compare`), of a table (`pucl table`) or of a collection
(`pucl runs --collect`); several make one page. A page of a collection has no maps, since there are no embeddings. The
page has the table, learning curves, a map of the embeddings, and for any sample the unlabelled ones that are nearest to
it, by rank and similarity, and by class where there are labels. It is a single file that needs no network.

A run that is damaged or of another version is named on the page and left out. If none could be read there is no page,
and the exit code is 1.
"""

import argparse
from pathlib import Path

from pucl.files import write_whole
from pucl.progress import StatusArea
from pucl.reports.page import POINTS, make_page
from pucl.reports.page.records import gather
from pucl.texts import printable, say

DEFAULT_OUT = Path("report.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl report``."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="directory of a run, comparison or table")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="FILE", help="where to (default: %(default)s)")
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument(
        "--points", type=int, default=POINTS, metavar="N", help="samples that the maps show (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def run(arguments: argparse.Namespace) -> int:
    """Read, draw, write, and say what was left out."""
    out: Path = arguments.out
    if out.is_dir() or (out.exists() and not arguments.force):
        raise ValueError(f"{out} is there already: choose another name, or give --force to write over a file")
    for place in arguments.runs:
        if not place.is_dir():
            raise ValueError(f"RUN is the directory of a run, comparison or table: there is no directory {place}")
    out.parent.mkdir(parents=True, exist_ok=True)  # Now, so that a folder that cannot be made does not cost the work.
    gathered = gather(arguments.runs)
    for place, why in gathered.skipped:
        say(f"{printable(str(place))}: {printable(why)}", error=True)
    if not gathered.groups:
        say("nothing to show, so there is no page; `pucl runs DIR` lists the runs below a directory", error=True)
        return 1
    with StatusArea() as area:
        page = make_page(
            gathered,
            out=out,
            places=arguments.runs,
            root=arguments.root,
            points=arguments.points,
            say=lambda words: area.show_text(f"pucl report: {words}"),
        )
    write_whole(out, page.encode())
    say(f"page: {out} ({len(page.encode()) / 1e6:.1f} MB)")
    return 0
