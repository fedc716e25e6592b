"""Generated graphs of four shapes, so that a first run needs no download."""

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pucl.graphs.features import PlainGraphs
from pucl.graphs.graphset import starts_of

EACH = 100
"""Number of graphs of each class."""

FEWEST_NODES, MOST_NODES = 14, 40
EDGES_PER_NODE = (1.35, 1.65)
STRAY = 0.1
"""Smallest share of the edges that are random."""

Draw = Callable[[], float]
Edge = tuple[int, int]


def make_shapes(each: int = EACH) -> PlainGraphs:
    """Make rings with chords, grids, hubs and communities of 14 to 40 nodes. Nodes have no labels or attributes.

    The numbers of nodes and edges are drawn once for one graph of each class, so they do not reveal the class. A shape
    loses edges or gets random edges until it has that number; some edges are always random. The graphs are the same on
    every machine: only ``random`` is called, whose numbers stay the same in all versions of numpy.

    Args:
        each: Number of graphs of each class.

    Example:
        >>> graphs = make_shapes(each=2)
        >>> len(graphs), graphs.classes
        (8, ('ring', 'grid', 'hubs', 'communities'))
    """
    if each < 1:
        raise ValueError(f"each is the number of graphs of each class: expected at least 1, got {each}")
    draw = np.random.Generator(np.random.PCG64(0)).random
    nodes, edges, labels = [], [], []
    for _ in range(each):
        count = FEWEST_NODES + int((MOST_NODES - FEWEST_NODES + 1) * draw())
        least, most = EDGES_PER_NODE
        wanted = round(count * (least + (most - least) * draw()))
        for label, shape in enumerate(SHAPES.values()):
            graph = _disturbed(shape(count, draw), count, wanted, draw)
            nodes.append(count)
            edges.append(_both_ways(graph, _permutation(count, draw)))
            labels.append(label)
    return PlainGraphs(
        name="shapes",
        node_start=starts_of(nodes),
        edge_start=starts_of([table.shape[1] for table in edges]),
        edges=np.concatenate(edges, axis=1),
        labels=np.array(labels, np.int64),
        classes=tuple(SHAPES),
    )


def _ring(count: int, draw: Draw) -> list[Edge]:
    """A cycle with chords over two edges: a chain of triangles."""
    cycle = [(node, (node + 1) % count) for node in range(count)]
    return cycle + [(node, (node + 2) % count) for node in range(count) if draw() < 0.5]


def _grid(count: int, draw: Draw) -> list[Edge]:
    """Rows and columns, two to five wide: squares, no triangles."""
    width = 2 + int(draw() * min(4, math.isqrt(count) - 1))
    across = [(node, node + 1) for node in range(count - 1) if (node + 1) % width]
    return across + [(node, node + width) for node in range(count - width)]


def _hubs(count: int, draw: Draw) -> list[Edge]:
    """Each node is joined to one or two others. Nodes with many edges are chosen more often."""
    ends = [0]
    edges = []
    for node in range(1, count):
        for _ in range(1 + (draw() < 0.5)):
            other = ends[int(draw() * len(ends))]
            edges.append((other, node))
            ends.append(other)
        ends.append(node)
    return edges


def _communities(count: int, draw: Draw) -> list[Edge]:
    """Groups of about five nodes with most of their inner edges. An edge joins each group to the next."""
    groups = max(2, round(count / 5))
    members = [list(range(group, count, groups)) for group in range(groups)]
    edges = [(a, b) for group in members for a, b in itertools.combinations(group, 2) if draw() < 0.75]
    for group, following in itertools.pairwise(members):
        edges.append((group[int(draw() * len(group))], following[int(draw() * len(following))]))
    return edges


SHAPES: dict[str, Callable[[int, Draw], list[Edge]]] = {
    "ring": _ring,
    "grid": _grid,
    "hubs": _hubs,
    "communities": _communities,
}


def _disturbed(edges: list[Edge], count: int, wanted: int, draw: Draw) -> set[Edge]:
    """Remove edges and add random ones, until there are as many as wanted."""
    kept = sorted({(min(a, b), max(a, b)) for a, b in edges})
    keep = min(len(kept), round(wanted * (1 - STRAY)))
    while len(kept) > keep:
        kept.pop(int(draw() * len(kept)))
    graph = set(kept)
    while len(graph) < wanted:
        a, b = int(draw() * count), int(draw() * count)
        if a != b:
            graph.add((min(a, b), max(a, b)))
    return graph


def _permutation(count: int, draw: Draw) -> NDArray[np.int64]:
    """New numbers for the nodes, so that their order does not reveal the shape."""
    return np.argsort([draw() for _ in range(count)]).astype(np.int64)


def _both_ways(graph: set[Edge], numbers: NDArray[np.int64]) -> NDArray[np.int32]:
    """Both directions of each edge, sorted."""
    pairs = numbers[np.array(sorted(graph))]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return np.ascontiguousarray(both[np.lexsort((both[:, 1], both[:, 0]))].T.astype(np.int32))
