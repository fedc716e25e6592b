"""Graphs in the text files of the TU collection. They are parsed fast; if that fails, the wrong line is searched.

``NAME_A.txt`` has one edge in each line, ``NAME_graph_indicator.txt`` the graph of each node, ``NAME_graph_labels.txt``
the class of each graph, ``NAME_node_labels.txt`` and ``NAME_node_attributes.txt`` labels and attributes of each node.
Nodes and graphs are counted from 1. Values are separated by commas.

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
from pucl.graphs.graphset import starts_of

REQUIRED = ("A", "graph_indicator")
ENDS = tuple(f"_{part}.txt" for part in REQUIRED)
OPTIONAL = ("graph_labels", "node_labels", "node_attributes")
UNUSED = {
    "edge_labels": "edge labels",
    "edge_attributes": "edge attributes",
    "graph_attributes": "graph attributes (targets of a regression)",
}
"""Files of the collection that are not read, and their names in notes."""

SHOWN = 40  # Characters of a wrong line that an error shows.
WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")


def tu_file(directory: Path, name: str, part: str) -> Path:
    """The file of a part of a set."""
    return directory / f"{name}_{part}.txt"


def find_tu(directory: Path) -> tuple[Path, str] | None:
    """Find a set of graphs in a directory or in its sub-directory ``raw``.

    Returns:
        The directory of its files, and its name; None if there is no set. A set of which one file is missing is found
        too, so that the error can name that file.
    """
    for each in (directory, directory / "raw"):
        names = sorted({path.name.removesuffix(end) for end in ENDS for path in each.glob(f"*{end}")})
        if len(names) > 1:
            raise DataError(f"{each} holds several sets of graphs, {', '.join(names)}: give each its own directory")
        if names:
            return each, names[0]
    return None


def read_tu(directory: Path, name: str) -> PlainGraphs:
    """Read a set of graphs.

    Edges are sorted, so the order of lines does not matter. Edges from a node to itself and repeated edges are skipped,
    as in torch_geometric. Edges without their reverse are kept, with a note.

    The names of the files in the directory begin with `name`.
    """
    paths = {part: tu_file(directory, name, part) for part in (*REQUIRED, *OPTIONAL)}
    for part, other in (REQUIRED, REQUIRED[::-1]):
        if not paths[part].is_file():
            raise DataError(f"{paths[part]} is missing; a set of graphs has it beside {paths[other].name}")
    columns = {"A": 2, "graph_indicator": 1, "graph_labels": 1}
    tables = {
        part: read_table(path, np.float64 if part == "node_attributes" else np.int64, columns.get(part))
        for part, path in paths.items()
        if path.is_file()
    }

    indicator = tables["graph_indicator"][:, 0]
    graph_labels = tables["graph_labels"][:, 0] if "graph_labels" in tables else None
    nodes_of = _nodes_of_graphs(indicator, graph_labels, paths)
    order = np.argsort(indicator, kind="stable")  # The nodes of a graph one after the other.
    if "node_attributes" in tables:
        _check_range(tables["node_attributes"], paths["node_attributes"])
    for part in ("node_labels", "node_attributes"):
        if part in tables:
            _check_length(tables[part], len(indicator), paths[part], paths["graph_indicator"])
            tables[part] = tables[part][order]

    node_start = starts_of(nodes_of)
    edges, edge_start, notes = _edges(tables["A"], indicator, order, node_start, paths)
    notes += [f"{what} are not used" for part, what in UNUSED.items() if tu_file(directory, name, part).exists()]
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
    """Write a set of graphs to a new or empty directory, in the form that `read_tu` reads, under its name."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DataError(f"graphs are written to a new directory: expected a new or empty one, got {directory}")
    if not graphs.edges.shape[1]:
        raise DataError(f"{graphs.name}: graphs are written as lists of edges: expected at least one, got none")
    tables: dict[str, tuple[NDArray[Any] | None, str]] = {
        "graph_indicator": (np.repeat(np.arange(1, len(graphs) + 1), np.diff(graphs.node_start)), "%d"),
        "graph_labels": (None if graphs.labels is None else np.array(graphs.classes, int)[graphs.labels], "%d"),
        "node_labels": (graphs.node_labels, "%d"),
        "node_attributes": (graphs.node_attributes, "%.9g"),  # Enough digits for every float32 number.
        "A": ((graphs.edge_rows() + 1).T, "%d"),  # Written last: without it there is no set.
    }
    directory.mkdir(parents=True, exist_ok=True)
    for part, (table, form) in tables.items():
        if table is not None:
            with whole_file(tu_file(directory, directory.name, part)) as file:
                np.savetxt(file, table, fmt=form, delimiter=", ")


def read_table(path: Path, dtype: type[np.int64] | type[np.float64], columns: int | None) -> NDArray[Any]:
    """Read a text file of numbers separated by commas, as [line, column]. Errors name the first wrong line.

    Args:
        path: The file.
        dtype: Whole numbers, or finite numbers.
        columns: Count of numbers in a line; None: as many as in the first line.
    """
    try:
        content = path.read_bytes().rstrip()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if not content:
        raise DataError(f"{path} is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy 1 truncates fractions to whole numbers.
            table = np.loadtxt(path, dtype, delimiter=",", comments=None, ndmin=2, encoding="latin-1")
    except ValueError:
        raise _wrong_line(path, content, dtype, columns) from None
    # loadtxt skips empty lines, so numbers after one would go to the wrong node.
    if (
        len(table) != content.count(b"\n") + 1
        or table.shape[1] != (columns or table.shape[1])
        or not np.isfinite(table).all()
    ):
        raise _wrong_line(path, content, dtype, columns)
    return table


def _wrong_line(path: Path, content: bytes, dtype: type[np.int64] | type[np.float64], columns: int | None) -> DataError:
    """Search the first wrong line. This is slow, so it is done only if there is one."""
    lines = content.decode("latin-1").split("\n")
    count = columns or lines[0].count(",") + 1
    what = "whole number" if dtype is np.int64 else "finite number"
    wanted = f"a {what}" if count == 1 else f"{count} {what}s separated by commas"
    for number, line in enumerate(lines, 1):
        fields = line.split(",")
        if len(fields) != count or not all(_is_number(field, dtype) for field in fields):
            text = line.strip()
            shown = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...") if text else "an empty line"
            return DataError(f"{path}, line {number}: expected {wanted}, got {shown}")
    return DataError(f"{path}: expected lines of {wanted}, each with a line ending")


def _is_number(field: str, dtype: type[np.int64] | type[np.float64]) -> bool:
    if dtype is np.int64:
        return WHOLE.fullmatch(field) is not None
    try:
        return "_" not in field and bool(np.isfinite(float(field)))
    except ValueError:
        return False


def _nodes_of_graphs(
    indicator: NDArray[np.int64], graph_labels: NDArray[np.int64] | None, paths: dict[str, Path]
) -> NDArray[np.int64]:
    """The number of nodes of each graph. Refuse graphs that are not 1..N, and graphs without nodes."""
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
    """The sorted edges as numbers of nodes within their graph, the first edge of each graph, and notes for the user."""
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
        notes.append(f"{loops} edges from a node to itself were skipped")
        source, target = source[source != target], target[source != target]
    keys = np.unique(source * nodes + target)
    if repeats := len(source) - len(keys):
        notes.append(f"{repeats} repeated edges were skipped")
    source, target = np.divmod(keys, nodes)
    reverse = np.sort(target * nodes + source)
    if not np.array_equal(keys, reverse):
        lone = int(np.isin(keys, reverse, assume_unique=True, invert=True).sum())
        notes.append(f"{lone} of {len(keys)} edges have no reverse edge, and are read as they are")
    edge_start = np.searchsorted(source, node_start).astype(np.int64)
    first = np.repeat(node_start[:-1], np.diff(edge_start))
    return np.stack([source - first, target - first]).astype(np.int32), edge_start, notes
