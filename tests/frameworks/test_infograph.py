"""InfoGraph: who is compared with whom, and who shares an estimate."""

from typing import get_args

import numpy as np
import pytest
import torch

from pucl.contrast.compare import compare
from pucl.corrections import PUCL, Debiased, Plain
from pucl.frameworks.infograph import InfoGraph, Share
from pucl.graphs.encoders.gin import GIN
from pucl.graphs.graphset import GraphBatch
from pucl.graphs.registry import load_graphs
from pucl.images.encoders.heads import make_head
from pucl.training.framework import Batch
from pucl.training.loop import Plan, Training

SHAPES = load_graphs("shapes")


def make(share: Share = "graph", temperature: float | None = None) -> InfoGraph:
    torch.manual_seed(0)
    encoder = GIN(SHAPES.feature_count, hidden=8, layers=2)
    heads = (make_head("infograph", encoder.features, dim=8) for _ in range(2))
    return InfoGraph(encoder, *heads, share=share, temperature=temperature)


def batch(indices: list[int], labels: torch.Tensor | None = None) -> Batch[GraphBatch]:
    return Batch(
        samples=SHAPES.batch(indices),
        ids=torch.tensor(indices),
        make_generator=torch.Generator,
        part=slice(0, len(indices)),
        whole=len(indices),
        labels=labels,
    )


@pytest.mark.parametrize("share", get_args(Share))
def test_nodes_meet_all_other_graphs(share: Share) -> None:
    (pairs,) = make(share).pairs(batch([1, 5, 200]))
    nodes = len(SHAPES.batch([1, 5, 200]).x)
    assert pairs.shape == (nodes, 3)
    counting = pairs.counting()
    assert counting is not None
    assert counting.sum(dim=1).tolist() == [2] * nodes
    outcome = compare(pairs, Debiased(tau_plus=0.1), objective="jensen_shannon")
    assert len(outcome.loss) == {"graph": 3, "node": nodes, "batch": 1}[share]


def test_cosines_with_a_temperature() -> None:
    (pairs,) = make(temperature=0.2).pairs(batch([1, 5, 200]))
    assert pairs.lowest == -5.0
    assert float(pairs.positive.detach().abs().max()) <= 5.0 + 1e-4
    assert torch.isfinite(compare(pairs, PUCL(), objective="infonce").loss).all()


def test_the_oracle_leaves_its_own_class_out() -> None:
    assert SHAPES.labels is not None
    labels = torch.from_numpy(SHAPES.labels)
    indices = [0, 1, 150, 399]
    (pairs,) = make().pairs(batch(indices, labels))
    graph_of = SHAPES.batch(indices).graph_of
    own = labels[torch.tensor(indices)]
    expected = [[bool(own[graph] != own[other]) for other in range(4)] for graph in graph_of.tolist()]
    counting = pairs.counting()
    assert counting is not None
    assert counting.tolist() == expected


def test_features_are_those_of_the_encoder() -> None:
    framework = make().eval()
    features = framework(SHAPES.batch([3, 4]))
    assert features.shape == (2, framework.encoder.features)


def test_it_learns() -> None:
    framework = make()
    plan = Plan(epochs=8, batch_size=50, learning_rate=lambda *_: 1e-2, objective="jensen_shannon")
    optimiser = torch.optim.Adam(framework.parameters(), lr=1e-2)
    training = Training(framework, optimiser, SHAPES, Plain(), plan)
    losses = [line["loss"] for line in training.run()]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.usefixtures("without_shape_checks")
def test_wrong_share() -> None:
    with pytest.raises(ValueError, match="expected one of graph, node, batch, got class"):
        make("class")  # type: ignore[arg-type]


def test_indices_may_be_an_array() -> None:
    assert SHAPES.batch(np.array([3, 4])).graphs == 2
