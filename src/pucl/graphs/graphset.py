"""Sets of graphs, stored as a few flat arrays, and batches of graphs for encoders."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.errors import DataError, ExtraMissingError
from pucl.data.labels import check_labels, classes_text
from pucl.graphs.encoders.lists import Lists, lists_of
from pucl.shapes import Float, Int, Tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from pucl.graphs.features import NodeFeatures

Indices = Sequence[int] | NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Several graphs as one graph of separate components.

    Args:
        x: Features of all nodes, graph after graph.
        edge_index: Edges as rows of ``x``: from, to.
        graph_of: The graph of each node, 0 to ``graphs - 1``, in rising order.
        graphs: Number of graphs.
        copies: The number of equal nodes that each node stands for; None: one. See `pucl.graphs.folding.fold`.
        edge_copies: The number of edges that each edge stands for; None: one.
    """

    x: Float[Tensor, "node feature"]
    edge_index: Int[Tensor, "2 edge"]
    graph_of: Int[Tensor, " node"]
    graphs: int
    copies: Float[Tensor, " node"] | None = None
    edge_copies: Float[Tensor, " edge"] | None = None

    def __repr__(self) -> str:
        nodes, features = self.x.shape
        return (
            f"GraphBatch({self.graphs:,} graphs, {nodes:,} nodes, {self.edge_index.shape[1]:,} edges, {features:,} "
            f"features of a node, {self.x.device})"
        )

    def to(self, device: torch.device | str) -> "GraphBatch":
        """The same on another device."""
        device = torch.device(device)
        if self.x.device == self.edge_index.device == self.graph_of.device == device:
            return self
        return replace(
            self,
            x=self.x.to(device),
            edge_index=self.edge_index.to(device),
            graph_of=self.graph_of.to(device),
            copies=None if self.copies is None else self.copies.to(device),
            edge_copies=None if self.edge_copies is None else self.edge_copies.to(device),
        )

    @cached_property
    def neighbour_lists(self) -> tuple[Lists, Lists]:
        """For each node, the sources of its incoming edges, and the targets of its outgoing edges."""
        (source, target), nodes = self.edge_index, len(self.x)
        return lists_of(target, source, nodes, self.edge_copies), lists_of(source, target, nodes, self.edge_copies)

    @cached_property
    def node_lists(self) -> Lists:
        """The nodes of each graph."""
        return lists_of(self.graph_of, None, self.graphs, self.copies)


class _Neighbours(NamedTuple):
    """The neighbours of all nodes of a set in one direction, node after node.

    Args:
        members: int32 [edge], numbers of nodes within their graph.
        counts: int64 [node], the number of neighbours of each node.
        copies: float32 [edge], how often each neighbour counts; None: once.
    """

    members: NDArray[np.int32]
    counts: NDArray[np.int64]
    copies: NDArray[np.float32] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Graphs:
    """Graphs of any features, in a few flat arrays.

    Graph g has the nodes ``node_start[g]`` up to ``node_start[g + 1]`` and the edges ``edge_start[g]`` up to
    ``edge_start[g + 1]``.

    Args:
        name: The name that the user gave.
        node_start: int64 [graph + 1].
        edge_start: int64 [graph + 1].
        edges: int32 [2, edge], from and to, as numbers of nodes within their graph.
        labels: int64 [graph], each an index into ``classes``; None if unknown.
        classes: Names of the classes; empty without labels.
        notes: Notes for the user, for example on skipped edges.
    """

    name: str
    node_start: NDArray[np.int64]
    edge_start: NDArray[np.int64]
    edges: NDArray[np.int32]
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_structure()
        if self.labels is not None:
            try:
                check_labels(self.labels, len(self), self.classes)
            except DataError as error:
                raise DataError(f"{self.name}: {error}") from error

    def __len__(self) -> int:
        return len(self.node_start) - 1

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}: {len(self):,} graphs, {self.nodes:,} nodes, "
            f"{self.edges.shape[1]:,} edges{classes_text(self.classes)})"
        )

    @property
    def nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return int(self.node_start[-1])

    def edge_rows(self) -> NDArray[np.int64]:
        """From and to, as indices into the nodes of all graphs."""
        return np.asarray(self.edges + np.repeat(self.node_start[:-1], np.diff(self.edge_start)))

    def check_node_table(self, what: str, table: NDArray[Any], dtype: type) -> None:
        """Refuse a table that does not have a row for each node."""
        if table.dtype != dtype or table.ndim != 2 or len(table) != self.nodes:
            raise DataError(
                f"{self.name}: {what} have a row for each node: expected {np.dtype(dtype)} [{self.nodes}, columns], "
                f"got {table.dtype} {list(table.shape)}"
            )

    def _check_structure(self) -> None:
        """Refuse graphs without nodes, and edges that leave their graph."""
        name, node_start, edge_start, edges = self.name, self.node_start, self.edge_start, self.edges
        if node_start.ndim != 1 or len(node_start) < 2 or node_start.shape != edge_start.shape:
            raise DataError(
                f"{name}: node_start and edge_start have an entry for each graph, and one more: expected equal "
                f"lengths, at least 2, got {list(node_start.shape)} and {list(edge_start.shape)}"
            )
        if edges.dtype != np.int32 or edges.ndim != 2 or len(edges) != 2:
            raise DataError(f"{name}: edges are from and to: expected int32 [2, edge], got {edges.dtype} {edges.shape}")
        for what, starts, least in (("node_start", node_start, 1), ("edge_start", edge_start, 0)):
            if starts.dtype != np.int64 or starts[0] != 0 or np.diff(starts).min() < least:
                few = np.flatnonzero(np.diff(starts) < least)
                raise DataError(
                    f"{name}: {what} begins at 0 and rises"
                    + (f" by at least {least} for each graph" if least else "")
                    + f", as int64; got {starts.dtype} from {starts[0]}"
                    + (f", and {np.diff(starts)[few[0]]} for graph {few[0]}" if len(few) else "")
                )
        if edge_start[-1] != edges.shape[1]:
            raise DataError(f"{name}: edge_start ends at the number of edges, {edges.shape[1]}, got {edge_start[-1]}")
        if edges.size:
            limit = np.repeat(np.diff(node_start), np.diff(edge_start))
            wrong = np.flatnonzero(((edges < 0) | (edges >= limit)).any(axis=0))
            if len(wrong):
                edge = int(wrong[0])
                graph = int(np.searchsorted(edge_start, edge, side="right")) - 1
                raise DataError(
                    f"{name}: edges are numbers of nodes within their graph: expected 0..{limit[edge] - 1} in graph "
                    f"{graph}, got {edges[0, edge]} to {edges[1, edge]}"
                )


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphSet(Graphs):
    """Graphs with features of their nodes, and with labels if these are known; see `Graphs` for the other arrays.

    The features of a node are its values, then its kinds as one-hot columns. A kind is stored as one number, and
    becomes columns only in a batch: for DD (334,925 nodes, 89 kinds) the columns would take 119 MB.

    Args:
        values: float32 [node, value], numerical features; may have no column.
        kinds: int32 [node, kind], features that are one of ``widths[kind]`` kinds; may have no column.
        widths: Number of one-hot columns of each kind.
        features: How the columns were made, so that other graphs can get the same columns; None if they were given.
        copies: float32 [node], the number of equal nodes that each node stands for, in folded graphs (see
            `pucl.graphs.folding.fold`); None in others.
        edge_copies: float32 [edge], the number of edges that each edge stands for, likewise.

    Example:
        >>> from pucl.graphs import load_graphs
        >>> shapes = load_graphs("shapes")
        >>> batch = shapes.batch([0, 7])
        >>> len(shapes), batch.graphs, batch.x.shape[1] == shapes.feature_count
        (400, 2, True)
    """

    values: NDArray[np.float32]
    kinds: NDArray[np.int32]
    widths: tuple[int, ...] = ()
    features: "NodeFeatures | None" = None
    copies: NDArray[np.float32] | None = None
    edge_copies: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_node_table("values", self.values, np.float32)
        self.check_node_table("kinds", self.kinds, np.int32)
        if len(self.widths) != self.kinds.shape[1]:
            raise DataError(
                f"{self.name}: widths has a number for each column of kinds: expected {self.kinds.shape[1]}, got "
                f"{len(self.widths)}"
            )
        if not self.feature_count:
            raise DataError(f"{self.name}: nodes have features: expected at least one, got neither values nor kinds")
        for column, width in enumerate(self.widths):
            least, most = int(self.kinds[:, column].min()), int(self.kinds[:, column].max())
            if least < 0 or most >= width:
                raise DataError(
                    f"{self.name}: kinds are indices of one-hot columns: expected 0..{width - 1}, got {least}..{most}"
                )
        if not np.isfinite(self.values).all():
            raise DataError(f"{self.name}: values are features of nodes: expected finite numbers, got NaN or infinity")
        if (self.copies is None) != (self.edge_copies is None):
            raise DataError(f"{self.name}: folded graphs have copies and edge_copies: expected both or neither")
        for what, copies, count in (("node", self.copies, self.nodes), ("edge", self.edge_copies, self.edges.shape[1])):
            if copies is not None and (copies.dtype != np.float32 or copies.shape != (count,)):
                raise DataError(
                    f"{self.name}: copies has a number for each {what}: expected float32 [{count}], got "
                    f"{copies.dtype} {list(copies.shape)}"
                )

    def __repr__(self) -> str:
        folded = "" if self.copies is None else ", folded"
        return (
            f"GraphSet({self.name!r}: {len(self):,} graphs, {self.nodes:,} nodes, {self.edges.shape[1]:,} edges, "
            f"{self.feature_count:,} features of a node{classes_text(self.classes)}{folded})"
        )

    @property
    def feature_count(self) -> int:
        """Number of features of a node in a batch."""
        return int(self.values.shape[1]) + sum(self.widths)

    @cached_property
    def undirected(self) -> bool:
        """Whether every edge has its reverse, equally often. Incoming and outgoing neighbours are then equal."""
        if self.edge_copies is not None:
            return False  # A leaf has one edge from its hub; the hub has one edge for all such leaves.
        rows = self.edge_rows()
        there, back = rows[0] * self.nodes + rows[1], rows[1] * self.nodes + rows[0]
        return bool(np.array_equal(np.sort(there), np.sort(back)))

    def subset(self, indices: Indices) -> "GraphSet":
        """A copy of the graphs with these indices, in this order."""
        chosen = self._chosen(indices)
        nodes, node_counts = _members(self.node_start, chosen)
        edges, edge_counts = _members(self.edge_start, chosen)
        return replace(
            self,
            node_start=starts_of(node_counts),
            edge_start=starts_of(edge_counts),
            edges=self.edges[:, edges],
            values=self.values[nodes],
            kinds=self.kinds[nodes],
            labels=None if self.labels is None else self.labels[chosen],
            copies=None if self.copies is None else self.copies[nodes],
            edge_copies=None if self.edge_copies is None else self.edge_copies[edges],
        )

    def batch(self, indices: Indices) -> GraphBatch:
        """The graphs with these indices, in this order, as tensors."""
        chosen = self._chosen(indices)
        nodes, node_counts = _members(self.node_start, chosen)
        edges, edge_counts = _members(self.edge_start, chosen)
        starts = starts_of(node_counts)
        shift = np.repeat(starts[:-1], edge_counts)  # The first node in this batch of the graph of each edge.
        copies = None if self.copies is None else torch.from_numpy(self.copies[nodes])
        batch = GraphBatch(
            x=torch.from_numpy(self._expanded(nodes)),
            edge_index=torch.from_numpy(np.take(self.edges, edges, axis=1) + shift),
            graph_of=torch.from_numpy(np.repeat(np.arange(len(chosen)), node_counts)),
            graphs=len(chosen),
            copies=copies,
            edge_copies=None if self.edge_copies is None else torch.from_numpy(self.edge_copies[edges]),
        )
        lists = [
            Lists(
                torch.from_numpy(each.members[edges] + shift),
                torch.from_numpy(starts_of(each.counts[nodes])),
                None if each.copies is None else torch.from_numpy(each.copies[edges]),
            )
            for each in self._neighbours
        ]
        # The lists are known here. The batch would sort its edges to make them.
        vars(batch)["neighbour_lists"] = lists[-1], lists[0]
        vars(batch)["node_lists"] = Lists(torch.arange(len(nodes)), torch.from_numpy(starts), copies)
        return batch

    def to_pyg(self) -> "list[Data]":
        """Each graph as a ``torch_geometric.data.Data`` with ``x``, ``edge_index`` and, if known, ``y``."""
        if self.copies is not None:
            raise DataError(f"{self.name}: torch_geometric has no folded graphs: expected graphs that are not folded")
        try:
            from torch_geometric.data import Data  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissingError("to_pyg", "torch_geometric", "graphs") from error
        graphs = []
        for number in range(len(self)):
            one = self.batch([number])
            y = None if self.labels is None else torch.tensor([self.labels[number]])
            graphs.append(Data(x=one.x, edge_index=one.edge_index.clone(), y=y))
        return graphs

    @cached_property
    def _neighbours(self) -> list[_Neighbours]:
        """Outgoing and incoming neighbours, sorted once for all batches; one of them if both are equal."""
        ends, found = self.edge_rows(), []
        for owner, member in ((0, 1),) if self.undirected else ((0, 1), (1, 0)):
            order = np.argsort(ends[owner], kind="stable")  # Edges of a graph stay together, as its nodes are.
            copies = None if self.edge_copies is None else self.edge_copies[order]
            counts = np.bincount(ends[owner], minlength=self.nodes)
            found.append(_Neighbours(self.edges[member][order], counts, copies))
        return found

    def _expanded(self, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Features of some nodes, with their kinds one-hot."""
        x = np.zeros((len(nodes), self.feature_count), np.float32)
        column = self.values.shape[1]
        if column:
            x[:, :column] = self.values[nodes]
        for number, width in enumerate(self.widths):
            x[np.arange(len(nodes)), column + self.kinds[nodes, number]] = 1
            column += width
        return x

    def _chosen(self, indices: Indices) -> NDArray[np.int64]:
        chosen = np.asarray(indices)
        if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
            raise DataError(
                f"indices choose graphs: expected whole numbers, at least one, got {chosen.dtype} {list(chosen.shape)}"
            )
        chosen = chosen.astype(np.int64, copy=False)
        least, most = chosen.min(), chosen.max()
        if least < 0 or most >= len(self):
            raise DataError(f"indices choose graphs: expected 0..{len(self) - 1}, got {least}..{most}")
        return chosen


def starts_of(counts: Indices) -> NDArray[np.int64]:
    """The start of each of several ranges of these lengths, and the end of the last: [0, c_0, c_0 + c_1, ...]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _members(starts: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the nodes or edges of these graphs, and the number that each graph has."""
    counts = starts[chosen + 1] - starts[chosen]
    ends = np.cumsum(counts)
    return np.repeat(starts[chosen] - ends + counts, counts) + np.arange(ends[-1]), counts
