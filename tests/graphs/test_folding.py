"""Nodes that stand for others: exactly those that a network cannot tell apart, and nothing changes by it."""

import itertools
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from pucl.contrast.compat import outcome_as_published
from pucl.contrast.loss import ObjectiveName, outcome_of
from pucl.contrast.pairing import pair_local_global
from pucl.corrections import CORRECTIONS
from pucl.data.errors import DataError
from pucl.frameworks.infograph import SHARES, InfoGraph, InfoGraphConfig, Share
from pucl.graphs.encoders.gin import SummedFeatures
from pucl.graphs.folding import fold
from pucl.graphs.graphset import GraphBatch, GraphSet, starts_of
from pucl.graphs.task import GraphShape, GraphTask
from pucl.training.framework import Batch

SETTINGS = {
    "plain": {},
    "deb": {"tau_plus": 0.2},
    "hard": {"tau_plus": 0.2, "beta": 1.0},
    "ring": {"lower": 0.2, "upper": 0.9},
    "clusters": {},
    "auto": {},
    "pucl": {"alpha": 0.2, "c": 0.1},
    "bcl": {"tau_plus": 0.2, "auc": 0.8, "hardness": 0.7},
    "glofnd": {"dropped": 0.3, "wait": 0},
    "ratio": {"tau_plus": 0.2, "warm_up": 1},
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
    return GraphSet(
        name="trees",
        node_start=starts_of(np.array(nodes)),
        edge_start=starts_of(np.array([each.shape[1] for each in edges])),
        edges=np.concatenate(edges, axis=1),
        values=np.ones((sum(nodes), 1), np.float32),
        kinds=np.concatenate(kinds)[:, None],
        widths=(2,),
        labels=np.arange(count, dtype=np.int64) % 2,
        classes=("even", "odd"),
    )


def network(layers: int, *, share: Share = "graph", temperature: float | None = None) -> InfoGraph:
    config = InfoGraphConfig(data="trees", hidden=8, layers=layers, share=share, temperature=temperature, seed=5)
    return InfoGraph(config, GraphShape(inputs=3)).double().train()


def in_double(graphs: GraphSet, numbers: list[int]) -> Batch[GraphBatch]:
    made = graphs.batch(numbers)
    return Batch(
        samples=replace(made, x=made.x.double()),
        ids=torch.tensor(numbers),
        generator=torch.Generator(),
        part=slice(0, len(numbers)),
        whole=len(numbers),
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_there_is_one_node_of_those_that_a_network_cannot_tell_apart(depth: int, directed: bool) -> None:
    graphs = trees(directed=directed)
    folded = fold(graphs, depth)
    assert folded.copies is not None
    assert int(folded.copies.sum()) == graphs.nodes
    encoder = network(depth).eval().encoder
    for number in range(len(graphs)):
        seen: dict[tuple[float, ...], float] = {}
        for vector in encoder(in_double(graphs, [number]).samples)[0].detach():
            seen[_rounded(vector)] = seen.get(_rounded(vector), 0) + 1
        batch = in_double(folded, [number]).samples
        assert batch.copies is not None
        found: dict[tuple[float, ...], float] = {}
        for vector, copies in zip(encoder(batch)[0].detach(), batch.copies.tolist(), strict=True):
            found[_rounded(vector)] = found.get(_rounded(vector), 0) + copies
        assert found == seen
        # Of a tree whose edges lead one way a sum may hide which of the nodes in it is which.
        assert directed or len(batch.x) == len(seen)


def _rounded(vector: torch.Tensor) -> tuple[float, ...]:
    return tuple(round(value, 9) for value in vector.tolist())


def test_features_tell_nodes_apart() -> None:
    graphs = trees()
    values = graphs.values.copy()
    values[: graphs.nodes // 2, 0] = np.arange(graphs.nodes // 2)
    assert fold(replace(graphs, values=values), 2).nodes > fold(graphs, 2).nodes
    zeros = [fold(replace(graphs, values=np.full_like(values, zero)), 2) for zero in (0.0, -0.0)]
    assert np.array_equal(zeros[0].edges, zeros[1].edges)


def test_neighbours_of_one_kind_are_one_edge() -> None:
    star = GraphSet(
        name="star",
        node_start=np.array([0, 6]),
        edge_start=np.array([0, 10]),
        edges=np.array([[0] * 5 + [1, 2, 3, 4, 5], [1, 2, 3, 4, 5] + [0] * 5], np.int32),
        values=np.ones((6, 1), np.float32),
        kinds=np.zeros((6, 0), np.int32),
    )
    folded = fold(star, 2)
    assert folded.copies is not None
    assert folded.edge_copies is not None
    assert folded.copies.tolist() == [1, 5]
    assert folded.edges.tolist() == [[1, 0], [0, 1]]
    assert folded.edge_copies.tolist() == [5, 1]


def test_batches_and_subsets_have_the_copies_of_their_graphs() -> None:
    graphs = fold(trees(), 2)
    batch: Any = graphs.batch([4, 1]).to("cpu")
    subset: Any = graphs.subset([4, 1])
    single: list[Any] = [graphs.batch([number]) for number in (4, 1)]
    for name in ("copies", "edge_copies"):
        parts = torch.cat([getattr(one, name) for one in single])
        assert getattr(batch, name).equal(parts)
        assert getattr(subset, name).tolist() == parts.tolist()
    assert batch.edge_index.equal(torch.cat([single[0].edge_index, single[1].edge_index + len(single[0].x)], dim=1))


def test_what_folded_graphs_cannot_be() -> None:
    folded = fold(trees(), 2)
    with pytest.raises(ValueError, match="folded once"):
        fold(folded, 2)
    with pytest.raises(DataError, match="torch_geometric has no folded graphs"):
        folded.to_pyg()
    with pytest.raises(DataError, match="both or neither"):
        replace(folded, edge_copies=None)
    with pytest.raises(DataError, match=r"for each edge: expected float32"):
        replace(folded, edge_copies=np.ones(3, np.float32))


@pytest.mark.parametrize("training", [True, False])
def test_norms_and_sums_are_those_of_all_nodes(training: bool) -> None:
    graphs, numbers = trees(), [0, 1, 2, 3, 4, 5]
    networks = [network(3).train(training) for _ in range(2)]
    wholes = [
        each.encoder(in_double(some, numbers).samples)[1]
        for each, some in zip(networks, (graphs, fold(graphs, 3)), strict=True)
    ]
    torch.testing.assert_close(wholes[1], wholes[0])
    torch.testing.assert_close(networks[1].state_dict(), networks[0].state_dict())  # Running statistics too.
    raw = [SummedFeatures(3)(some.batch(numbers))[1] for some in (graphs, fold(graphs, 3))]
    torch.testing.assert_close(raw[1], raw[0])


@pytest.mark.parametrize(
    ("correction", "share", "objective"),
    [
        *itertools.product(CORRECTIONS, SHARES, ["infonce", "jensen_shannon"]),
        *(("deb", "graph", "hcl"), ("hard", "graph", "hcl")),
    ],
)
def test_loss_and_gradients_are_those_of_all_nodes(
    correction: str, share: Share, objective: ObjectiveName | Literal["hcl"]
) -> None:
    """Also with the loss that HCL published."""
    graphs, numbers = trees(), [0, 1, 2, 3, 4, 5]
    rule = CORRECTIONS[correction](**SETTINGS[correction])
    losses, gradients, floored = [], [], []
    for each in (graphs, fold(graphs, 2)):
        framework = network(2, share=share, temperature=0.5 if objective == "infonce" else None)
        (pairs,) = framework.pairs(in_double(each, numbers))
        state = rule.start(len(numbers))
        if state is not None:  # Folded nodes count as often as they are there.
            state.commit(pairs.query_samples, state.see(pairs).detach())
        reading = rule if state is None else state.read(pairs)
        if objective == "hcl":
            outcome = outcome_as_published(pairs, reading)
        else:
            outcome = outcome_of(pairs, reading, objective=objective)
        outcome.loss.mean().backward()
        losses.append(outcome.loss.mean())
        floored.append(outcome.floored)
        gradients.append([parameter.grad for parameter in framework.parameters()])
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(floored[1], floored[0])
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
        means = [outcome_of(pairs, rule, objective="jensen_shannon").loss.mean() for pairs in (once, often)]
        torch.testing.assert_close(means[0], means[1])


@pytest.mark.parametrize(
    ("changes", "folds"),
    [({}, True), ({"correction": "untrained"}, False), ({"compat": "hcl", "correction": "hard"}, True)],
)
def test_a_run_folds_graphs_where_it_pays(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], folds: bool
) -> None:
    monkeypatch.setattr("pucl.graphs.task.load_graphs", lambda *_, **__: trees(60, leaves=12))
    settings = {"tau_plus": 0.2, "beta": 1.0} if "compat" in changes else {}
    values = {"framework": "infograph", "data": "trees", "correction": "plain"} | changes
    task = GraphTask(InfoGraphConfig(**values, settings=settings))  # type: ignore[arg-type]
    assert (task.samples.copies is not None) == folds
    assert task.graphs.copies is None
