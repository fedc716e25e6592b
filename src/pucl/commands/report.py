"""Write a page with the results of runs: what false negatives cost, how much came back, and which samples it is about.

RUN is the directory of a run, of a comparison (`pucl compare`), of a table (`pucl table`) or of a collection
(`pucl runs --collect`). Several make one page. The page begins with a verdict in one sentence. Below are a chart and
the table of all scores; the pairs of samples that cost plain's loss most, with their names and as files to download;
and for any anchor its most similar samples under plain and under another row. Map, metrics and settings are folded
away. A collection has no embeddings, so its page shows no samples. The page is a single file that needs no network.

Runs that are damaged or of another version are named on the page and left out. If no run can be read, there is no page,
and the exit code is 1.
"""

import argparse
from pathlib import Path

from pucl.commands.options import add_force, add_root, check_new
from pucl.progress import StatusArea
from pucl.reports.page import write_page
from pucl.reports.page.maps import POINTS
from pucl.reports.page.records import gather
from pucl.texts import printable, say

EXAMPLES = (
    "pucl report runs/simclr-digits",
    "pucl report runs/first runs/second --out page.html",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl report``."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="directory of a run, comparison or table")
    out = Path("report.html")
    parser.add_argument("--out", type=Path, default=out, metavar="FILE", help="file of the page (default: %(default)s)")
    add_root(parser)
    points = "most samples on the maps (default: %(default)s)"
    parser.add_argument("--points", type=int, default=POINTS, metavar="N", help=points)
    add_force(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the runs, make and write the page, and report what was left out."""
    out: Path = arguments.out
    check_new(out, force=arguments.force)
    for directory in arguments.runs:
        if not directory.is_dir():
            raise ValueError(f"RUN is the directory of a run, comparison or table: there is no directory {directory}")
    out.parent.mkdir(parents=True, exist_ok=True)  # Before the work, in case this fails.
    gathered = gather(arguments.runs)
    for path, why in gathered.skipped:
        say(f"{printable(str(path))}: {printable(why)}", error=True)
    if not gathered.groups:
        say("no run can be read, so there is no page; `pucl runs DIR` lists the runs below a directory", error=True)
        return 1
    with StatusArea() as area:
        write_page(
            gathered,
            out,
            root=arguments.root,
            points=arguments.points,
            report=lambda words: area.show_text(f"pucl report: {words}"),
        )
    say(f"page: {out} ({out.stat().st_size / 1e6:.1f} MB)")
    return 0
