"""Anchors that share one estimate, against loops."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oracles import softplus
from pucl.contrast.averages import Averages, pool, sum_groups
from pucl.contrast.loss import ObjectiveName, conclude, outcome_of
from pucl.contrast.objectives import OBJECTIVES
from pucl.contrast.pairing import pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Correction, Debiased, Hard, Plain, Ring

GRAPH_OF = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3, 3])


def make(scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    local, whole = (torch.randn(n, 5, generator=generator, dtype=torch.float64) for n in (len(GRAPH_OF), 4))
    return (scale * local).requires_grad_(), whole.requires_grad_()


def grouped(local: Tensor, whole: Tensor, group: Tensor) -> Pairs:
    return replace(pair_local_global(local, whole, GRAPH_OF), group=group)


def loop(local: Tensor, whole: Tensor, group: list[int], tau: float) -> tuple[float, float]:
    """The loss typed from the formula, uniform weights: the mean over nodes, and the share of groups at the floor."""
    scores = (local @ whole.T).tolist()
    total, floored = 0.0, 0
    odds = tau / (1 - tau)
    for number in sorted(set(group)):
        members = [i for i, g in enumerate(group) if g == number]
        unlabelled, positive, attraction = 0.0, 0.0, 0.0
        for i in members:
            own = int(GRAPH_OF[i])
            others = [score for g, score in enumerate(scores[i]) if g != own]
            unlabelled += sum(softplus(u) for u in others) / len(others) / len(members)
            positive += softplus(scores[i][own]) / len(members)
            attraction += softplus(-scores[i][own]) / len(members)
        estimate = (1 + odds) * unlabelled - odds * positive
        floored += estimate <= 0
        total += len(members) * (attraction + max(estimate, 0.0))
    return total / len(group), floored / len(set(group))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("group", [GRAPH_OF, torch.zeros_like(GRAPH_OF), torch.arange(10), GRAPH_OF.flip(0)])
@pytest.mark.parametrize("tau", [0.05, 0.4])
def test_against_loops(group: Tensor, tau: float, streaming: bool) -> None:
    shares = set()
    for seed in range(4):
        local, whole = make(seed=seed)
        outcome = outcome_of(
            grouped(local, whole, group), Debiased(tau_plus=tau), objective="jensen_shannon", streaming=streaming
        )
        expected, floored = loop(local, whole, group.tolist(), tau)
        assert float(outcome.loss.detach().mean()) == pytest.approx(expected, rel=1e-12)
        assert float(outcome.floored) == pytest.approx(floored)
        shares.add(floored)
    assert min(shares) < 1.0  # Not all at the floor: the loop above was tried where it counts.


@pytest.mark.parametrize("objective", ["jensen_shannon", "infonce"])
@pytest.mark.parametrize("group", [GRAPH_OF, torch.zeros_like(GRAPH_OF)])
def test_without_odds_groups_do_not_matter_to_jensen_shannon(objective: ObjectiveName, group: Tensor) -> None:
    local, whole = make(0.3)
    alone = outcome_of(pair_local_global(local, whole, GRAPH_OF), Plain(), objective=objective).loss.mean()
    together = outcome_of(grouped(local, whole, group), Plain(), objective=objective).loss.mean()
    assert torch.allclose(alone, together) == (objective == "jensen_shannon")


def test_groups_of_one_are_no_groups() -> None:
    local, whole = make(0.3)
    for correction in (Plain(), Hard(tau_plus=0.1, beta=0.5), PUCL(alpha=0.2, c=0.1), Ring(lower=0.0, upper=0.7)):
        for objective in ("jensen_shannon", "infonce"):
            alone = outcome_of(pair_local_global(local, whole, GRAPH_OF), correction, objective=objective)
            together = outcome_of(grouped(local, whole, torch.arange(10)), correction, objective=objective)
            torch.testing.assert_close(together.loss, alone.loss)


def test_identities_hold_for_groups() -> None:
    """PUCL is DEB at tau', and plain at alpha 0, whoever shares an estimate."""
    local, whole = make(0.3)
    correction = PUCL(alpha=0.3, c=0.2)
    pairs: list[tuple[Correction, Correction]] = [
        (correction, Debiased(tau_plus=correction.tau_plus)),
        (PUCL(alpha=0.0, c=0.2), Plain()),
        (Hard(tau_plus=0.2, beta=0.0), Debiased(tau_plus=0.2)),
    ]
    for one, other in pairs:
        losses = [
            outcome_of(grouped(local, whole, GRAPH_OF), each, objective="jensen_shannon") for each in (one, other)
        ]
        assert float(losses[0].floored) < 1
        torch.testing.assert_close(losses[0].loss, losses[1].loss, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("objective", ["jensen_shannon", "infonce"])
def test_gradients(objective: ObjectiveName) -> None:
    local, whole = make(0.3)

    def loss(local: Tensor, whole: Tensor) -> Tensor:
        return outcome_of(
            grouped(local, whole, GRAPH_OF), Debiased(tau_plus=0.1), objective=objective, streaming=False
        ).loss.mean()

    assert torch.autograd.gradcheck(loss, (local, whole))


def test_a_group_makes_up_for_members_below_the_floor() -> None:
    local, whole = make()
    single = outcome_of(pair_local_global(local, whole, GRAPH_OF), Debiased(tau_plus=0.3), objective="jensen_shannon")
    batch = outcome_of(
        grouped(local, whole, torch.zeros_like(GRAPH_OF)), Debiased(tau_plus=0.3), objective="jensen_shannon"
    )
    assert 0 < float(single.floored) < 1
    assert float(batch.floored) == 0


def test_infonce_pools_the_exponentials() -> None:
    local, whole = make(0.3)
    pairs = grouped(local, whole, torch.zeros_like(GRAPH_OF))
    outcome = outcome_of(pairs, Plain(), objective="infonce")
    scores = (local @ whole.T).tolist()
    others = [math.exp(s) for i, row in enumerate(scores) for g, s in enumerate(row) if g != int(GRAPH_OF[i])]
    negatives = 3 * sum(others) / len(others)
    own = [scores[i][int(g)] for i, g in enumerate(GRAPH_OF)]
    expected = sum(-math.log(math.exp(p) / (math.exp(p) + negatives)) for p in own) / len(own)
    assert float(outcome.loss.detach().mean()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("objective", ["jensen_shannon", "infonce"])
def test_positives_that_do_not_count_and_a_group_of_nobody(objective: ObjectiveName) -> None:
    """A group is an anchor with the positives of its members: here against such anchors, one by one."""
    torch.manual_seed(0)
    positive, mask = torch.randn(6, 2, dtype=torch.float64), torch.rand(6, 2) > 0.4
    mask[4:] = torch.tensor([[False, False], [False, False]])
    group = torch.tensor([3, 0, 3, 0, 1, 1])  # 2 is nobody's, and 1 has no positives.
    form, correction = OBJECTIVES[objective], Debiased(tau_plus=0.1)
    singles = Averages(
        positive=positive,
        positive_weight=mask,
        unlabelled=torch.rand(6, dtype=torch.float64),
        count=torch.full((6,), 5.0, dtype=torch.float64),
        lowest=-math.inf,
        temperature=1.0,
        unlabelled_similarity=torch.zeros((), dtype=torch.float64),
    )
    pooled, weight = pool(singles, group)
    outcome = conclude(pooled, correction, form)
    assert weight.tolist() == pytest.approx([4 / 3, 4 / 3, 0, 4 / 3])
    assert outcome.loss[[1, 2]].tolist() == [0.0, 0.0]
    for number in (0, 3):
        members = group == number
        averages = singles.unlabelled[members]
        mean = averages.mean() if objective == "jensen_shannon" else averages.exp().mean().log()
        alone = Averages(
            positive=positive[members].reshape(1, -1),
            positive_weight=mask[members].reshape(1, -1),
            unlabelled=mean[None],
            count=pooled.count[[number]],
            lowest=-math.inf,
            temperature=1.0,
            unlabelled_similarity=torch.zeros((), dtype=torch.float64),
        )
        torch.testing.assert_close(outcome.loss[[number]], conclude(alone, correction, form).loss)
    torch.testing.assert_close(outcome.positive_similarity, positive[mask].mean())


def test_a_large_group_of_like_numbers_keeps_its_digits() -> None:
    values, group = torch.full((200_000,), 0.7), torch.zeros(200_000, dtype=torch.long)
    assert float(sum_groups(values, group, 1)) == pytest.approx(140_000, rel=1e-6)
