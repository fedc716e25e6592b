"""Graphs, each drawn small enough that thousands fit into a page."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.graphs.graphset import GraphSet
from pucl.texts import base64_of

MOST_NODES = 60  # That are drawn of a graph.


ROUNDS = 40  # Of moving nodes to better places.


def drawings(graphs: GraphSet) -> dict[str, Any]:
    """Each graph as places of its nodes and the edges between them, in bytes.

    Of a graph with more than `MOST_NODES` nodes a part is drawn: its best connected node, and those that are nearest to
    it by steps.

    Returns:
        ``nodes`` and ``edges``, how many of each are drawn of every graph; ``places``, x and y as bytes; ``ends``, from
        and to; ``sizes``, how many nodes the graph has in all.
    """
    nodes, counts, places, ends = [], [], [], []
    for graph in range(len(graphs)):
        size = int(graphs.node_start[graph + 1] - graphs.node_start[graph])
        edges = graphs.edges[:, graphs.edge_start[graph] : graphs.edge_start[graph + 1]].astype(np.int64)
        kept = np.arange(size) if size <= MOST_NODES else _part_of(edges, size)
        number = np.full(size, -1)
        number[kept] = np.arange(len(kept))
        inside = number[edges]
        inside = np.sort(inside[:, (inside >= 0).all(axis=0) & (inside[0] != inside[1])], axis=0)
        inside = np.unique(inside, axis=1)
        nodes.append(len(kept))
        counts.append(inside.shape[1])
        places.append(_as_bytes(spring(inside, len(kept))))
        ends.append(inside.T.astype(np.uint8))
    return {
        "nodes": base64_of(np.array(nodes, np.uint8)),
        "edges": base64_of(np.array(counts, np.uint16)),
        "places": base64_of(np.concatenate(places)),
        "ends": base64_of(np.concatenate(ends)),
        "sizes": base64_of(np.diff(graphs.node_start).astype(np.uint32)),
    }


def _part_of(edges: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The best connected node, and others by the number of steps to it, until there are enough."""
    neighbours: dict[int, list[int]] = {}
    for start, end in edges.T.tolist():
        neighbours.setdefault(start, []).append(end)
        neighbours.setdefault(end, []).append(start)
    first = int(np.argmax(np.bincount(edges.ravel(), minlength=size)))
    found = dict.fromkeys([first])
    queue = [first]
    for node in queue:  # It grows while it is read.
        for other in neighbours.get(node, ()):
            if other not in found and len(found) < MOST_NODES:
                found[other] = None
                queue.append(other)
    return np.sort(np.array(list(found)))


def spring(edges: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Places of nodes in the plane so that distances are the numbers of steps between them, as well as may be.

    Springs between all pairs, each as strong as the inverse square of its length (Kamada and Kawai), relaxed by
    majorisation from where classical scaling puts the nodes. Nothing is random.

    Args:
        edges: [2, edge], from and to.
        size: How many nodes.

    Example:
        >>> places = spring(np.array([[0, 1], [1, 2]]), 3)  # A path is drawn as a line.
        >>> round(float(np.linalg.norm(places[0] - places[2])), 2)
        2.0
    """
    if size == 1:
        return np.zeros((1, 2))
    wanted = _steps(edges, size)
    centre = np.eye(size) - 1 / size
    sizes, directions = np.linalg.eigh(-centre @ wanted**2 @ centre / 2)
    places = directions[:, -2:] * np.sqrt(np.maximum(sizes[-2:], 1e-4))
    places *= np.where(places[np.abs(places).argmax(axis=0), [0, 1]] < 0, -1, 1)  # Libraries choose signs differently.
    places += 1e-3 * np.stack([np.cos(np.arange(size)), np.sin(np.arange(size))], axis=1)  # Twins are told apart.
    strength = np.where(np.eye(size, dtype=bool), 0, 1 / np.maximum(wanted, 1) ** 2)
    inverse = np.linalg.pinv(np.diag(strength.sum(axis=1)) - strength, hermitian=True)
    for _ in range(ROUNDS):
        distances = np.linalg.norm(places[:, None] - places[None], axis=2)
        pull = -strength * wanted / np.maximum(distances, 1e-9)
        np.fill_diagonal(pull, 0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        places = inverse @ pull @ places
    made: NDArray[np.float64] = places
    return made


def _steps(edges: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """How many steps it is from each node to each; where there is no way, a little more than the longest."""
    linked = np.eye(size, dtype=np.float32)
    linked[edges[0], edges[1]] = linked[edges[1], edges[0]] = 1
    steps = np.full((size, size), np.inf)
    reached = np.eye(size, dtype=np.float32)
    np.fill_diagonal(steps, 0)
    for step in range(1, size):
        further = np.minimum(reached @ linked, 1)
        new = (further > 0) & np.isinf(steps)
        if not new.any():
            break
        steps[new] = step
        reached = (further > 0).astype(np.float32)
    longest = steps[np.isfinite(steps)].max()
    return np.where(np.isfinite(steps), steps, max(longest, 1) * 0.75 + 1)


def _as_bytes(places: NDArray[np.float64]) -> NDArray[np.uint8]:
    """In the middle of a square of 256, as large as it can be."""
    extent = float(np.ptp(places, axis=0).max())
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    scaled = (places - middle) / extent if extent > 0 else places - middle
    made: NDArray[np.uint8] = np.clip(np.round(127.5 + 255 * scaled), 0, 255).astype(np.uint8)
    return made


def about_parts(graphs: GraphSet) -> str:
    """A note on graphs that are too large to be drawn whole; empty where there are none."""
    large = int((np.diff(graphs.node_start) > MOST_NODES).sum())
    if not large:
        return ""
    return (
        f"Of {large:,} graphs with more than {MOST_NODES} nodes a part is drawn: the best connected node and those "
        "nearest to it."
    )
