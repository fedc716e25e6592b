"""Graphs without the nodes that a network of so many layers cannot tell apart: one stands for all of them."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pucl.graphs.graphset import GraphSet

Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]


def fold(graphs: GraphSet, depth: int) -> GraphSet:
    r"""The same graphs with one node of each kind, which says how many it stands for.

    Nodes are of one kind if they are of one graph, and their features and surroundings are equal up to `depth` steps.
    What a network of so many layers computes by sums over neighbours is the same for all of them, so it needs to be
    computed once. An edge leads to a kind from each kind among the neighbours of its nodes, and says how many of these
    neighbours there are.

    Sums over the nodes of a folded graph, each times its ``copies``, are those over the nodes of the graph itself; and
    so are sums over the edges that come to a node, each times its ``edge_copies``.

    Args:
        graphs: The graphs.
        depth: How many layers the network has.

    Note:
        Nodes of one kind have neighbours that are equal up to ``depth - 1`` steps, but these need not be of one kind.
        The edges are those of the first node, which serves all layers: layer l asks of a neighbour no more than what
        its first l - 1 steps show.
    """
    if graphs.copies is not None:
        raise ValueError(f"{graphs.name}: graphs are folded once, got some that are already")
    kind_of, first = _kinds(_colours(graphs, depth))
    graph_of = np.repeat(np.arange(len(graphs)), np.diff(graphs.node_start))
    source, target = graphs.edge_rows()
    kept = first[kind_of[target]] == target
    pair, edge_copies = np.unique(kind_of[target[kept]] * len(first) + kind_of[source[kept]], return_counts=True)
    to_kind, from_kind = np.divmod(pair, len(first))
    node_start = _starts(graph_of[first], len(graphs))
    graph_of_edge = graph_of[first[to_kind]]
    return replace(
        graphs,
        node_start=node_start,
        edge_start=_starts(graph_of_edge, len(graphs)),
        edges=(np.stack([from_kind, to_kind]) - node_start[graph_of_edge]).astype(np.int32),
        values=graphs.values[first],
        kinds=graphs.kinds[first],
        copies=np.bincount(kind_of).astype(np.float32),
        edge_copies=edge_copies.astype(np.float32),
    )


def _colours(graphs: GraphSet, depth: int) -> Hashes:
    r"""A number for each node, equal for nodes of one kind.

    A node's colour begins as its graph and its features, and takes in those of its neighbours with every step, as in
    the test of Weisfeiler and Leman:

    .. math:: c_i^{(l + 1)} = h\bigl(c_i^{(l)} + h\bigl(\textstyle\sum_{j \to i} h(c_j^{(l)})\bigr)\bigr).

    Colours are hashes h of 64 bits. That two different ones among a million are taken for equal happens once in thirty
    million data sets.
    """
    colour = _mixed(np.repeat(np.arange(len(graphs), dtype=np.uint64), np.diff(graphs.node_start)))
    values = graphs.values + np.float32(0)  # Which turns -0 into 0.
    for column in (*values.view(np.uint32).T, *graphs.kinds.T):
        colour = _mixed(colour + _mixed(column.astype(np.uint64)))
    source, target = graphs.edge_rows()
    order = np.argsort(target, kind="stable")
    source, ends = source[order], np.cumsum(np.bincount(target, minlength=graphs.nodes))
    for _ in range(depth):
        # Sums of 64 bits wrap around, and so do their differences.
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(colour)[source], dtype=np.uint64)])[ends]
        colour = _mixed(colour + _mixed(np.diff(sums, prepend=np.uint64(0))))
    return colour


def _kinds(colour: Hashes) -> tuple[Places, Places]:
    """The kind of each node, and the first node of each kind; kinds come in the order of these."""
    _, first, place = np.unique(colour, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[place], first[order]


def _starts(graph_of: Places, graphs: int) -> Places:
    """Where each graph begins, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(graph_of, minlength=graphs))])


def _mixed(numbers: Hashes) -> Hashes:
    """Every bit of the number has a part in every bit of this one: the end of splitmix64, after its step."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
