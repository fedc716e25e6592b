"""List the data sets that are known by name, and fetch them.

  pucl data list                         what there is, how large, and where it lies
  pucl data get NAME                     fetch it from its official site; a broken download goes on where it ended
  pucl data get NAME --from DIR          take it from a directory that has the official archive or its files

Check sums are verified before anything becomes visible; sets of graphs, which are published without, are read and
compared with the published numbers of graphs, classes, nodes and edges. Data sets are kept in --root, else in
$PUCL_DATA, else in ~/.cache/pucl. Where the official site of CIFAR10 cannot be reached, the same pictures are taken
from npm. Folders of your own pictures, .npz files and directories with graphs in TU form need no fetching: give their
path where a name is asked for.
"""

import argparse
import textwrap
from pathlib import Path

from pucl.data.root import DataMissingError, data_root
from pucl.graphs.acquire import acquire_graphs
from pucl.graphs.registry import MADE, unknown_graphs
from pucl.graphs.sources.tu_collection import LISTED, OTHERS, GraphSource, known_graphs
from pucl.images.acquire import acquire
from pucl.images.registry import SOURCES, find_source
from pucl.images.source import Source
from pucl.texts import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``pucl data``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|get")
    listing = actions.add_parser("list", help="what there is, and where")
    get = actions.add_parser("get", help="fetch a data set")
    get.add_argument(
        "name", metavar="NAME", help=f"one of {', '.join((*SOURCES, *(source.name for source in LISTED)))}"
    )
    get.add_argument(
        "--from", dest="origin", type=Path, metavar="DIR", help="take it from there instead of the network"
    )
    for action in (listing, get):
        action.add_argument("--root", type=Path, metavar="DIR", help="where data sets are kept")


def run(arguments: argparse.Namespace) -> int:
    """List, or get."""
    root = data_root(arguments.root)
    if arguments.action == "list":
        say("\n".join(describe(root)))
        return 0
    if arguments.origin is not None and not arguments.origin.exists():
        raise ValueError(f"--from is a directory with the data set: expected one that is there, got {arguments.origin}")
    if arguments.name.lower() in MADE:
        say(f"{arguments.name.lower()} is made when it is asked for; there is nothing to get")
        return 0
    source = _find(arguments.name)
    if isinstance(source, GraphSource):
        directory = acquire_graphs(source, root, arguments.origin, say=_say)
    elif source.forms:
        directory = acquire(source, root, arguments.origin, say=_say)
    else:
        say(f"{source.name} {_place(source, root)}; there is nothing to get")
        return 0
    say(f"{source.name}: {directory}")
    return 0


def _say(text: str) -> None:
    say(text, error=True)


def _find(name: str) -> Source | GraphSource:
    """The data set of this name, of pictures or of graphs; the error knows both."""
    if (graphs := known_graphs(name)) is not None:
        return graphs
    try:
        return find_source(name)
    except DataMissingError as error:
        raise DataMissingError(f"{error}; and {unknown_graphs(name)}") from error


def describe(root: Path) -> list[str]:
    """The tables of ``pucl data list``: for pictures and for graphs a header, and a line for each data set."""
    pictures = [("name", "images", "classes", "size", "where")]
    pictures += [
        (source.name, source.images, str(source.classes), f"{source.size} x {source.size}", _place(source, root))
        for source in SOURCES.values()
    ]
    graphs = [("name", "graphs", "classes", "nodes", "where")]
    for name, make in MADE.items():
        made = make()
        mean = made.node_start[-1] / len(made)
        graphs.append((name, f"{len(made):,}", str(len(made.classes)), f"{mean:.1f}", "made when it is asked for"))
    for source in LISTED:
        if (about := source.published) is not None:
            row = (source.name, f"{about.graphs:,}", str(about.classes), f"{about.mean_nodes:.1f}")
            graphs.append((*row, _place(source, root)))
    return [
        *_table(pictures),
        "",
        *_table(graphs),
        "",
        "And, of the TU collection:",
        *textwrap.wrap(", ".join(OTHERS), 110, break_on_hyphens=False, initial_indent="  ", subsequent_indent="  "),
        "",
        f"images: training + test; nodes: of a graph, in the mean. Data root: {root}",
    ]


def _table(rows: list[tuple[str, str, str, str, str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _place(source: Source | GraphSource, root: Path) -> str:
    if isinstance(source, GraphSource):
        directory = source.find(root)
    elif source.forms:
        place = source.find(root)
        directory = place[0] if place else None
    else:
        return "comes with scikit-learn"
    return str(directory) if directory else f"not there: pucl data get {source.name}"
