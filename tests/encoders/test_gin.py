"""The graph encoder, against a loop over nodes."""

import pytest
import torch
from torch import nn

from pucl.data import load_graphs
from pucl.encoders.gin import GIN

pytest.importorskip("torch_geometric", reason="the graphs extra is not installed")


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


def test_gradients_reach_every_parameter() -> None:
    graphs = load_graphs("shapes").batch(range(10))
    encoder = GIN(graphs.x.shape[1])
    local, whole = encoder(graphs)
    (local.square().mean() + whole.square().mean()).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in encoder.parameters())


def test_a_graph_does_not_see_the_others() -> None:
    shapes = load_graphs("shapes")
    encoder = GIN(shapes.feature_count).eval()
    together, alone = encoder(shapes.batch([3, 7]))[1], encoder(shapes.batch([7]))[1]
    torch.testing.assert_close(together[1:], alone)


def test_wrong_sizes() -> None:
    with pytest.raises(ValueError, match="dimensions of at least 1 each: got 3 inputs, 32 hidden and 0 layers"):
        GIN(3, layers=0)
