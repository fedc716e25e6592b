"""List the data sets that are known by name, or download one.

Files are checked before they become visible: by their published checksums or, for sets of graphs, which have none, by
the published numbers of graphs, classes, nodes and edges. Data sets are kept in --root, else in $PUCL_DATA, else in
~/.cache/pucl. If the official site of CIFAR10 cannot be reached, the same images are taken from npm. Your own folders
of pictures, .npz files, directories with graphs in TU form and files of texts need no download: give their path in
place of a name.
"""

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pucl.commands.options import add_root
from pucl.data.acquire import acquire
from pucl.data.root import DataMissingError, data_root
from pucl.data.source import Source
from pucl.modalities import MODALITIES
from pucl.texts import did_you_mean, say, table

EXAMPLES = (
    "pucl data list",
    "pucl data get cifar10",
    "pucl data get ENZYMES --from downloads/",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl data``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|get")
    listing = actions.add_parser("list", help="show known data sets, their sizes, and where they are")
    get = actions.add_parser("get", help="download a data set; a broken download is continued")
    names = [source.name for modality in MODALITIES.values() for source in modality.sources.values() if source.samples]
    get.add_argument("name", metavar="NAME", choices=names, help=f"one of {', '.join(names)}")
    origin = "copy it from a directory that has the official archive or its files"
    get.add_argument("--from", dest="origin", type=Path, metavar="DIR", help=origin)
    for action in (listing, get):
        add_root(action)


def run(arguments: argparse.Namespace) -> int:
    """Print the list of data sets, or get one of them."""
    root = data_root(arguments.root)
    if arguments.action == "list":
        say("\n".join(describe(root)))
        return 0
    if arguments.origin is not None and not arguments.origin.exists():
        raise ValueError(f"--from is a directory with the data set: expected one that exists, got {arguments.origin}")
    source = _find(arguments.name)
    if source.forms:
        directory = acquire(source, root, arguments.origin, report=lambda text: say(text, error=True))
        say(f"{source.name}: {directory}")
    else:
        say(f"{source.name} {source.without_files}; there is nothing to get")
    return 0


def _find(name: str) -> Source[Any]:
    for modality in MODALITIES.values():
        if (source := modality.find_source(name)) is not None:
            return source
    known = [each for modality in MODALITIES.values() for each in modality.sources]
    raise DataMissingError(f"no data set {name!r}.{did_you_mean(name, known)} `pucl data list` lists all")


def describe(root: Path) -> Iterator[str]:
    """The lines of ``pucl data list``: a table for each modality, a row for each data set."""
    for modality in MODALITIES.values():
        sources = modality.sources.values()
        rows = [
            [source.name, source.samples, str(source.classes), source.size, _where(source, root)]
            for source in sources
            if source.samples
        ]
        yield table([["name", *modality.columns, "where"], *rows])
        if others := [source.name for source in sources if not source.samples]:
            text = f"Also known: {', '.join(others)}"
            yield "\n" + textwrap.fill(text, 110, break_on_hyphens=False, subsequent_indent="  ")
        yield ""
    yield f"Data root: {root}"


def _where(source: Source[Any], root: Path) -> str:
    if not source.forms:
        return source.without_files
    found = source.find(root)
    return f"not there: pucl data get {source.name}" if found is None else str(found.directory)
