"""PUCL with a stop-gradient on the subtracted positives."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from examples import related_views
from pucl import PUCLLoss
from pucl.contrast.loss import ObjectiveName
from pucl.corrections import PUCL
from pucl.functional import corrected_loss, local_global_loss, pair_views

both_objectives = pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
pytestmark = pytest.mark.usefixtures("small_tiles")

T = 0.5


def by_hand(views: list[Tensor], odds: float, objective: ObjectiveName) -> Tensor:
    """The loss of two views with the subtracted positive detached, typed from the formula."""
    vectors = F.normalize(torch.cat(views), dim=1)
    batch, logits = len(views[0]), vectors @ vectors.T / T
    losses = []
    for i in range(2 * batch):
        p = logits[i, (i + batch) % (2 * batch)]
        u = torch.stack([logits[i, j] for j in range(2 * batch) if j % batch != i % batch])
        if objective == "infonce":
            mu = (1 + odds) * u.exp().mean() - odds * p.detach().exp()
            losses.append(torch.log1p(len(u) * mu / p.exp()))
        else:
            losses.append(F.softplus(-p) + (1 + odds) * F.softplus(u).mean() - odds * F.softplus(p.detach()))
    return torch.stack(losses)


@both_objectives
@both_ways
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_the_value_stays_and_the_gradient_is_that_of_a_constant(
    objective: ObjectiveName, streaming: bool, beta: float
) -> None:
    results = []
    for stopped in (False, True):
        torch.manual_seed(1)
        views = [view.requires_grad_() for view in related_views(6, 5)]
        correction = PUCL(alpha=0.05, c=0.1, beta=beta, stop_gradient=stopped)
        outcome = corrected_loss(pair_views(views, temperature=T), correction, objective=objective, streaming=streaming)
        assert outcome.floored == 0
        results.append((outcome.loss.detach(), torch.autograd.grad(outcome.loss.sum(), views)))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert (results[0][1][0] - results[1][1][0]).abs().max() > 1e-3
    if not beta:
        expected = by_hand(views, float(correction.odds), objective)
        torch.testing.assert_close(results[1][0], expected.detach())
        torch.testing.assert_close(results[1][1], torch.autograd.grad(expected.sum(), views))


@both_objectives
def test_without_odds_it_is_plain(objective: ObjectiveName) -> None:
    gradients = []
    for stopped in (False, True):
        torch.manual_seed(2)
        views = [view.requires_grad_() for view in related_views(6, 5)]
        loss = PUCLLoss(alpha=0.0, stop_gradient=stopped, objective=objective)(*views)
        gradients.append(torch.autograd.grad(loss, views))
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_groups_of_nodes() -> None:
    """Graphs with the Jensen-Shannon objective: per node, and the positive term detached."""
    torch.manual_seed(0)
    local, whole = (torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (7, 3))
    graph_of, odds = torch.tensor([0, 0, 1, 1, 1, 2, 2]), PUCL(alpha=0.1, c=0.0).odds
    loss = local_global_loss(local, whole, graph_of, PUCL(alpha=0.1, c=0.0, stop_gradient=True), reduction="sum")
    scores = local @ whole.T
    own = F.one_hot(graph_of, 3).bool()
    p, u = scores[own], scores[~own].view(7, 2)
    negatives = (1 + odds) * F.softplus(u).mean(dim=1) - odds * F.softplus(p.detach())
    assert (negatives > 0).sum() > 3
    expected = (F.softplus(-p) + negatives.clamp_min(0)).sum()
    torch.testing.assert_close(loss, expected)
    inputs = [local, whole]
    torch.testing.assert_close(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs))


def test_the_published_loss_of_hcl_has_no_such_form() -> None:
    local, whole = torch.randn(4, 3), torch.randn(2, 3)
    with pytest.raises(ValueError, match="PUCL with its gradient"):
        local_global_loss(local, whole, torch.tensor([0, 0, 1, 1]), PUCL(stop_gradient=True), compat="hcl")


def test_the_pull_on_a_close_pair_is_bounded() -> None:
    """Near the floor the printed form pulls by more than plain's 1; the stopped form never does."""
    pulls = []
    for stopped in (False, True):
        p = torch.tensor([[0.98 / T]], dtype=torch.float64, requires_grad=True)
        query, unlabelled = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.3, math.sqrt(0.91)]]).double()
        pairs = pair_views([torch.eye(2).double(), torch.eye(2).double()], temperature=T)
        one = replace(
            pairs,
            query=query / T,
            key=unlabelled.expand(100, 2),
            positive=p,
            query_ids=None,
            key_ids=None,
            symmetric=False,
            period=0,
        )
        outcome = corrected_loss(one, PUCL(alpha=0.19, c=0.0, stop_gradient=stopped))
        assert outcome.floored == 0
        pulls.append(-float(torch.autograd.grad(outcome.loss.sum(), p)[0]))
    assert pulls[0] > 2
    assert 0 < pulls[1] < 1
