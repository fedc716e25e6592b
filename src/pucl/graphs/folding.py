"""Folded graphs: nodes that a network cannot distinguish become one node, which says how many it stands for."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pucl.data.choosing import splitmix64
from pucl.graphs.graphset import GraphSet, starts_of

Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]


def fold(graphs: GraphSet, depth: int) -> GraphSet:
    r"""Keep one node of each kind, with the number of nodes of that kind.

    Two nodes of a graph are of one kind if their features are equal and their neighbourhoods are equal up to `depth`
    steps. A network of `depth` layers that sums over neighbours computes the same vector for both, so it needs to be
    computed only once. An edge leads from a kind to a kind, and has the number of such neighbours that one node has.

    A sum over the nodes of a folded graph, each times its ``copies``, equals the sum over the nodes of the original
    graph. Likewise for sums over the incoming edges of a node, each times its ``edge_copies``.

    Args:
        graphs: The graphs.
        depth: Number of layers of the network.

    Note:
        The edges of a kind are those of its first node. The neighbours of other nodes of the kind are equal to these up
        to ``depth - 1`` steps, but may be of other kinds. This makes no difference: layer l uses of a neighbour only
        what its first l - 1 steps show.
    """
    if graphs.copies is not None:
        raise ValueError(f"{graphs.name}: graphs can be folded once: expected graphs that are not folded")
    kind_of, first = _kinds(_colours(graphs, depth))
    graph_of = np.repeat(np.arange(len(graphs)), np.diff(graphs.node_start))
    source, target = graphs.edge_rows()
    kept = first[kind_of[target]] == target
    pair, edge_copies = np.unique(kind_of[target[kept]] * len(first) + kind_of[source[kept]], return_counts=True)
    to_kind, from_kind = np.divmod(pair, len(first))
    node_start = starts_of(np.bincount(graph_of[first], minlength=len(graphs)))
    graph_of_edge = graph_of[first[to_kind]]
    return replace(
        graphs,
        node_start=node_start,
        edge_start=starts_of(np.bincount(graph_of_edge, minlength=len(graphs))),
        edges=(np.stack([from_kind, to_kind]) - node_start[graph_of_edge]).astype(np.int32),
        values=graphs.values[first],
        kinds=graphs.kinds[first],
        copies=np.bincount(kind_of).astype(np.float32),
        edge_copies=edge_copies.astype(np.float32),
    )


def _colours(graphs: GraphSet, depth: int) -> Hashes:
    r"""A number for each node: its colour, equal for nodes of one kind.

    The first colour of a node is a hash of its graph and its features. Each step adds the colours of its neighbours, as
    in the test of Weisfeiler and Leman:

    .. math:: c_i^{(l + 1)} = h\bigl(c_i^{(l)} + h\bigl(\textstyle\sum_{j \to i} h(c_j^{(l)})\bigr)\bigr).

    Colours are 64-bit hashes h. A collision among a million different colours happens in one of thirty million data
    sets.
    """
    colour = splitmix64(np.repeat(np.arange(len(graphs), dtype=np.uint64), np.diff(graphs.node_start)))
    values = graphs.values + np.float32(0)  # This turns -0 into 0.
    for column in (*values.view(np.uint32).T, *graphs.kinds.T):
        colour = splitmix64(colour + splitmix64(column.astype(np.uint64)))
    source, target = graphs.edge_rows()
    order = np.argsort(target, kind="stable")
    source, ends = source[order], np.cumsum(np.bincount(target, minlength=graphs.nodes))
    for _ in range(depth):
        # Sums of 64 bits wrap around, and so do their differences.
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(splitmix64(colour)[source], dtype=np.uint64)])[ends]
        colour = splitmix64(colour + splitmix64(np.diff(sums, prepend=np.uint64(0))))
    return colour


def _kinds(colour: Hashes) -> tuple[Indices, Indices]:
    """The kind of each node, and the first node of each kind. Kinds are in the order of their first nodes."""
    _, first, inverse = np.unique(colour, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[inverse], first[order]
