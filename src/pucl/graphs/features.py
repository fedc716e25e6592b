"""What an encoder sees of a node: its label, its attributes, its degree, or only that it is there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.labels import classes_text
from pucl.graphs.graphset import GraphSet, check_graph_labels, check_structure

CHOICES = ("default", "labels", "attributes", "labels+attributes", "degree", "ones")
"""What can be asked for, see `choose_features`."""

MOST_DEGREES = 1000
"""A degree is one-hot where all are below this, and one number otherwise, as in HCL's program."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainGraphs:
    """Graphs as they were written down, before it is decided what of a node is seen; see `GraphSet` for the arrays.

    Args:
        name: What the user called it.
        node_start: int64 [graph + 1].
        edge_start: int64 [graph + 1].
        edges: int32 [2, edge], as numbers of nodes inside of their graph.
        node_labels: int64 [node, label], any whole numbers; None where there are none.
        node_attributes: float32 [node, attribute]; None where there are none.
        labels: int64 [graph], each an index into ``classes``; None where they are not known.
        classes: Names of the classes.
        notes: What a user should know.
    """

    name: str
    node_start: NDArray[np.int64]
    edge_start: NDArray[np.int64]
    edges: NDArray[np.int32]
    node_labels: NDArray[np.int64] | None = None
    node_attributes: NDArray[np.float32] | None = None
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_structure(self.name, self.node_start, self.edge_start, self.edges)
        check_graph_labels(self.name, self.labels, len(self), self.classes)
        nodes = int(self.node_start[-1])
        for what, table, dtype in (
            ("node_labels", self.node_labels, np.int64),
            ("node_attributes", self.node_attributes, np.float32),
        ):
            if table is not None and (table.dtype != dtype or table.ndim != 2 or len(table) != nodes):
                raise DataError(
                    f"{self.name}: {what} are a row for each node: expected {np.dtype(dtype)} [{nodes}, columns], got "
                    f"{table.dtype} {list(table.shape)}"
                )

    def __len__(self) -> int:
        return len(self.node_start) - 1

    def __repr__(self) -> str:
        known = [("labels", self.node_labels), ("attributes", self.node_attributes)]
        columns = "".join(f", {table.shape[1]} node {what}" for what, table in known if table is not None)
        return (
            f"PlainGraphs({self.name!r}: {len(self):,} graphs, {int(self.node_start[-1]):,} nodes, "
            f"{self.edges.shape[1]:,} edges{columns}{classes_text(self.classes)})"
        )

    def degrees(self) -> NDArray[np.int64]:
        """How many edges leave each node."""
        rows = self.edges[0] + np.repeat(self.node_start[:-1], np.diff(self.edge_start))
        return np.bincount(rows, minlength=int(self.node_start[-1])).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NodeFeatures:
    """The columns of a node's features, as found on one set of graphs and to be kept for others.

    In this order: attributes as they are, each label one-hot, the degree one-hot, the degree as a number, a one. What
    is not wanted has no column. An encoder can read only graphs with the columns that it was trained on, so a training
    keeps these few numbers (`as_record`), and graphs that come later are read with them.

    Args:
        attributes: How many attributes.
        labels: For each label the least value, and how many values from there on have a column, in use or not.
        degrees: How many degrees, from 0, have a column; a larger degree counts as the last. 0 for no such columns.
        degree_scale: Mean and standard deviation of the degrees where a degree is one standardised number, else None.
        ones: Whether there is a column of ones.
    """

    attributes: int = 0
    labels: tuple[tuple[int, int], ...] = ()
    degrees: int = 0
    degree_scale: tuple[float, float] | None = None
    ones: bool = False

    def __repr__(self) -> str:
        parts = [f"{self.attributes} attributes"] if self.attributes else []
        if self.labels:
            parts.append(f"{len(self.labels)} labels as {sum(count for _, count in self.labels):,} columns")
        if self.degrees:
            parts.append(f"degree as {self.degrees:,} columns")
        if self.degree_scale is not None:
            parts.append("degree as a number")
        if self.ones:
            parts.append("ones")
        return f"NodeFeatures({', '.join(parts) or 'none'})"

    def as_record(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "NodeFeatures":
        """The columns that `as_record` wrote down, read back from JSON.

        Example:
            >>> features = NodeFeatures(labels=((0, 3),))
            >>> NodeFeatures.from_record(features.as_record()) == features
            True
        """
        scale = record["degree_scale"]
        return cls(
            attributes=record["attributes"],
            labels=tuple((least, count) for least, count in record["labels"]),
            degrees=record["degrees"],
            degree_scale=None if scale is None else (scale[0], scale[1]),
            ones=record["ones"],
        )


def choose_features(graphs: PlainGraphs, choice: str = "default") -> NodeFeatures:
    """Which columns the nodes of these graphs get.

    Args:
        graphs: The graphs.
        choice: One of

            - ``labels``: one-hot, from the least to the largest label in use, as torch_geometric has them (DD: 89
              columns, of which 82 are in use);
            - ``attributes``: as they are;
            - ``labels+attributes``: both, attributes first, as torch_geometric has them;
            - ``degree``: one-hot, or where a node has `MOST_DEGREES` or more neighbours one number, less the mean and
              divided by the standard deviation, as HCL has it (REDDIT-BINARY);
            - ``ones``: one column of ones, as InfoGraph has it for nodes without labels;
            - ``default``: labels; where there are none, attributes; where there are neither, degree. So InfoGraph and
              HCL read PTC, ENZYMES (without its attributes) and DD, and HCL reads REDDIT-BINARY.
    """
    if choice not in CHOICES:
        raise ValueError(f"features say what is seen of a node: expected one of {', '.join(CHOICES)}, got {choice!r}")
    if choice == "default":
        with_attributes = "degree" if graphs.node_attributes is None else "attributes"
        choice = with_attributes if graphs.node_labels is None else "labels"
    if choice == "ones":
        return NodeFeatures(ones=True)
    if choice == "degree":
        degrees = graphs.degrees()
        if degrees.max() < MOST_DEGREES:
            return NodeFeatures(degrees=int(degrees.max()) + 1)
        return NodeFeatures(degree_scale=(float(degrees.mean()), float(degrees.std(ddof=1))))
    attributes, labels = 0, []
    if "attributes" in choice:
        if graphs.node_attributes is None:
            raise DataError(f"{graphs.name} has no node attributes: features can be {_possible(graphs)}, not {choice}")
        attributes = graphs.node_attributes.shape[1]
    if "labels" in choice:
        if graphs.node_labels is None:
            raise DataError(f"{graphs.name} has no node labels: features can be {_possible(graphs)}, not {choice}")
        least, most = graphs.node_labels.min(axis=0), graphs.node_labels.max(axis=0)
        labels = [(int(low), int(high) - int(low) + 1) for low, high in zip(least, most, strict=True)]
        if (columns := sum(count for _, count in labels)) > MOST_COLUMNS:
            raise DataError(
                f"{graphs.name}: node labels become a column for each number from the least to the largest: expected "
                f"at most {MOST_COLUMNS:,} columns, got {columns:,}; number the labels without large gaps"
            )
    return NodeFeatures(attributes=attributes, labels=tuple(labels))


MOST_COLUMNS = 100_000  # Labels that are hashes or addresses would ask for more memory than there is.


def with_features(graphs: PlainGraphs, features: NodeFeatures) -> GraphSet:
    """The graphs with these columns.

    Args:
        graphs: The graphs.
        features: The columns, chosen for them or for those that an encoder was trained on.
    """
    nodes = int(graphs.node_start[-1])
    values, kinds, widths = [np.zeros((nodes, 0), np.float32)], [np.zeros((nodes, 0), np.int32)], []
    if features.attributes:
        found = 0 if graphs.node_attributes is None else graphs.node_attributes.shape[1]
        if graphs.node_attributes is None or found != features.attributes:
            raise DataError(f"{graphs.name}: expected {features.attributes} attributes for each node, got {found}")
        values.append(graphs.node_attributes)
    if features.labels:
        found = 0 if graphs.node_labels is None else graphs.node_labels.shape[1]
        if graphs.node_labels is None or found != len(features.labels):
            raise DataError(f"{graphs.name}: expected {len(features.labels)} labels for each node, got {found}")
        for column, (least, count) in enumerate(features.labels):
            labels = graphs.node_labels[:, column]
            low, high = int(labels.min()), int(labels.max())
            if low < least or high >= least + count:
                raise DataError(
                    f"{graphs.name}: node labels have a column each: expected {least}..{least + count - 1}, got "
                    f"{low}..{high}"
                )
            kinds.append((labels - least).astype(np.int32)[:, None])
            widths.append(count)
    if features.degrees or features.degree_scale:
        degrees = graphs.degrees()
        if features.degrees:
            kinds.append(np.minimum(degrees, features.degrees - 1).astype(np.int32)[:, None])
            widths.append(features.degrees)
        if features.degree_scale:
            mean, deviation = features.degree_scale
            values.append(((degrees - mean) / deviation).astype(np.float32)[:, None])
    if features.ones:
        values.append(np.ones((nodes, 1), np.float32))
    return GraphSet(
        name=graphs.name,
        node_start=graphs.node_start,
        edge_start=graphs.edge_start,
        edges=graphs.edges,
        values=np.concatenate(values, axis=1),
        kinds=np.concatenate(kinds, axis=1),
        widths=tuple(widths),
        labels=graphs.labels,
        classes=graphs.classes,
        features=features,
        notes=graphs.notes,
    )


def _possible(graphs: PlainGraphs) -> str:
    given = ["labels"] * (graphs.node_labels is not None) + ["attributes"] * (graphs.node_attributes is not None)
    return ", ".join([*given, "degree", "ones"])
