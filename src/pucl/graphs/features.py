"""Features of nodes: labels, attributes, degree, or a constant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.graphs.graphset import Graphs, GraphSet

CHOICES = ("default", "labels", "attributes", "labels+attributes", "degree", "ones")
"""The features that can be chosen, see `choose_features`."""

MOST_COLUMNS = 100_000  # Labels that are hashes or addresses would need too much memory.

MOST_DEGREES = 1000
"""Degrees are one-hot if all are below this, and one number otherwise, as in HCL's program."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlainGraphs(Graphs):
    """Graphs as they were read, before features of nodes are chosen; see `Graphs` for the other arrays.

    Args:
        node_labels: int64 [node, label], any whole numbers; None if there are none.
        node_attributes: float32 [node, attribute]; None if there are none.
    """

    node_labels: NDArray[np.int64] | None = None
    node_attributes: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.node_labels is not None:
            self.check_node_table("node_labels", self.node_labels, np.int64)
        if self.node_attributes is not None:
            self.check_node_table("node_attributes", self.node_attributes, np.float32)

    def degrees(self) -> NDArray[np.int64]:
        """The number of outgoing edges of each node."""
        return np.bincount(self.edge_rows()[0], minlength=self.nodes)


@dataclass(frozen=True, kw_only=True)
class NodeFeatures:
    """The columns of a node's features: chosen for one set of graphs, and used for others too.

    The order is: attributes, each label one-hot, the degree one-hot, the degree as a number, a one. An encoder needs
    graphs with the columns that it was trained on. So a run saves these numbers, and other graphs are read with them.

    Args:
        attributes: Number of attributes.
        labels: For each label, the smallest value and the number of columns: one for each value from there on.
        degrees: Number of degrees, from 0, that have a column. A larger degree is counted as the last. 0: no columns.
        degree_scale: Mean and standard deviation of the degrees, if the degree is one standardised number; else None.
        ones: Whether there is a column of ones.
    """

    attributes: int = 0
    labels: tuple[tuple[int, int], ...] = ()
    degrees: int = 0
    degree_scale: tuple[float, float] | None = None
    ones: bool = False

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "NodeFeatures":
        """Read the columns back from JSON.

        Example:
            >>> from dataclasses import asdict
            >>> features = NodeFeatures(labels=((0, 3),))
            >>> NodeFeatures.from_record(asdict(features)) == features
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


def choose_features(graphs: PlainGraphs, choice: str) -> NodeFeatures:
    """Choose the columns of nodes for these graphs.

    Args:
        graphs: The graphs.
        choice: One of

            - ``labels``: one-hot, from the smallest to the largest label, as in torch_geometric (DD: 89 columns, 82 of
              them in use);
            - ``attributes``: unchanged;
            - ``labels+attributes``: both, attributes first, as in torch_geometric;
            - ``degree``: one-hot; or, if a node has `MOST_DEGREES` or more neighbours, one standardised number, as in
              HCL (REDDIT-BINARY);
            - ``ones``: one column of ones, as InfoGraph has it for nodes without labels;
            - ``default``: labels; without labels, attributes; without either, degree. InfoGraph and HCL read PTC,
              ENZYMES (without its attributes) and DD this way, and HCL reads REDDIT-BINARY this way.
    """
    if choice not in CHOICES:
        raise ValueError(
            f"features are what an encoder sees of a node: expected one of {', '.join(CHOICES)}, got {choice!r}"
        )
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
                f"{graphs.name}: node labels get a column for each number from the smallest to the largest: expected "
                f"at most {MOST_COLUMNS:,} columns, got {columns:,}; number the labels without large gaps"
            )
    return NodeFeatures(attributes=attributes, labels=tuple(labels))


def with_features(graphs: PlainGraphs, features: str | NodeFeatures) -> GraphSet:
    """Give the nodes of these graphs their columns.

    Args:
        graphs: The graphs.
        features: The columns, or what to choose for these graphs, see `choose_features`. An encoder needs the columns
            that were chosen for its training graphs.
    """
    if isinstance(features, str):
        features = choose_features(graphs, features)
    values, kinds, widths = [np.zeros((graphs.nodes, 0), np.float32)], [np.zeros((graphs.nodes, 0), np.int32)], []
    if features.attributes:
        found = 0 if graphs.node_attributes is None else graphs.node_attributes.shape[1]
        if graphs.node_attributes is None or found != features.attributes:
            raise DataError(f"{graphs.name}: expected {features.attributes} attributes for each node, got {found}")
        values.append(graphs.node_attributes)
    if features.labels:
        found = 0 if graphs.node_labels is None else graphs.node_labels.shape[1]
        if graphs.node_labels is None or found != len(features.labels):
            raise DataError(f"{graphs.name}: expected {len(features.labels)} labels for each node, got {found}")
        for labels, (least, count) in zip(graphs.node_labels.T, features.labels, strict=True):
            low, high = int(labels.min()), int(labels.max())
            if low < least or high >= least + count:
                raise DataError(
                    f"{graphs.name}: node labels have a column each: expected {least}..{least + count - 1}, got "
                    f"{low}..{high}"
                )
            kinds.append((labels - least).astype(np.int32)[:, None])
            widths.append(count)
    if features.degrees:
        kinds.append(np.minimum(graphs.degrees(), features.degrees - 1).astype(np.int32)[:, None])
        widths.append(features.degrees)
    if features.degree_scale:
        mean, deviation = features.degree_scale
        values.append(((graphs.degrees() - mean) / deviation).astype(np.float32)[:, None])
    if features.ones:
        values.append(np.ones((graphs.nodes, 1), np.float32))
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
