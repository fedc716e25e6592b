"""InfoGraph: who is compared with whom, and who shares an estimate."""

from typing import Any, get_args

import pytest
import torch

from pucl.contrast.loss import outcome_of
from pucl.corrections import PUCL, Debiased, Plain
from pucl.frameworks.infograph import InfoGraph, InfoGraphConfig, Share
from pucl.graphs.graphset import GraphBatch
from pucl.graphs.registry import load_graphs
from pucl.graphs.task import GraphShape
from pucl.training.framework import Batch
from pucl.training.loop import Training
from pucl.training.plan import Plan

SHAPES = load_graphs("shapes")


def make(**changes: Any) -> InfoGraph:
    config = InfoGraphConfig(data="shapes", hidden=8, layers=2, **changes)
    return InfoGraph(config, GraphShape(inputs=SHAPES.feature_count))


def batch(indices: list[int]) -> Batch[GraphBatch]:
    return Batch(
        samples=SHAPES.batch(indices),
        ids=torch.tensor(indices),
        generator=torch.Generator(),
        part=slice(0, len(indices)),
        whole=len(indices),
    )


@pytest.mark.parametrize("share", get_args(Share))
def test_nodes_meet_all_other_graphs(share: Share) -> None:
    (pairs,) = make(share=share).pairs(batch([1, 5, 200]))
    nodes = len(SHAPES.batch([1, 5, 200]).x)
    assert pairs.shape == (nodes, 3)
    counting = pairs.counting()
    assert counting is not None
    assert counting.sum(dim=1).tolist() == [2] * nodes
    outcome = outcome_of(pairs, Debiased(tau_plus=0.1), objective="jensen_shannon")
    assert len(outcome.loss) == {"graph": 3, "node": nodes, "batch": 1}[share]


def test_cosines_with_a_temperature() -> None:
    (pairs,) = make(temperature=0.2).pairs(batch([1, 5, 200]))
    assert pairs.lowest == -5.0
    assert float(pairs.positive.detach().abs().max()) <= 5.0 + 1e-4
    assert torch.isfinite(outcome_of(pairs, PUCL(), objective="infonce").loss).all()


def test_features_are_those_of_the_encoder() -> None:
    framework = make().eval()
    features = framework(SHAPES.batch([3, 4]))
    assert features.shape == (2, 16)


def test_it_learns() -> None:
    framework = make()
    plan = Plan(epochs=8, batch_size=50, learning_rate=1e-2, objective="jensen_shannon")
    optimiser = torch.optim.Adam(framework.parameters(), lr=1e-2)
    training = Training(framework, optimiser, SHAPES.subset(range(100)), Plain(), plan)
    losses = [line["loss"] for line in training.run()]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.usefixtures("without_shape_checks")
def test_wrong_share() -> None:
    with pytest.raises(ValueError, match="'class' is no share: expected one of graph, node, batch"):
        make(share="class")
