"""Nodes that a network of so many layers cannot tell apart: one stands for all of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pucl.data.graphs import GraphSet

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Twins:
    """Which nodes differ, and how many of each there are.

    Args:
        start: int64 [graph + 1]; graph g has the entries ``start[g]`` up to ``start[g + 1]``.
        first: int64 [distinct], the first of each kind of node, as a number inside of its graph, rising.
        copies: float32 [distinct], how many of the kind its graph has.
    """

    start: NDArray[np.int64]
    first: NDArray[np.int64]
    copies: NDArray[np.float32]

    @property
    def share(self) -> float:
        """Distinct nodes over all."""
        return len(self.first) / float(self.copies.sum(dtype=np.float64))


def find_twins(graphs: "GraphSet", depth: int) -> Twins:
    r"""Nodes of one graph with equal features whose surroundings are equal up to this many steps.

    A node's colour begins as its graph and its features, and takes in those of its neighbours with every step, as in
    the test of Weisfeiler and Leman:

    .. math:: c_i^{(l + 1)} = h\bigl(c_i^{(l)} + h\bigl(\textstyle\sum_{j \to i} h(c_j^{(l)})\bigr)\bigr).

    What a network computes by sums over neighbours is the same for nodes of one colour. (It may be so for others too: a
    sum of a node and its neighbours hides which of them is which.)

    Args:
        graphs: The graphs.
        depth: How many steps, which is how many layers the network has.

    Note:
        Colours are hashes h of 64 bits. That two different ones among a million are taken for equal happens once in
        thirty million data sets.
    """
    graph_of = np.repeat(np.arange(len(graphs)), np.diff(graphs.node_start))
    colour = _mixed(graph_of.astype(np.uint64))
    values = graphs.values + np.float32(0)  # Which turns -0 into 0.
    for column in (*values.view(np.uint32).T, *graphs.kinds.T):
        colour = _mixed(colour + _mixed(column.astype(np.uint64)))
    source, target = graphs.edges + np.repeat(graphs.node_start[:-1], np.diff(graphs.edge_start))
    order = np.argsort(target, kind="stable")
    source, ends = source[order], np.cumsum(np.bincount(target, minlength=graphs.nodes))
    for _ in range(depth):
        # Sums of 64 bits wrap around, and so do their differences.
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(colour)[source], dtype=np.uint64)])[ends]
        colour = _mixed(colour + _mixed(np.diff(sums, prepend=np.uint64(0))))
    _, first, copies = np.unique(colour, return_index=True, return_counts=True)
    order = np.argsort(first)
    first = first[order]
    counts = np.bincount(graph_of[first], minlength=len(graphs))
    return Twins(
        start=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        first=first - graphs.node_start[graph_of[first]],
        copies=copies[order].astype(np.float32),
    )


def _mixed(numbers: Hashes) -> Hashes:
    """Every bit of the number has a part in every bit of this one: the end of splitmix64, after its step."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
