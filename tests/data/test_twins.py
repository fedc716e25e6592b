"""Nodes that stand for others: exactly those that a network cannot tell apart, and nothing changes by it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pucl.contrast.compare import ObjectiveName, compare
from pucl.contrast.pairing import pair_local_global
from pucl.corrections import CORRECTIONS
from pucl.data import GraphBatch, GraphSet
from pucl.data.twins import find_twins
from pucl.encoders.gin import GIN
from pucl.encoders.heads import ResidualHead
from pucl.experiments.config import GraphConfig
from pucl.experiments.graphs import GraphTask
from pucl.frameworks.framework import Batch
from pucl.frameworks.infograph import SHARES, InfoGraph, Share

SETTINGS = {
    "plain": {},
    "deb": {"tau_plus": 0.2},
    "hard": {"tau_plus": 0.2, "beta": 1.0},
    "ring": {"lower": 0.2, "upper": 0.9},
    "pucl": {"alpha": 0.2, "c": 0.1},
}


def trees(count: int = 6, *, leaves: int = 4, directed: bool = False) -> GraphSet:
    """A few hubs in a row, each with leaves: many nodes are alike. The last hub of each graph is of another kind."""
    random = np.random.default_rng(3)
    nodes, edges, kinds = [], [], []
    for _ in range(count):
        each = random.integers(1, leaves + 1, size=3)
        pairs = [(0, 1), (1, 2), *((hub, 3 + leaf) for leaf, hub in enumerate(np.repeat([0, 1, 2], each)))]
        there = np.array(pairs, np.int32).T
        edges.append(there if directed else np.concatenate([there, there[::-1]], axis=1))
        nodes.append(3 + int(each.sum()))
        kinds.append(np.eye(1, nodes[-1], 2, dtype=np.int32)[0])
    starts = [
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64) for sizes in (nodes, [e.shape[1] for e in edges])
    ]
    return GraphSet(
        name="trees",
        node_start=starts[0],
        edge_start=starts[1],
        edges=np.concatenate(edges, axis=1),
        values=np.ones((sum(nodes), 1), np.float32),
        kinds=np.concatenate(kinds)[:, None],
        widths=(2,),
        labels=np.arange(count, dtype=np.int64) % 2,
        classes=("even", "odd"),
    )


def network(layers: int, *, share: Share = "graph") -> InfoGraph:
    torch.manual_seed(5)
    encoder = GIN(3, hidden=8, layers=layers)
    heads = ResidualHead(encoder.features), ResidualHead(encoder.features)
    return InfoGraph(encoder, *heads, share=share).double().train()


def in_double(graphs: GraphSet, numbers: list[int]) -> Batch[GraphBatch]:
    samples = graphs.batch(numbers)
    samples = replace(samples, x=samples.x.double())
    return Batch(
        samples=samples,
        ids=torch.tensor(numbers),
        generator=torch.default_generator,
        part=slice(0, len(numbers)),
        whole=len(numbers),
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_network_cannot_tell_twins_apart(depth: int, directed: bool) -> None:
    graphs = trees(directed=directed)
    twins = find_twins(graphs, depth)
    assert int(twins.copies.sum()) == graphs.nodes
    for number in range(len(graphs)):
        batch = in_double(graphs, [number]).samples
        vectors = network(depth).eval().encoder(batch)[0].detach()
        seen: dict[tuple[float, ...], list[int]] = {}
        for node, vector in enumerate(vectors):
            seen.setdefault(tuple(round(value, 9) for value in vector.tolist()), []).append(node)
        mine = slice(twins.start[number], twins.start[number + 1])
        found = dict(zip(twins.first[mine].tolist(), twins.copies[mine].tolist(), strict=True))
        for same in seen.values():  # A sum of a node and its neighbours may hide which of them is which.
            assert sum(copies for first, copies in found.items() if first in same) == len(same)
        assert directed or len(found) == len(seen)


def test_features_tell_nodes_apart() -> None:
    graphs = trees()
    values = graphs.values.copy()
    values[: graphs.nodes // 2, 0] = np.arange(graphs.nodes // 2)
    different = find_twins(replace(graphs, values=values), 2)
    assert len(different.first) > len(find_twins(graphs, 2).first)
    zeros = [find_twins(replace(graphs, values=np.full_like(values, zero)), 2) for zero in (0.0, -0.0)]
    assert np.array_equal(zeros[0].first, zeros[1].first)


def test_a_batch_has_those_of_its_graphs() -> None:
    graphs = trees()
    graphs = replace(graphs, twins=find_twins(graphs, 2))
    batch = graphs.batch([4, 1])
    assert batch.distinct is not None
    assert batch.copies is not None
    single = [graphs.batch([number]) for number in (4, 1)]
    rows = torch.cat([single[0].distinct, single[1].distinct + len(single[0].x)])  # type: ignore[list-item, operator]
    assert batch.distinct.equal(rows)
    assert float(batch.copies.sum()) == len(batch.x)
    moved = batch.to("cpu")
    assert moved.distinct is not None
    assert moved.distinct.equal(batch.distinct)
    assert graphs.subset([1]).twins is None


@pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_loss_and_gradients_are_those_of_all_nodes(correction: str, share: Share, objective: ObjectiveName) -> None:
    graphs, numbers = trees(), [0, 1, 2, 3, 4, 5]
    rule = CORRECTIONS[correction](**SETTINGS[correction])
    losses, gradients = [], []
    for each in (graphs, replace(graphs, twins=find_twins(graphs, 2))):
        framework = network(2, share=share)
        if objective == "infonce":
            framework.temperature = 0.5
        (pairs,) = framework.pairs(in_double(each, numbers))
        outcome = compare(pairs, rule, objective=objective)
        outcome.loss.mean().backward()
        losses.append(outcome.loss.mean())
        gradients.append([parameter.grad for parameter in framework.parameters()])
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_copies_are_anchors_that_are_there_several_times() -> None:
    torch.manual_seed(0)
    local, whole = torch.randn(5, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    graph_of, copies = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([3, 1, 2, 1, 1])
    rule = CORRECTIONS["pucl"](**SETTINGS["pucl"])
    every = torch.repeat_interleave(torch.arange(5), copies)
    for group in (False, True):
        once = replace(pair_local_global(local, whole, graph_of), copies=copies.double())
        often = pair_local_global(local[every], whole, graph_of[every])
        if group:
            once, often = replace(once, group=graph_of), replace(often, group=graph_of[every])
        means = [compare(pairs, rule, objective="jensen_shannon").loss.mean() for pairs in (once, often)]
        torch.testing.assert_close(means[0], means[1])


@pytest.mark.parametrize(
    ("changes", "picked"),
    [({}, True), ({"correction": "untrained"}, False), ({"compat": "hcl", "correction": "hard"}, False)],
)
def test_a_run_picks_them_out_where_they_are_many(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], picked: bool
) -> None:
    monkeypatch.setattr("pucl.experiments.graphs.load_graphs", lambda *_, **__: trees(60, leaves=12))
    settings = {"tau_plus": 0.2, "beta": 1.0} if "compat" in changes else {}
    values = {"framework": "infograph", "data": "trees", "correction": "plain"} | changes
    task = GraphTask(GraphConfig(**values, settings=settings))  # type: ignore[arg-type]
    assert (task.samples.twins is not None) == picked
