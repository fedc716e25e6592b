"""Sets of graphs as flat arrays: batches, parts of sets, torch_geometric's objects, and graphs that are made."""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.graphs.encoders.lists import Lists
from pucl.graphs.folding import fold
from pucl.graphs.graphset import GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.pyg import from_pyg, save_graphs
from pucl.graphs.sources.shapes import make_shapes


def random_set(seed: int = 0, graphs: int = 7) -> GraphSet:
    """Graphs of 1 to 6 nodes, some without an edge, with two numbers and two kinds for each node."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 7, graphs)
    edge_counts = rng.integers(0, 5, graphs)
    edge_counts[1] = 0
    nodes = int(counts.sum())
    widths = (3, 4)
    return GraphSet(
        name="random",
        node_start=np.cumsum([0, *counts], dtype=np.int64),
        edge_start=np.cumsum([0, *edge_counts], dtype=np.int64),
        edges=(rng.random((2, edge_counts.sum())) * np.repeat(counts, edge_counts)).astype(np.int32),
        values=rng.random((nodes, 2), dtype=np.float32),
        kinds=np.stack([rng.integers(0, width, nodes) for width in widths], axis=1).astype(np.int32),
        widths=widths,
        labels=rng.integers(0, 2, graphs),
        classes=("a", "b"),
    )


def one_by_one(graphs: GraphSet, indices: list[int]) -> tuple[list[list[float]], list[list[int]], list[int]]:
    """Features, edges and graph of each node, in loops."""
    x: list[list[float]] = []
    edges: list[list[int]] = []
    graph_of = []
    for position, graph in enumerate(indices):
        span = range(graphs.edge_start[graph], graphs.edge_start[graph + 1])
        edges += [[int(graphs.edges[0, edge]) + len(x), int(graphs.edges[1, edge]) + len(x)] for edge in span]
        for node in range(graphs.node_start[graph], graphs.node_start[graph + 1]):
            row = graphs.values[node].tolist()
            for kind, width in zip(graphs.kinds[node], graphs.widths, strict=True):
                row += [float(kind == place) for place in range(width)]
            x.append(row)
            graph_of.append(position)
    return x, edges, graph_of


@pytest.mark.parametrize("indices", [[0], [1], [6, 0, 3], [2, 2, 5], list(range(7))])
def test_a_batch_against_loops(indices: list[int]) -> None:
    graphs = random_set()
    batch = graphs.batch(indices)
    x, edges, graph_of = one_by_one(graphs, indices)
    assert batch.x.tolist() == x
    assert batch.edge_index.T.tolist() == edges
    assert batch.graph_of.tolist() == graph_of
    assert batch.graphs == len(indices)
    assert (batch.x.dtype, batch.edge_index.dtype, batch.graph_of.dtype) == (torch.float32, torch.int64, torch.int64)


def test_a_subset_is_a_set() -> None:
    graphs = random_set()
    part = graphs.subset(np.array([5, 1, 1]))
    assert graphs.labels is not None
    assert part.labels is not None
    assert part.labels.tolist() == graphs.labels[[5, 1, 1]].tolist()
    ours, theirs = part.batch([0, 1, 2]), graphs.batch([5, 1, 1])
    assert ours.x.equal(theirs.x)
    assert ours.edge_index.equal(theirs.edge_index)


def test_batches_move_to_a_device() -> None:
    batch = fold(random_set(5), 1).batch([2, 0])
    assert batch.to("cpu") is batch
    moved = batch.to("meta")
    tensors = [moved.x, moved.edge_index, moved.graph_of, moved.copies, moved.edge_copies]
    assert all(tensor is not None and tensor.device.type == "meta" for tensor in tensors)
    assert moved.graphs == 2


@pytest.mark.parametrize("indices", [[], [0.5], [[0]], [-1], [7]])
def test_wrong_indices(indices: list[Any], without_shape_checks: None) -> None:
    graphs = random_set()
    for take in (graphs.batch, graphs.subset):
        with pytest.raises(DataError, match="indices choose graphs: expected"):
            take(np.array(indices))


def changed(array: NDArray[Any], place: Any, value: float) -> NDArray[Any]:
    copy = array.copy()
    copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("node_start", lambda starts: starts[:-1], "expected equal lengths, at least 2, got"),
        ("node_start", lambda starts: starts + 1, "node_start begins at 0 and rises by at least 1"),
        ("node_start", lambda starts: changed(starts, 1, starts[2]), "and 0 for graph 1"),
        ("node_start", lambda starts: starts.astype(np.int32), "as int64; got int32"),
        (
            "edge_start",
            lambda starts: changed(starts, -2, starts[-1] + 1),
            "edge_start begins at 0 and rises, .*graph 6",
        ),
        ("edge_start", lambda starts: changed(starts, -1, starts[-1] + 1), "edge_start ends at the number of edges"),
        ("edges", lambda edges: edges.astype(np.int64), "expected int32"),
        ("edges", lambda edges: changed(edges, (0, 3), 40), "expected 0..[0-9] in graph [0-9], got 40 to [0-9]"),
        ("edges", lambda edges: changed(edges, (1, 0), -1), "in graph 2, got [0-9] to -1"),
        ("values", lambda values: values[1:], "values have a row for each node"),
        ("values", lambda values: values.astype(np.float64), "expected float32"),
        ("values", lambda values: changed(values, (0, 0), np.nan), "expected finite numbers"),
        ("kinds", lambda kinds: changed(kinds, (0, 1), 4), "expected 0..3, got 0..4"),
        ("kinds", lambda kinds: kinds[:, :1], "widths has a number for each column of kinds: expected 1, got 2"),
        ("labels", lambda labels: labels[1:], r"expected int64 \[7\]"),
        ("labels", lambda labels: changed(labels, 3, 2), "expected 0..1, got 2 for sample 3"),
    ],
)
def test_arrays_that_do_not_fit(field: str, change: Any, message: str, without_shape_checks: None) -> None:
    graphs = random_set()
    with pytest.raises(DataError, match=f"random: .*{message}"):
        replace(graphs, **{field: change(getattr(graphs, field))})


def test_nodes_without_features() -> None:
    graphs = random_set()
    with pytest.raises(DataError, match="nodes have features: expected at least one, got neither"):
        replace(graphs, values=graphs.values[:, :0], kinds=graphs.kinds[:, :0], widths=())


@pytest.mark.slow
def test_to_torch_geometric_and_back() -> None:
    pytest.importorskip("torch_geometric.data")
    graphs = random_set()
    back = from_pyg(graphs.to_pyg())
    every, again = graphs.batch(range(7)), back.batch(range(7))
    assert again.x.equal(every.x)
    assert again.edge_index.equal(every.edge_index)
    assert again.graph_of.equal(every.graph_of)
    assert back.classes == ("0", "1")
    assert replace(graphs, labels=None, classes=()).to_pyg()[0].y is None


def test_without_torch_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(DataError, match=r"torch_geometric, which is not installed: pip install '\.\[graphs\]'"):
        random_set().to_pyg()


def given(**changes: Any) -> SimpleNamespace:
    """A path of three nodes as torch_geometric would hold it."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return SimpleNamespace(**({"edge_index": edges, "x": torch.ones(3, 2), "y": torch.tensor([4])} | changes))


@pytest.mark.parametrize("with_x", [True, False])
def test_given_graphs_can_be_written_and_read(tmp_path: Path, with_x: bool) -> None:
    """So that they can be trained on, by name of their directory."""
    triangle, pair = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]), torch.tensor([[0, 1], [1, 0]])
    graphs = [
        SimpleNamespace(edge_index=edges, x=torch.randn(nodes, 2) if with_x else None, y=y, num_nodes=nodes)
        for edges, nodes, y in ((triangle, 3, 7), (pair, 2, -1), (triangle, 4, 7))
    ]
    save_graphs(graphs, tmp_path / "mine")
    read, given = load_graphs(tmp_path / "mine", root=tmp_path / "root"), from_pyg(graphs)
    assert read.name == "mine"
    assert read.classes == given.classes == ("-1", "7")
    for table in ("node_start", "edge_start", "edges", "values", "kinds", "labels"):
        np.testing.assert_array_equal(getattr(read, table), getattr(given, table))
    with pytest.raises(DataError, match="expected a new or empty one, got .*mine"):
        save_graphs(graphs, tmp_path / "mine")


def test_given_graphs() -> None:
    graphs = from_pyg([given(), given(y=torch.tensor(7)), given(y=4)])
    assert graphs.classes == ("4", "7")
    assert graphs.labels is not None
    assert graphs.labels.tolist() == [0, 1, 0]
    assert from_pyg([given(y=None)]).labels is None
    bare = from_pyg([given(x=None, num_nodes=4), given(x=None, num_nodes=3)])
    assert bare.batch([0]).x.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]  # Degrees 1, 2, 1 and 0.
    assert from_pyg([given()], features="degree").feature_count == 3
    assert from_pyg([given(x=None, num_nodes=5)], features=bare.features or "").feature_count == 3


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "expected at least one graph, got none"),
        ([given(), "no graph"], "graph 1 has no edge_index: expected torch_geometric's Data, got <class 'str'>"),
        ([given(edge_index=torch.zeros(3, 2).long())], r"graph 0: edge_index is from and to: .*got int64 \[3, 2\]"),
        ([given(edge_index=torch.zeros(2, 2))], "expected whole numbers .*got float32"),
        (
            [given(), given(edge_index=torch.tensor([[0], [3]]))],
            "graph 1: edge_index holds numbers of nodes: expected 0..2, got 0..3",
        ),
        ([given(x=torch.ones(3))], r"graph 0: x has a row for each node: expected \[node, feature\], got \[3\]"),
        ([given(x=torch.ones(0, 2))], "graph 0 is empty"),
        ([given(x=None)], "graph 0 is empty"),
        ([given(), given(x=None, num_nodes=3)], "all graphs or none have features x: expected one for graph 1"),
        ([given(y=None), given()], "all graphs or none have a label y: expected one for graph 0"),
        ([given(), given(x=torch.ones(3, 5))], r"all nodes have the same number of features: .*got \[2, 5\]"),
        (
            [given(y=torch.tensor([0.5]))],
            "graph 0: y is the class of the graph: expected one whole number, got float32",
        ),
        ([given(y=torch.tensor([1, 2]))], "expected one whole number"),
        ([given(x=torch.full((3, 2), torch.nan))], "expected finite numbers"),
    ],
)
def test_given_graphs_that_cannot_be(graphs: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=f"mine: .*{message}"):
        from_pyg(graphs, name="mine")


def test_shapes_are_always_the_same() -> None:
    """Numbers written down once, so that another version of numpy or of us that makes other graphs is found out."""
    graphs = load_graphs("Shapes")
    assert len(graphs) == 400
    assert graphs.labels is not None
    assert np.bincount(graphs.labels).tolist() == [100] * 4
    assert (graphs.nodes, graphs.edges.shape[1]) == SHAPES_SIZE
    assert graphs.edges[:, :5].tolist() == SHAPES_FIRST
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        make_shapes(each=0)


SHAPES_SIZE = (10804, 32032)
SHAPES_FIRST = [[0, 1, 1, 1, 2], [24, 8, 16, 27, 14]]


def test_every_shape_has_the_same_sizes() -> None:
    graphs = load_graphs("shapes")
    assert graphs.labels is not None
    sizes = np.stack([np.diff(graphs.node_start), np.diff(graphs.edge_start)], axis=1)
    of_class = [sorted(sizes[graphs.labels == label].tolist()) for label in range(4)]
    assert of_class[0] == of_class[1] == of_class[2] == of_class[3]
    assert len({tuple(size) for size in of_class[0]}) > 50


def test_shapes_are_simple_graphs_in_both_directions() -> None:
    graphs = load_graphs("shapes")
    batch = graphs.batch(range(len(graphs)))
    edges = set(map(tuple, batch.edge_index.T.tolist()))
    assert len(edges) == batch.edge_index.shape[1]
    assert all(a != b and (b, a) in edges for a, b in edges)


def test_structure_tells_shapes() -> None:
    """The nearest mean of a class by triangles, squares and degrees, fitted on one half and scored on the other."""
    graphs = load_graphs("shapes")
    assert graphs.labels is not None
    rows = []
    for number in range(len(graphs)):
        batch = graphs.batch([number])
        adjacency = torch.zeros(len(batch.x), len(batch.x))
        adjacency[batch.edge_index[0], batch.edge_index[1]] = 1
        paths = adjacency @ adjacency
        paths.fill_diagonal_(0)
        degree = adjacency.sum(0)
        rows.append([(paths * adjacency).sum(), (paths * (paths - 1)).sum(), degree.var() * len(degree)])
    features = torch.tensor(rows).numpy() / np.diff(graphs.node_start)[:, None]
    features = (features - features.mean(0)) / features.std(0)
    fit, score = slice(0, 200), slice(200, 400)
    means = np.stack([features[fit][graphs.labels[fit] == label].mean(0) for label in range(4)])
    nearest = ((features[score][:, None] - means) ** 2).sum(-1).argmin(1)
    assert 0.75 < (nearest == graphs.labels[score]).mean() < 0.99


def sparse(graphs: int = 4) -> GraphSet:
    """Graphs without any edge."""
    none = np.zeros((2, 0), np.int32)
    return replace(random_set(graphs=graphs), edges=none, edge_start=np.zeros(graphs + 1, np.int64))


def lists_by_hand(owner: torch.Tensor, members: torch.Tensor, copies: torch.Tensor | None, count: int) -> list[Any]:
    """The members of each owner with their copies, sorted, in a loop over owners."""
    often = torch.ones(len(owner)) if copies is None else copies
    chosen = [owner == one for one in range(count)]
    return [sorted(zip(members[some].tolist(), often[some].tolist(), strict=True)) for some in chosen]


def as_lists(lists: Lists) -> list[Any]:
    often = torch.ones(len(lists.members)) if lists.copies is None else lists.copies
    places = [slice(*ends) for ends in pairwise(lists.starts.tolist())]
    return [sorted(zip(lists.members[place].tolist(), often[place].tolist(), strict=True)) for place in places]


@pytest.mark.parametrize(
    "make",
    [random_set, lambda: random_set(3, 20), lambda: load_graphs("shapes"), lambda: fold(random_set(5), 1), sparse],
    ids=["directed", "more", "undirected", "folded", "without edges"],
)
def test_lists_of_a_batch_are_those_of_its_edges(make: Callable[[], GraphSet]) -> None:
    batch = make().batch([2, 0, 3, 1, 2])
    (source, target), nodes = batch.edge_index, len(batch.x)
    incoming, outgoing = batch.neighbour_lists
    assert as_lists(incoming) == lists_by_hand(target, source, batch.edge_copies, nodes)
    assert as_lists(outgoing) == lists_by_hand(source, target, batch.edge_copies, nodes)
    assert as_lists(batch.node_lists) == lists_by_hand(batch.graph_of, torch.arange(nodes), batch.copies, batch.graphs)


def test_sets_know_whether_they_are_undirected() -> None:
    assert load_graphs("shapes").undirected
    assert not random_set().undirected
    # As many edges there as back, but one of them more often than its reverse.
    two = replace(random_set(graphs=2), edges=np.array([[0, 1], [1, 0]], np.int32), edge_start=np.array([0, 2, 2]))
    assert two.undirected
    uneven = replace(two, edges=np.array([[0, 0, 1], [1, 1, 0]], np.int32), edge_start=np.array([0, 3, 3]))
    assert not uneven.undirected
