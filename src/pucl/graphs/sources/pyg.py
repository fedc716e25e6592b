"""Graphs from torch_geometric's ``Data``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.labels import are_whole_numbers
from pucl.graphs.features import NodeFeatures, PlainGraphs, with_features
from pucl.graphs.graphset import GraphSet, starts_of
from pucl.graphs.sources.tu import write_tu


def from_pyg(graphs: Sequence[Any], *, name: str = "graphs", features: str | NodeFeatures = "default") -> GraphSet:
    """Make a set of graphs from objects with ``edge_index`` and, if known, ``x`` and ``y``.

    Args:
        graphs: A list or Dataset of ``torch_geometric.data.Data``, or of other objects with these attributes:
            ``edge_index`` [2, edge]; ``x`` [node, feature] or, without it, ``num_nodes``; ``y``, one whole number. All
            graphs or none have an ``x``, and all or none have a ``y``.
        name: Its name in reports.
        features: The features of a node, see `choose_features`; ``x`` counts as attributes.

    Example:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> ring = SimpleNamespace(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), x=torch.ones(3, 5), y=None)
        >>> from_pyg([ring, ring]).feature_count
        5
    """
    return with_features(_plain(graphs, name), features)


def save_graphs(graphs: Sequence[Any], directory: str | Path) -> None:
    """Write graphs to a directory, for ``pucl train infograph DIRECTORY``.

    Args:
        graphs: Graphs as `from_pyg` takes them.
        directory: A new directory. It gets the files of the TU collection's form.
    """
    directory = Path(directory)
    write_tu(_plain(graphs, directory.name), directory)


def _plain(graphs: Sequence[Any], name: str) -> PlainGraphs:
    """Concatenate the arrays of these objects."""
    if not len(graphs):
        raise DataError(f"{name}: expected at least one graph, got none")
    parts = [_part(graph, number, name) for number, graph in enumerate(graphs)]
    edges, tables, targets, counts = zip(*parts, strict=True)
    for what, values in (("features x", tables), ("a label y", targets)):
        missing = [number for number, value in enumerate(values) if value is None]
        if missing and len(missing) < len(parts):
            raise DataError(f"{name}: all graphs or none have {what}: expected one for graph {missing[0]}, got none")
    if tables[0] is not None and len(widths := {table.shape[1] for table in tables}) > 1:
        raise DataError(
            f"{name}: all nodes have the same number of features: expected one number, got {sorted(widths)}"
        )
    classes, labels = (None, None) if targets[0] is None else np.unique(np.array(targets), return_inverse=True)
    return PlainGraphs(
        name=name,
        node_start=starts_of(counts),
        edge_start=starts_of([each.shape[1] for each in edges]),
        edges=np.concatenate(edges, axis=1),
        node_attributes=None if tables[0] is None else np.concatenate(tables),
        labels=None if labels is None else labels.astype(np.int64),
        classes=() if classes is None else tuple(map(str, classes)),
    )


def _part(graph: Any, number: int, name: str) -> tuple[NDArray[np.int32], NDArray[np.float32] | None, int | None, int]:
    """Edges, features, label and number of nodes of one graph."""
    index, x, y = (getattr(graph, attribute, None) for attribute in ("edge_index", "x", "y"))
    if index is None:
        raise DataError(f"{name}: graph {number} has no edge_index: expected torch_geometric's Data, got {type(graph)}")
    edges = np.asarray(index)
    if edges.ndim != 2 or len(edges) != 2 or not are_whole_numbers(edges):
        raise DataError(
            f"{name}: graph {number}: edge_index is from and to: expected whole numbers [2, edge], got {edges.dtype} "
            f"{list(edges.shape)}"
        )
    table = None if x is None else np.asarray(x)
    if table is not None and (table.ndim != 2 or not table.shape[1]):
        raise DataError(
            f"{name}: graph {number}: x has a row for each node: expected [node, feature], got {list(table.shape)}"
        )
    count = int(getattr(graph, "num_nodes", None) or 0) if table is None else len(table)
    if not count:
        raise DataError(f"{name}: graph {number} is empty: expected at least one node")
    if edges.size and (edges.min() < 0 or edges.max() >= count):
        raise DataError(
            f"{name}: graph {number}: edge_index holds numbers of nodes: expected 0..{count - 1}, got {edges.min()}.."
            f"{edges.max()}"
        )
    target = None if y is None else np.asarray(y)
    if target is not None and (target.size != 1 or not are_whole_numbers(target)):
        raise DataError(
            f"{name}: graph {number}: y is the class of the graph: expected one whole number, got {target.dtype} "
            f"{list(target.shape)}"
        )
    with np.errstate(over="ignore"):  # Infinite values are refused later, with their column.
        features = None if table is None else table.astype(np.float32)
    return edges.astype(np.int32), features, None if target is None else int(target.item()), count
