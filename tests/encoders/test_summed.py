"""Graphs without a network, against a loop over nodes."""

import torch

from pucl.graphs.encoders.summed import SummedFeatures
from pucl.graphs.registry import load_graphs


def test_against_a_loop_over_nodes() -> None:
    graphs = load_graphs("shapes").batch([0, 150, 399])
    encoder = SummedFeatures(graphs.x.shape[1])
    local, whole = encoder(graphs)
    assert torch.equal(local, graphs.x)
    expected = torch.zeros(3, encoder.features)
    for node, graph in enumerate(graphs.graph_of.tolist()):
        expected[graph] += graphs.x[node]
    assert torch.equal(whole, expected)


def test_kinds_are_counted_and_edges_not_seen() -> None:
    shapes = load_graphs("shapes", features="ones")
    whole = SummedFeatures(1)(shapes.batch(range(8)))[1]
    assert whole[:, 0].tolist() == torch.from_numpy(shapes.node_start).diff()[:8].tolist()


def test_there_is_nothing_to_learn() -> None:
    assert not SummedFeatures(3).state_dict()
