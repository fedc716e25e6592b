"""Small drawings of graphs, for a page that holds hundreds of them."""

import numpy as np
from numpy.typing import NDArray

from pucl.graphs.graphset import GraphSet
from pucl.samples import Drawings
from pucl.texts import base64_of

MOST_NODES = 60  # Nodes of a graph that are drawn.
ROUNDS = 40  # Steps of the layout.


def drawings(graphs: GraphSet) -> Drawings:
    """Draw each graph: positions of its nodes, and the edges between them, as bytes.

    Of a graph with more than `MOST_NODES` nodes, a part is drawn: the node with most edges, and the nodes nearest to
    it.
    """
    nodes, counts, positions, ends = [], [], [], []
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
        positions.append(_as_bytes(spring(inside, len(kept))))
        ends.append(inside.T.astype(np.uint8))
    return Drawings(
        nodes=base64_of(np.array(nodes, np.uint8)),
        edges=base64_of(np.array(counts, np.uint16)),
        positions=base64_of(np.concatenate(positions)),
        ends=base64_of(np.concatenate(ends)),
        sizes=base64_of(np.diff(graphs.node_start).astype(np.uint32)),
    )


def _part_of(edges: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The node with most edges, and the nodes nearest to it, `MOST_NODES` in all."""
    neighbours: dict[int, list[int]] = {}
    for start, end in edges.T.tolist():
        neighbours.setdefault(start, []).append(end)
        neighbours.setdefault(end, []).append(start)
    first = int(np.argmax(np.bincount(edges.ravel(), minlength=size)))
    found = dict.fromkeys([first])
    queue = [first]
    for node in queue:  # The queue grows during the loop.
        for other in neighbours.get(node, ()):
            if other not in found and len(found) < MOST_NODES:
                found[other] = None
                queue.append(other)
    return np.sort(np.array(list(found)))


def spring(edges: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Positions of nodes in the plane, with distances close to the numbers of steps between nodes.

    There is a spring between each pair of nodes, as strong as the inverse square of its length (Kamada and Kawai). The
    layout starts with classical scaling and is improved by majorisation. Nothing is random.

    Args:
        edges: [2, edge], from and to.
        size: Number of nodes.

    Example:
        >>> positions = spring(np.array([[0, 1], [1, 2]]), 3)  # A path is drawn as a line.
        >>> round(float(np.linalg.norm(positions[0] - positions[2])), 2)
        2.0
    """
    if size == 1:
        return np.zeros((1, 2))
    wanted = _steps(edges, size)
    centre = np.eye(size) - 1 / size
    sizes, directions = np.linalg.eigh(-centre @ wanted**2 @ centre / 2)
    positions = directions[:, -2:] * np.sqrt(np.maximum(sizes[-2:], 1e-4))
    positions *= np.where(
        positions[np.abs(positions).argmax(axis=0), [0, 1]] < 0, -1, 1
    )  # Signs depend on the library.
    positions += 1e-3 * np.stack([np.cos(np.arange(size)), np.sin(np.arange(size))], axis=1)  # Separates equal nodes.
    strength = np.where(np.eye(size, dtype=bool), 0, 1 / np.maximum(wanted, 1) ** 2)
    inverse = np.linalg.pinv(np.diag(strength.sum(axis=1)) - strength, hermitian=True)
    for _ in range(ROUNDS):
        distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        pull = -strength * wanted / np.maximum(distances, 1e-9)
        np.fill_diagonal(pull, 0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        positions = inverse @ pull @ positions
    made: NDArray[np.float64] = positions
    return made


def _steps(edges: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """The number of steps between each two nodes; about the largest for nodes that are not connected."""
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


def _as_bytes(positions: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Positions scaled to fill a square of 256 x 256."""
    extent = float(np.ptp(positions, axis=0).max())
    middle = (positions.max(axis=0) + positions.min(axis=0)) / 2
    scaled = (positions - middle) / extent if extent > 0 else positions - middle
    made: NDArray[np.uint8] = np.clip(np.round(127.5 + 255 * scaled), 0, 255).astype(np.uint8)
    return made


def about_parts(graphs: GraphSet) -> str:
    """A note on graphs of which only a part is drawn; empty if there are none."""
    large = int((np.diff(graphs.node_start) > MOST_NODES).sum())
    if not large:
        return ""
    return (
        f"Of {large:,} graphs with more than {MOST_NODES} nodes only a part is drawn: the node with most edges, and "
        "the nodes nearest to it."
    )
