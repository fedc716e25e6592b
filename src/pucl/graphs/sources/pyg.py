"""Graphs that the user has as torch_geometric's ``Data``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.labels import are_whole_numbers
from pucl.graphs.features import NodeFeatures, PlainGraphs, choose_features, with_features
from pucl.graphs.graphset import GraphSet
from pucl.graphs.sources.tu import write_tu


def from_pyg(graphs: Sequence[Any], *, name: str = "graphs", features: str | NodeFeatures = "default") -> GraphSet:
    """A set of graphs from objects with ``edge_index`` and, where known, ``x`` and ``y``; a whole Dataset will do.

    Args:
        graphs: ``torch_geometric.data.Data``, or whatever has these attributes: ``edge_index`` [2, edge], ``x``
            [node, feature] or, where there is none, ``num_nodes``; ``y``, one whole number. Each or none has an ``x``,
            and each or none a ``y``.
        name: What reports call it.
        features: What is seen of a node, see `choose_features`; an ``x`` counts as attributes.

    Example:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> ring = SimpleNamespace(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), x=torch.ones(3, 5), y=None)
        >>> from_pyg([ring, ring]).feature_count
        5
    """
    plain = _plain(graphs, name)
    return with_features(plain, features if isinstance(features, NodeFeatures) else choose_features(plain, features))


def save_graphs(graphs: Sequence[Any], directory: str | Path) -> None:
    """Write graphs to a directory from which they can be trained on: ``pucl train infograph DIRECTORY``.

    Args:
        graphs: As `from_pyg` takes them.
        directory: A new one. Its files are those of the TU collection.
    """
    place = Path(directory)
    write_tu(_plain(graphs, place.name), place)


def _plain(graphs: Sequence[Any], name: str) -> PlainGraphs:
    """The arrays of these objects, put together."""
    if not len(graphs):
        raise DataError(f"{name}: expected at least one graph, got none")
    parts = [_part(graph, number, name) for number, graph in enumerate(graphs)]
    edges, tables, targets, counts = zip(*parts, strict=True)
    for what, values in (("features x", tables), ("a label y", targets)):
        missing = [number for number, value in enumerate(values) if value is None]
        if missing and len(missing) < len(parts):
            raise DataError(f"{name}: each graph or none should have {what}; graph {missing[0]} has none")
    if tables[0] is not None and len(widths := {table.shape[1] for table in tables}) > 1:
        raise DataError(
            f"{name}: nodes of all graphs have the same features: expected one number, got {sorted(widths)}"
        )
    classes, labels = (None, None) if targets[0] is None else np.unique(np.array(targets), return_inverse=True)
    return PlainGraphs(
        name=name,
        node_start=np.cumsum([0, *counts], dtype=np.int64),
        edge_start=np.cumsum([0, *(edge.shape[1] for edge in edges)], dtype=np.int64),
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
            f"{name}: graph {number}: edge_index counts its nodes: expected 0..{count - 1}, got {edges.min()}.."
            f"{edges.max()}"
        )
    target = None if y is None else np.asarray(y)
    if target is not None and (target.size != 1 or not are_whole_numbers(target)):
        raise DataError(
            f"{name}: graph {number}: y is the class of the graph: expected one whole number, got {target.dtype} "
            f"{list(target.shape)}"
        )
    with np.errstate(over="ignore"):  # What becomes infinite is refused with its column.
        features = None if table is None else table.astype(np.float32)
    return (
        edges.astype(np.int32),
        features,
        None if target is None else int(target.item()),
        count,
    )
