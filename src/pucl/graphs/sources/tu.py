"""Graphs in the text files of the TU collection: parsed fast, checked line by line where something is wrong.

``NAME_A.txt`` has an edge a line, ``NAME_graph_indicator.txt`` the graph of each node, ``NAME_graph_labels.txt`` the
class of each graph, ``NAME_node_labels.txt`` and ``NAME_node_attributes.txt`` what is known of each node. Nodes and
graphs are counted from 1, values are separated by commas.

Reference: C. Morris, N. M. Kriege, F. Bause, K. Kersting, P. Mutzel and M. Neumann, TUDataset: A collection of
benchmark datasets for learning with graphs, 2020.
"""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.files import whole_file
from pucl.graphs.features import PlainGraphs
from pucl.progress import Progress

REQUIRED = ("A", "graph_indicator")
ENDS = tuple(f"_{part}.txt" for part in REQUIRED)
OPTIONAL = ("graph_labels", "node_labels", "node_attributes")
UNUSED = {
    "edge_labels": "edge labels",
    "edge_attributes": "edge attributes",
    "graph_attributes": "graph attributes (targets of a regression)",
}
"""Files of the collection that are not read, and what notes call them."""

SHOWN = 40  # Characters of a wrong line that an error shows.
WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")


def tu_file(directory: Path, name: str, part: str) -> Path:
    """The file of a set that holds this part of it."""
    return directory / f"{name}_{part}.txt"


def find_tu(directory: Path) -> tuple[Path, str] | None:
    """Where the files of the set in a directory are (in it, or in ``raw``), and its name; None if there is none.

    A set of which one file is missing is found too, so that the error can be about that file.
    """
    for place in (directory, directory / "raw"):
        names = sorted({path.name.removesuffix(end) for end in ENDS for path in place.glob(f"*{end}")})
        if len(names) > 1:
            raise DataError(f"{place} holds several sets of graphs, {', '.join(names)}: give each a directory")
        if names:
            return place, names[0]
    return None


def read_tu(directory: Path, name: str) -> PlainGraphs:
    """Read a set of graphs.

    Edges are sorted, and edges from a node to itself and edges that are written twice are left out, as
    torch_geometric does, so that the order of lines is of no account. Whether the other direction of an edge is there
    too is left as it is, and noted where it is not.

    Args:
        directory: Where the files are.
        name: What their names begin with.
    """
    paths = {part: tu_file(directory, name, part) for part in (*REQUIRED, *OPTIONAL)}
    for part in REQUIRED:
        if not paths[part].is_file():
            raise DataError(f"{paths[part]} is missing; graphs are read from it and from {paths[_other(part)].name}")
    tables = _tables({part: path for part, path in paths.items() if path.is_file()}, name)

    indicator = tables["graph_indicator"][:, 0]
    graph_labels = tables["graph_labels"][:, 0] if "graph_labels" in tables else None
    nodes_of = _nodes_of_graphs(indicator, graph_labels, paths)
    order = np.argsort(indicator, kind="stable")  # Nodes of a graph follow each other, whatever the order of lines.
    if "node_attributes" in tables:
        _check_range(tables["node_attributes"], paths["node_attributes"])
    for part in ("node_labels", "node_attributes"):
        if part in tables:
            _check_length(tables[part], len(indicator), paths[part], paths["graph_indicator"])
            tables[part] = tables[part][order]

    node_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(nodes_of)])
    edges, edge_start, notes = _edges(tables["A"], indicator, order, node_start, paths)
    notes += [
        f"{what} are there and not used" for part, what in UNUSED.items() if tu_file(directory, name, part).exists()
    ]
    classes, labels = (None, None) if graph_labels is None else np.unique(graph_labels, return_inverse=True)
    if labels is None:
        notes.append(f"graphs have no labels, since there is no {paths['graph_labels'].name}")
    return PlainGraphs(
        name=name,
        node_start=node_start,
        edge_start=edge_start,
        edges=edges,
        node_labels=tables.get("node_labels"),
        node_attributes=tables["node_attributes"].astype(np.float32) if "node_attributes" in tables else None,
        labels=None if labels is None else labels.astype(np.int64),
        classes=() if classes is None else tuple(map(str, classes)),
        notes=tuple(notes),
    )


def write_tu(graphs: PlainGraphs, directory: Path) -> None:
    """Write a set of graphs as `read_tu` reads it, under the name of the directory, which must be new or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DataError(f"graphs are written to a directory: expected a new one, got {directory}, which is not empty")
    if not graphs.edges.shape[1]:
        raise DataError(f"{graphs.name}: graphs are written as lists of edges: expected at least one, got none")
    first_node = np.repeat(graphs.node_start[:-1], np.diff(graphs.edge_start))
    tables: dict[str, tuple[NDArray[Any] | None, str]] = {
        "graph_indicator": (np.repeat(np.arange(1, len(graphs) + 1), np.diff(graphs.node_start)), "%d"),
        "graph_labels": (None if graphs.labels is None else np.array(graphs.classes, int)[graphs.labels], "%d"),
        "node_labels": (graphs.node_labels, "%d"),
        "node_attributes": (graphs.node_attributes, "%.9g"),  # As many digits as tell float32 numbers apart.
        "A": ((graphs.edges + first_node + 1).T, "%d"),  # The last: without it there is no set.
    }
    directory.mkdir(parents=True, exist_ok=True)
    for part, (table, form) in tables.items():
        if table is not None:
            with whole_file(tu_file(directory, directory.name, part)) as file:
                np.savetxt(file, table, fmt=form, delimiter=", ")


def _other(part: str) -> str:
    return REQUIRED[1 - REQUIRED.index(part)]


def _tables(paths: dict[str, Path], name: str) -> dict[str, NDArray[Any]]:
    columns = {"A": 2, "graph_indicator": 1, "graph_labels": 1}
    tables, done = {}, 0
    progress = Progress(f"pucl data: reading {name}", "MB", 1e6)
    try:
        total = sum(path.stat().st_size for path in paths.values())
        for part, path in paths.items():
            kind = np.float64 if part == "node_attributes" else np.int64
            tables[part] = read_table(path, kind, columns.get(part))
            done += path.stat().st_size
            progress(done, total)
    except OSError as error:
        raise DataError(f"{error.filename or name} cannot be read: {error.strerror or error}") from error
    finally:
        progress.close()
    return tables


def read_table(path: Path, kind: type[np.int64] | type[np.float64], columns: int | None) -> NDArray[Any]:
    """A text file of numbers separated by commas, as [line, column]; an error names the first line that is wrong.

    Args:
        path: The file.
        kind: Whole numbers, or finite ones.
        columns: How many numbers a line has; None as many as the first one.
    """
    content = path.read_bytes()
    lines = _lines(content)
    if not lines:
        raise DataError(f"{path} is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # Before numpy 2: a fraction cut to a whole number.
            table = np.loadtxt(path, kind, delimiter=",", comments=None, ndmin=2, encoding="latin-1")
    except ValueError:
        raise _wrong_line(path, content, kind, columns) from None
    # Empty lines were skipped, and numbers after them would be given to the wrong node.
    if len(table) != lines or table.shape[1] != (columns or table.shape[1]) or not np.isfinite(table).all():
        raise _wrong_line(path, content, kind, columns)
    return table


def _lines(content: bytes) -> int:
    """How many lines there are, without empty ones at the end."""
    filled = content.rstrip()
    return filled.count(b"\n") + 1 if filled else 0


def _wrong_line(path: Path, content: bytes, kind: type[np.int64] | type[np.float64], columns: int | None) -> DataError:
    """Look for the first line that is wrong, which is slow and done only when it is known that there is one."""
    lines = content.rstrip().decode("latin-1").split("\n")
    count = columns or lines[0].count(",") + 1
    what = "whole number" if kind is np.int64 else "finite number"
    wanted = f"a {what}" if count == 1 else f"{count} {what}s separated by commas"
    for number, line in enumerate(lines, 1):
        fields = line.split(",")
        if len(fields) != count or not all(_is_number(field, kind) for field in fields):
            text = line.strip()
            shown = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...") if text else "an empty line"
            return DataError(f"{path}, line {number}: expected {wanted}, got {shown}")
    return DataError(f"{path}: expected lines of {wanted} that end as lines of text do")


def _is_number(field: str, kind: type[np.int64] | type[np.float64]) -> bool:
    if kind is np.int64:
        return WHOLE.fullmatch(field) is not None
    try:
        return "_" not in field and bool(np.isfinite(float(field)))
    except ValueError:
        return False


def _nodes_of_graphs(
    indicator: NDArray[np.int64], graph_labels: NDArray[np.int64] | None, paths: dict[str, Path]
) -> NDArray[np.int64]:
    """How many nodes each graph has, once it is known that graphs are 1..N and none is without a node."""
    path = paths["graph_indicator"]
    if graph_labels is not None:
        graphs, reason = len(graph_labels), f"{paths['graph_labels'].name} has"
    else:
        graphs, reason = min(int(indicator.max()), len(indicator)), "there are nodes for at most"
    wrong = np.flatnonzero((indicator < 1) | (indicator > graphs))
    if len(wrong):
        raise DataError(
            f"{path}, line {wrong[0] + 1}: graph ids are 1..{graphs}, since {reason} {graphs} graphs; got "
            f"{indicator[wrong[0]]}"
        )
    nodes_of = np.bincount(indicator - 1, minlength=graphs)
    empty = np.flatnonzero(nodes_of == 0)
    if len(empty):
        where = f"{path}" if graph_labels is None else f"{paths['graph_labels']}, line {empty[0] + 1}"
        more = f", nor have {len(empty) - 1} others" if len(empty) > 1 else ""
        raise DataError(
            f"{where}: graph {empty[0] + 1} has no node in {path.name}{more}; it ends after line "
            f"{len(indicator)} with graph {indicator[-1]}"
        )
    return nodes_of


def _check_length(table: NDArray[Any], nodes: int, path: Path, indicator: Path) -> None:
    if len(table) != nodes:
        problem = f"ends after line {len(table)}" if len(table) < nodes else f"goes on at line {nodes + 1}"
        raise DataError(
            f"{path} {problem}: expected a line for each of the {nodes} nodes in {indicator.name}, got {len(table)}"
        )


def _check_range(table: NDArray[np.float64], path: Path) -> None:
    """Refuse attributes that become infinite as float32."""
    most = np.finfo(np.float32).max
    wrong = np.flatnonzero((np.abs(table) > most).any(axis=1))
    if len(wrong):
        raise DataError(f"{path}, line {wrong[0] + 1}: expected numbers up to {most:.3g}, got a larger one")


def _edges(
    written: NDArray[np.int64],
    indicator: NDArray[np.int64],
    order: NDArray[np.int64],
    node_start: NDArray[np.int64],
    paths: dict[str, Path],
) -> tuple[NDArray[np.int32], NDArray[np.int64], list[str]]:
    """Edges as numbers of nodes inside of their graph, sorted; where each graph's begin; and what was odd."""
    nodes, path = len(indicator), paths["A"]
    wrong = np.flatnonzero(((written < 1) | (written > nodes)).any(axis=1))
    if len(wrong):
        raise DataError(
            f"{path}, line {wrong[0] + 1}: node ids are 1..{nodes}, the lines of {paths['graph_indicator'].name}; got "
            f"{written[wrong[0], 0]}, {written[wrong[0], 1]}"
        )
    graphs = indicator[written - 1]
    wrong = np.flatnonzero(graphs[:, 0] != graphs[:, 1])
    if len(wrong):
        (a, b), (g, h) = written[wrong[0]], graphs[wrong[0]]
        raise DataError(
            f"{path}, line {wrong[0] + 1}: an edge joins nodes of one graph; node {a} is of graph {g}, node {b} of {h}"
        )
    row_of = np.empty(nodes, np.int64)
    row_of[order] = np.arange(nodes)
    source, target = row_of[written[:, 0] - 1], row_of[written[:, 1] - 1]
    notes = []
    if loops := int(np.count_nonzero(source == target)):
        notes.append(f"{loops} edges from a node to itself were left out")
        source, target = source[source != target], target[source != target]
    keys = np.sort(source * nodes + target)
    fresh = np.ones(len(keys), bool)
    fresh[1:] = keys[1:] != keys[:-1]
    if repeats := len(keys) - int(np.count_nonzero(fresh)):
        notes.append(f"{repeats} edges that are written twice were left out")
        keys = keys[fresh]
    source, target = np.divmod(keys, nodes)
    turned = np.sort(target * nodes + source)
    if not np.array_equal(keys, turned):
        lone = len(keys) - int(np.count_nonzero(np.isin(keys, turned, assume_unique=True)))
        notes.append(f"{lone} of {len(keys)} edges are written in one direction only, and are read so")
    edge_start = np.searchsorted(source, node_start).astype(np.int64)
    first = np.repeat(node_start[:-1], np.diff(edge_start))
    return np.stack([source - first, target - first]).astype(np.int32), edge_start, notes
