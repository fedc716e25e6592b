"""Graphs of all sizes as a few flat arrays, and a batch of them as what an encoder takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.labels import classes_text
from pucl.graphs.encoders.lists import Lists
from pucl.shapes import Float, Int, Tensor
from pucl.texts import install

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from pucl.graphs.features import NodeFeatures

Indices = Sequence[int] | NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Some graphs as one graph of separate parts.

    Args:
        x: Features of all nodes, graph after graph.
        edge_index: Edges as rows of ``x``: from, to.
        graph_of: The graph of each node, 0 to ``graphs - 1``, rising.
        graphs: How many graphs.
        copies: How many equal nodes each one stands for; None for one. See `pucl.graphs.folding.fold`.
        edge_copies: How many edges to the node that it leads to each one stands for; None for one.

    Attributes:
        neighbour_lists: What encoders need of the edges: for each node those from which edges come to it, and those to
            which edges go. None: they find it out by themselves. Only batches of a `GraphSet` have them, as they came;
            one with something else in the place of its edges or nodes (`dataclasses.replace`) does not.
        node_lists: Likewise the nodes of each graph.
    """

    x: Float[Tensor, "node feature"]
    edge_index: Int[Tensor, "2 edge"]
    graph_of: Int[Tensor, " node"]
    graphs: int
    copies: Float[Tensor, " node"] | None = None
    edge_copies: Float[Tensor, " edge"] | None = None
    neighbour_lists: tuple[Lists, Lists] | None = field(default=None, init=False)
    node_lists: Lists | None = field(default=None, init=False)

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
        batch = replace(
            self,
            x=self.x.to(device),
            edge_index=self.edge_index.to(device),
            graph_of=self.graph_of.to(device),
            copies=None if self.copies is None else self.copies.to(device),
            edge_copies=None if self.edge_copies is None else self.edge_copies.to(device),
        )
        if self.neighbour_lists is None or self.node_lists is None:
            return batch
        incoming, outgoing = self.neighbour_lists
        return batch.with_lists((incoming.to(device), outgoing.to(device)), self.node_lists.to(device))

    def with_lists(self, neighbours: tuple[Lists, Lists], nodes: Lists) -> "GraphBatch":
        """This batch, told what comes of its edges and graphs."""
        object.__setattr__(self, "neighbour_lists", neighbours)
        object.__setattr__(self, "node_lists", nodes)
        return self


class _Edges(NamedTuple):
    """The edges of a set with what comes of sorting them, so that a batch takes its part of all of it at once.

    There are lists of neighbours for both directions, by source and by target, or for one if they are the same.

    Args:
        table: int32 [row, edge]: from, to, and neighbours of one node after the other, as numbers of nodes inside of
            their graph. The edges of a graph are in the same columns of every row.
        rows: In which of them the neighbours of each direction are: one of the first two, where edges are stored so.
        counts: int64 [direction, node], how many neighbours each has.
        copies: float32 [1 + direction, edge]: how often each edge counts, and each neighbour; None for once.
    """

    table: NDArray[np.int32]
    rows: list[int]
    counts: NDArray[np.int64]
    copies: NDArray[np.float32] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphSet:
    """Graphs with features of their nodes, and labels where they are known.

    Graph g has the nodes ``node_start[g]`` up to ``node_start[g + 1]`` and the edges ``edge_start[g]`` up to
    ``edge_start[g + 1]``. The features of a node are its numbers followed by its kinds, each of these one-hot. Kinds
    are kept as numbers and become columns in a batch only: DD's 334,925 nodes of 89 kinds would take 119 MB.

    Args:
        name: What the user called it.
        node_start: int64 [graph + 1].
        edge_start: int64 [graph + 1].
        edges: int32 [2, edge], from and to, as numbers of nodes inside of their graph.
        values: float32 [node, value], features that are numbers; may have no column.
        kinds: int32 [node, kind], features that are one of ``widths[kind]`` kinds; may have no column.
        widths: How many columns each kind has.
        labels: int64 [graph], each an index into ``classes``; None where they are not known.
        classes: Names of the classes; empty where there are no labels.
        features: What the columns were made from, so that other graphs can have the same; None where they were given.
        notes: What a user should know, e.g. edges that were left out.
        copies: float32 [node], how many equal nodes each one stands for in graphs that were folded, see
            `pucl.graphs.folding.fold`; None in others.
        edge_copies: float32 [edge], how many edges each one stands for there.

    Example:
        >>> from pucl.graphs import load_graphs
        >>> shapes = load_graphs("shapes")
        >>> batch = shapes.batch([0, 7])
        >>> len(shapes), batch.graphs, batch.x.shape[1] == shapes.feature_count
        (400, 2, True)
    """

    name: str
    node_start: NDArray[np.int64]
    edge_start: NDArray[np.int64]
    edges: NDArray[np.int32]
    values: NDArray[np.float32]
    kinds: NDArray[np.int32]
    widths: tuple[int, ...] = ()
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    features: "NodeFeatures | None" = None
    notes: tuple[str, ...] = ()
    copies: NDArray[np.float32] | None = None
    edge_copies: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        check_structure(self.name, self.node_start, self.edge_start, self.edges)
        nodes = int(self.node_start[-1])
        for what, table, dtype in (("values", self.values, np.float32), ("kinds", self.kinds, np.int32)):
            if table.dtype != dtype or table.ndim != 2 or len(table) != nodes:
                raise DataError(
                    f"{self.name}: {what} are a row for each node: expected {np.dtype(dtype)} [{nodes}, columns], got "
                    f"{table.dtype} {list(table.shape)}"
                )
        if len(self.widths) != self.kinds.shape[1]:
            raise DataError(
                f"{self.name}: widths are one for each column of kinds: expected {self.kinds.shape[1]}, got "
                f"{len(self.widths)}"
            )
        if not self.feature_count:
            raise DataError(f"{self.name}: nodes must have at least one feature, got neither values nor kinds")
        for column, width in enumerate(self.widths):
            least, most = int(self.kinds[:, column].min()), int(self.kinds[:, column].max())
            if least < 0 or most >= width:
                raise DataError(
                    f"{self.name}: kinds are columns of a one-hot: expected 0..{width - 1}, got {least}..{most}"
                )
        if not np.isfinite(self.values).all():
            raise DataError(f"{self.name}: values are features of nodes: expected finite numbers, got NaN or infinity")
        if (self.copies is None) != (self.edge_copies is None):
            raise DataError(f"{self.name}: folded graphs have copies of nodes and of edges: expected both or neither")
        for what, copies, count in (("node", self.copies, nodes), ("edge", self.edge_copies, self.edges.shape[1])):
            if copies is not None and (copies.dtype != np.float32 or copies.shape != (count,)):
                raise DataError(
                    f"{self.name}: copies are one number for each {what}: expected float32 [{count}], got "
                    f"{copies.dtype} {list(copies.shape)}"
                )
        check_graph_labels(self.name, self.labels, len(self), self.classes)

    def __len__(self) -> int:
        return len(self.node_start) - 1

    def __repr__(self) -> str:
        folded = "" if self.copies is None else ", folded"
        return (
            f"GraphSet({self.name!r}: {len(self):,} graphs, {self.nodes:,} nodes, {self.edges.shape[1]:,} edges, "
            f"{self.feature_count:,} features of a node{classes_text(self.classes)}{folded})"
        )

    @property
    def nodes(self) -> int:
        """How many nodes all graphs have together."""
        return int(self.node_start[-1])

    @property
    def feature_count(self) -> int:
        """How many features a node has in a batch."""
        return int(self.values.shape[1]) + sum(self.widths)

    @cached_property
    def undirected(self) -> bool:
        """Whether every edge is there in both directions, equally often: neighbours are then the same both ways."""
        if self.edge_copies is not None:
            return False  # A leaf has one edge from its hub, the hub one for all such leaves.
        rows = self.edge_rows()
        there, back = rows[0] * self.nodes + rows[1], rows[1] * self.nodes + rows[0]
        return bool(np.array_equal(np.sort(there), np.sort(back)))

    def edge_rows(self) -> NDArray[np.int64]:
        """From and to, as numbers of nodes among those of all graphs."""
        return np.asarray(self.edges + np.repeat(self.node_start[:-1], np.diff(self.edge_start)))

    def subset(self, indices: Indices) -> "GraphSet":
        """The graphs with these numbers, copied, in this order."""
        chosen = self._chosen(indices)
        nodes, edges, counts = self._rows(chosen)
        return GraphSet(
            name=self.name,
            node_start=_starts(counts[0]),
            edge_start=_starts(counts[1]),
            edges=np.take(self.edges, edges, axis=1),
            values=self.values[nodes],
            kinds=self.kinds[nodes],
            widths=self.widths,
            labels=None if self.labels is None else self.labels[chosen],
            classes=self.classes,
            features=self.features,
            notes=self.notes,
            copies=None if self.copies is None else self.copies[nodes],
            edge_copies=None if self.edge_copies is None else self.edge_copies[edges],
        )

    def batch(self, indices: Indices) -> GraphBatch:
        """The graphs with these numbers, in this order, as tensors."""
        chosen = self._chosen(indices)
        nodes, edges, counts = self._rows(chosen)
        starts = _starts(counts[0])
        shift = np.repeat(starts[:-1], counts[1])  # To where the graph of the edge begins in this batch.
        table = torch.from_numpy(np.take(self._edges.table, edges, axis=1) + shift)
        begins = np.zeros((len(self._edges.rows), len(nodes) + 1), np.int64)
        np.cumsum(np.take(self._edges.counts, nodes, axis=1), axis=1, out=begins[:, 1:])
        often = None if self._edges.copies is None else torch.from_numpy(np.take(self._edges.copies, edges, axis=1))
        lists = [
            Lists(table[row], torch.from_numpy(begins[way]), None if often is None else often[1 + way])
            for way, row in enumerate(self._edges.rows)
        ]
        copies = None if self.copies is None else torch.from_numpy(self.copies[nodes])
        batch = GraphBatch(
            x=torch.from_numpy(self._expanded(nodes)),
            edge_index=table[:2],
            graph_of=torch.from_numpy(np.repeat(np.arange(len(chosen)), counts[0])),
            graphs=len(chosen),
            copies=copies,
            edge_copies=None if often is None else often[0],
        )
        of_graphs = Lists(torch.from_numpy(np.arange(len(nodes))), torch.from_numpy(starts), copies)
        return batch.with_lists((lists[-1], lists[0]), of_graphs)

    def to_pyg(self) -> "list[Data]":
        """Each graph as a ``torch_geometric.data.Data`` with ``x``, ``edge_index`` and, where known, ``y``."""
        if self.copies is not None:
            raise DataError(f"{self.name}: torch_geometric has no nodes that stand for several: got folded graphs")
        try:
            from torch_geometric.data import Data  # noqa: PLC0415
        except ImportError as error:
            raise DataError(
                f"graphs for torch_geometric need torch_geometric, which is not installed: {install('graphs')}"
            ) from error
        graphs = []
        for number in range(len(self)):
            one = self.batch([number])
            y = None if self.labels is None else torch.tensor([self.labels[number]])
            graphs.append(Data(x=one.x, edge_index=one.edge_index.clone(), y=y))
        return graphs

    @cached_property
    def _ranges(self) -> NDArray[np.int64]:
        """Where the nodes and the edges of each graph begin, and the ends of the last: [2, graph + 1]."""
        return np.stack([self.node_start, self.edge_start])

    def _rows(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the nodes and of the edges of these graphs, without a loop over them, and how many each has."""
        begins = np.take(self._ranges, chosen, axis=1)
        counts = np.take(self._ranges, chosen + 1, axis=1) - begins
        ends = np.cumsum(counts, axis=1)
        shift = begins - ends + counts
        nodes, edges = (np.repeat(shift[of], counts[of]) + np.arange(ends[of, -1]) for of in (0, 1))
        return nodes, edges, counts

    @cached_property
    def _edges(self) -> _Edges:
        """Sorted once for all batches."""
        ends = self.edge_rows()
        table, rows, counts, copies = [*self.edges], [], [], [self.edge_copies]
        for owner, member in ((0, 1),) if self.undirected else ((0, 1), (1, 0)):
            order = np.argsort(ends[owner], kind="stable")  # Edges of a graph stay together, as its nodes are.
            if np.array_equal(order, np.arange(len(order))):
                rows.append(member)
            else:
                rows.append(len(table))
                table.append(self.edges[member][order])
            counts.append(np.bincount(ends[owner], minlength=self.nodes))
            copies.append(None if self.edge_copies is None else self.edge_copies[order])
        often = [each for each in copies if each is not None]
        return _Edges(np.stack(table), rows, np.stack(counts), np.stack(often) if often else None)

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
        least, most = np.minimum.reduce(chosen), np.maximum.reduce(chosen)
        if least < 0 or most >= len(self):
            raise DataError(f"indices choose graphs: expected 0..{len(self) - 1}, got {least}..{most}")
        return chosen


def check_structure(
    name: str, node_start: NDArray[np.int64], edge_start: NDArray[np.int64], edges: NDArray[np.int32]
) -> None:
    """Refuse graphs without a node, and edges that lead out of their graph."""
    if node_start.ndim != 1 or len(node_start) < 2 or node_start.shape != edge_start.shape:
        raise DataError(
            f"{name}: node_start and edge_start have an entry for each graph and one more: expected the same number, "
            f"two at least, got {list(node_start.shape)} and {list(edge_start.shape)}"
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
                f"{name}: edges are numbers of nodes inside of their graph: expected 0..{limit[edge] - 1} in graph "
                f"{graph}, got {edges[0, edge]} to {edges[1, edge]}"
            )


def check_graph_labels(name: str, labels: NDArray[np.int64] | None, count: int, classes: tuple[str, ...]) -> None:
    """Refuse labels that are not an index into the classes for each graph."""
    if labels is None:
        return
    if labels.dtype != np.int64 or labels.shape != (count,):
        raise DataError(
            f"{name}: labels are one class for each graph: expected int64 [{count}], got {labels.dtype} "
            f"{list(labels.shape)}"
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if len(wrong):
        raise DataError(
            f"{name}: labels are indices into classes: expected 0..{len(classes) - 1}, got {labels[wrong[0]]} for "
            f"graph {wrong[0]}"
        )


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
