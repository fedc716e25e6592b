"""The graph encoder, against a loop over nodes and against torch_geometric."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pucl.graphs.encoders.gin import GIN, SummedFeatures
from pucl.graphs.graphset import GraphBatch
from pucl.graphs.registry import load_graphs


def test_against_a_loop_over_nodes() -> None:
    torch.manual_seed(0)
    graphs = load_graphs("shapes").batch([0, 150, 399])
    encoder = GIN(graphs.x.shape[1], hidden=4, layers=2).eval()
    for norm in encoder.norms:
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.running_mean is not None
        norm.running_mean.uniform_(-1, 1)
    local, whole = encoder(graphs)
    expected = []
    x = graphs.x
    for convolution, norm in zip(encoder.convolutions, encoder.norms, strict=True):
        rows = []
        for node in range(len(x)):
            neighbours = graphs.edge_index[0][graphs.edge_index[1] == node]
            rows.append(x[node] + x[neighbours].sum(0))
        x = norm(torch.relu(convolution.nn(torch.stack(rows))))  # type: ignore[operator]
        expected.append(x)
    torch.testing.assert_close(local, torch.cat(expected, dim=1))
    sums = [torch.cat(expected, dim=1)[graphs.graph_of == graph].sum(0) for graph in range(3)]
    torch.testing.assert_close(whole, torch.stack(sums))
    assert encoder.features == 8


def test_a_graph_does_not_see_the_others() -> None:
    shapes = load_graphs("shapes")
    encoder = GIN(shapes.feature_count).eval()
    together, alone = encoder(shapes.batch([3, 7]))[1], encoder(shapes.batch([7]))[1]
    torch.testing.assert_close(together[1:], alone)


def test_wrong_sizes() -> None:
    with pytest.raises(ValueError, match="dimensions of at least 1 each: got 3 inputs, 32 hidden and 0 layers"):
        GIN(3, layers=0)


def doubled(indices: list[int]) -> GraphBatch:
    batch = load_graphs("shapes").batch(indices)
    return replace(batch, x=batch.x.double())


def directed() -> GraphBatch:
    """Edges in one direction, some twice, one from a node to itself, in no order; the last node has none."""
    edges = torch.tensor([[4, 0, 2, 0, 3, 1, 1, 5], [0, 1, 0, 1, 4, 1, 3, 2]])
    return GraphBatch(torch.randn(7, 3, dtype=torch.float64), edges, torch.tensor([0, 0, 0, 0, 0, 1, 1]), 2)


def shuffled() -> GraphBatch:
    """Both directions of every edge, in no order."""
    batch = doubled([0, 150, 399])
    order = torch.randperm(batch.edge_index.shape[1])
    return replace(batch, edge_index=batch.edge_index[:, order])


def nodes_in_no_order() -> GraphBatch:
    batch = directed()
    return replace(batch, graph_of=torch.tensor([1, 0, 0, 1, 0, 1, 0]))


def without_edges() -> GraphBatch:
    return replace(directed(), edge_index=torch.zeros(2, 0, dtype=torch.int64))


GRAPHS = [lambda: doubled([0, 150, 399]), shuffled, directed, nodes_in_no_order, without_edges]


@pytest.mark.slow
@pytest.mark.parametrize("make", GRAPHS)
def test_against_torch_geometric(make: Callable[[], GraphBatch]) -> None:
    """Vectors, gradients of every weight and of the features, running statistics, and the weights a seed gives."""
    geometric = pytest.importorskip("torch_geometric.nn")
    graphs = make()
    torch.manual_seed(3)
    ours = GIN(graphs.x.shape[1], hidden=6, layers=3).double()
    torch.manual_seed(3)
    theirs = nn.ModuleList()
    for size in (graphs.x.shape[1], 6, 6):
        theirs.append(geometric.GINConv(nn.Sequential(nn.Linear(size, 6), nn.ReLU(), nn.Linear(6, 6))))
    norms = nn.ModuleList(nn.BatchNorm1d(6) for _ in theirs)
    theirs, norms = theirs.double(), norms.double()

    features = [graphs.x.clone().requires_grad_() for _ in range(2)]
    local, whole = ours(replace(graphs, x=features[0]))
    x, kept = features[1], []
    for convolution, norm in zip(theirs, norms, strict=True):
        x = norm(torch.relu(convolution(x, graphs.edge_index)))
        kept.append(x)
    expected = torch.cat(kept, dim=1)
    expected_whole = expected.new_zeros(graphs.graphs, 18).index_add(0, graphs.graph_of, expected)
    torch.testing.assert_close(local, expected)
    torch.testing.assert_close(whole, expected_whole)

    gradients = torch.randn_like(local), torch.randn_like(whole)
    torch.autograd.backward([local, whole], gradients)
    torch.autograd.backward([expected, expected_whole], gradients)
    pairs = [(features[0], features[1]), *zip(ours.norms.parameters(), norms.parameters(), strict=True)]
    pairs += zip(ours.convolutions.parameters(), theirs.parameters(), strict=True)
    for mine, other in pairs:
        assert mine.equal(other)
        torch.testing.assert_close(mine.grad, other.grad)
    torch.testing.assert_close(dict(ours.norms.named_buffers()), dict(norms.named_buffers()))


@pytest.mark.parametrize("make", GRAPHS)
def test_gradients_in_double_precision(make: Callable[[], GraphBatch]) -> None:
    graphs = make()
    graphs = replace(graphs, x=graphs.x[:, :3].contiguous())
    encoder = GIN(3, hidden=2, layers=2).double()
    for norm in encoder.norms:
        norm.register_parameter("weight", nn.Parameter(torch.randn(2, dtype=torch.float64)))

    def vectors(x: Tensor) -> tuple[Tensor, Tensor]:
        local, whole = encoder(replace(graphs, x=x))
        return torch.tanh(local[:8]), whole

    assert torch.autograd.gradcheck(vectors, graphs.x.requires_grad_(), fast_mode=True)


def test_a_batch_makes_the_lists_of_its_edges() -> None:
    batch = load_graphs("shapes").batch([3, 7])
    encoder = GIN(batch.x.shape[1]).eval()
    nodes, wholes = encoder(batch)
    torch.testing.assert_close(encoder(replace(batch)), (nodes, wholes))
    fewer = replace(batch, edge_index=batch.edge_index[:, ::2])
    assert not encoder(fewer)[0].equal(nodes)
    one = encoder(replace(batch, graph_of=torch.zeros_like(batch.graph_of), graphs=1))[1]
    torch.testing.assert_close(one[0], wholes.sum(0))
    torch.testing.assert_close(encoder(replace(batch, copies=torch.full((len(nodes),), 2.0)))[1], 2 * wholes)


def test_states_from_when_layers_were_those_of_torch_geometric() -> None:
    encoder = GIN(3)
    state = encoder.state_dict()
    old = dict(state) | {f"convolutions.{layer}.eps": torch.zeros(1) for layer in range(3)}
    other = GIN(3)
    other.load_state_dict(old)
    assert all(value.equal(state[name]) for name, value in other.state_dict().items())
    assert "convolutions.0.eps" in old


def test_summed_features_against_a_loop_over_nodes() -> None:
    graphs = load_graphs("shapes").batch([0, 150, 399])
    encoder = SummedFeatures(graphs.x.shape[1])
    local, whole = encoder(graphs)
    assert torch.equal(local, graphs.x)
    expected = torch.zeros(3, encoder.features)
    for node, graph in enumerate(graphs.graph_of.tolist()):
        expected[graph] += graphs.x[node]
    assert torch.equal(whole, expected)
    assert not encoder.state_dict()  # There is nothing to learn.
