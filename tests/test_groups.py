"""Known groups: samples of one group are positives of each other, and never each other's negatives.

`test_every_correction.py` has the contract. Here are queue, ids, states, memory, processes and bad input.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import oracles
import pucl
from examples import LEARNING, brief, loop_count, loop_weights, related_views
from image_trainings import make_image_training
from pucl import ContrastiveLoss, NTXentLoss, OracleLoss, PUCLLoss, RatioLoss, SupConLoss, processes
from pucl.adapters import MetricLearningLoss, TwoTowerLoss
from pucl.contrast.knowledge import with_false_negatives_attracted, with_groups
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import Comparison
from pucl.corrections import BCL, PUCL, Correction, ExtraPositives, Hard, Plain, Reading, Ring
from pucl.functional import corrected_loss, pair_up, pair_views
from worlds import results_together

both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
both_objectives = pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])

T = 0.4
GROUPS = torch.tensor([4, -1, 2, 4, 7, 2, -1, 4, 9])
CORRECTIONS = [
    Plain(),
    PUCL(alpha=0.05, c=0.0),
    PUCL(alpha=0.05, c=0.0, stop_gradient=True),
    Hard(tau_plus=0.05, beta=0.5),
    Ring(lower=0.1, upper=0.6),
    BCL(auc=0.8, hardness=0.7),
]


def loop_loss(
    correction: Correction, positives: list[float], unlabelled: list[float], objective: str
) -> tuple[float, bool]:
    weights, odds = loop_weights(correction, T)(unlabelled), float(correction.odds)
    if objective == "infonce":
        count = loop_count(correction, unlabelled)
        return oracles.infonce(positives, unlabelled, weights, odds, math.exp(-1 / T), count)
    return oracles.jensen_shannon(positives, unlabelled, weights, odds, oracles.softplus(-1 / T))


@pytest.mark.usefixtures("small_tiles")
class TestQueue:
    @both_ways
    @both_objectives
    @pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
    @pytest.mark.parametrize("correction", CORRECTIONS, ids=brief)
    def test_equals_the_loops(
        self, correction: Correction, objective: ObjectiveName, streaming: bool, named: bool
    ) -> None:
        """The queue remembers the groups of its keys, and wraps around. Without ids an older key is a mate too."""
        loss = ContrastiveLoss(
            correction,
            temperature=T,
            memory_bank_size=(20, 5),
            objective=objective,
            streaming=streaming,
            reduction="none",
        ).double()
        keys: list[tuple[list[float], int, int]] = []
        for step in range(4):
            z0, z1 = related_views(9, 5)
            ids = (torch.arange(9) + 5 * step) % 16
            groups = torch.where(ids % 4 == 3, -1, ids % 7)
            losses = loss(z0, z1, groups=groups, **({"ids": ids} if named else {}))
            if keys:
                expected = []
                for anchor, own, number, group in zip(
                    z0.tolist(), z1.tolist(), ids.tolist(), groups.tolist(), strict=True
                ):
                    positives = [oracles.cosine(anchor, own) / T]
                    unlabelled: list[float] = []
                    for key, key_id, key_group in keys[-20:]:
                        logit = oracles.cosine(anchor, key) / T
                        if named and key_id == number:
                            continue
                        (positives if group == key_group != -1 else unlabelled).append(logit)
                    expected.append(loop_loss(correction, positives, unlabelled, objective)[0])
                torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)
                assert loss.last is not None
                assert loss.last.floored < 0.5
            keys += list(zip(z1.tolist(), ids.tolist(), groups.tolist(), strict=True))
        assert loss.queue is not None
        assert sorted(loss.queue.contents().groups.tolist()) == sorted(group for _, _, group in keys[-20:])

    def test_survives_saving(self) -> None:
        loss, restored = (PUCLLoss(alpha=0.02, c=0.0, memory_bank_size=20).double() for _ in range(2))
        for _ in range(3):
            loss(*related_views(9, 5), groups=GROUPS)
        restored.load_state_dict(loss.state_dict())
        views = related_views(9, 5)
        loss.eval()
        assert torch.equal(loss(*views, groups=GROUPS), restored(*views, groups=GROUPS))
        assert loss(*views, groups=GROUPS) != loss(*views)

    def test_a_full_queue_of_one_group_is_refused(self) -> None:
        loss = NTXentLoss(memory_bank_size=6)
        groups = torch.full((4,), 2)
        for _ in range(2):  # Nothing is left to compare with, but the queue is not full yet.
            assert loss(torch.randn(4, 3), torch.randn(4, 3), groups=groups) == 0
        with pytest.raises(ValueError, match="got 6 embeddings of the group 2 alone. Shuffle the data"):
            loss(torch.randn(4, 3), torch.randn(4, 3), groups=groups)


@both_ways
@pytest.mark.parametrize("correction", CORRECTIONS, ids=brief)
@pytest.mark.usefixtures("small_tiles")
def test_three_views_and_a_sample_that_is_in_the_batch_twice(correction: Correction, streaming: bool) -> None:
    """The other row of the sample is neither positive nor unlabelled, as without groups."""
    views, ids = related_views(7, 5, 3), [0, 1, 2, 0, 3, 4, 5]
    groups = [6, -1, 6, 6, 2, 2, -1]
    loss = ContrastiveLoss(correction, temperature=T, streaming=streaming, reduction="none")
    losses = loss(*views, ids=torch.tensor(ids), groups=torch.tensor(groups))
    vectors = [(vector, v, i) for v, view in enumerate(views) for i, vector in enumerate(view.tolist())]
    expected = []
    for anchor, v, i in vectors:
        positives: list[float] = []
        unlabelled: list[float] = []
        for vector, w, j in vectors:
            logit = oracles.cosine(anchor, vector) / T
            if i == j:
                positives += [logit] if v != w else []
            elif ids[i] != ids[j]:
                (positives if groups[i] == groups[j] != -1 else unlabelled).append(logit)
        expected.append(loop_loss(correction, positives, unlabelled, "infonce")[0])
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)
    assert loss.last is not None
    assert loss.last.floored < 0.5


@both_ways
@both_objectives
@pytest.mark.usefixtures("small_tiles")
def test_beside_extra_positives_and_odds_of_each_anchor(objective: ObjectiveName, streaming: bool) -> None:
    """A correction attracts the key at the anchor's own index + 1 with weight 0.5. A mate counts once, as a mate."""
    query, positive = related_views(6, 5)
    keys, groups = torch.randn(12, 5, dtype=torch.float64), torch.tensor([3, -1, 3, 0, 5, 5])
    key_groups = torch.tensor([-1, 3, -1, -1, 0, 5, -1, 3, 3, -1, 5, 9])
    odds = torch.tensor([0.0, 0.02, 0.04, 0.01, 0.03, 0.0], dtype=torch.float64)

    def attract(comparison: Comparison) -> ExtraPositives:
        samples, _ = comparison.sample_ids()
        return ExtraPositives(samples[:, None] + 1, torch.full((len(samples), 1), 0.5))

    names, key_names = torch.arange(6), torch.arange(100, 112)
    pairs = pair_up(
        query,
        positive,
        keys,
        temperature=T,
        query_ids=names,
        unlabelled_ids=key_names,
        query_groups=groups,
        unlabelled_groups=key_groups,
    )
    outcome = corrected_loss(pairs, Reading(odds=odds, attract=attract), objective=objective, streaming=streaming)
    assert outcome.floored < 0.5
    g = math.exp if objective == "infonce" else oracles.softplus
    floor = g(-1 / T)
    for i in range(6):
        weighted, unlabelled = [(oracles.cosine(query[i].tolist(), positive[i].tolist()) / T, 1.0)], []
        for j in range(12):
            logit = oracles.cosine(query[i].tolist(), keys[j].tolist()) / T
            if groups[i] == key_groups[j] != -1:
                weighted.append((logit, 1.0))
                continue
            unlabelled.append(logit)
            weighted += [(logit, 0.5)] if j == i + 1 else []
        total = sum(weight for _, weight in weighted)
        omega, mean = float(odds[i]), sum(map(g, unlabelled)) / len(unlabelled)
        taken = sum(weight * g(logit) for logit, weight in weighted) / total
        mu = max((1 + omega) * mean - omega * taken, floor)
        if objective == "infonce":
            parts = [weight * math.log1p(len(unlabelled) * mu / math.exp(logit)) for logit, weight in weighted]
            expected = sum(parts) / total
        else:
            expected = sum(weight * oracles.softplus(-logit) for logit, weight in weighted) / total + mu
        assert outcome.loss[i].item() == pytest.approx(expected, rel=1e-10)


@both_ways
@both_objectives
def test_groups_of_classes_are_sincere(objective: ObjectiveName, streaming: bool) -> None:
    views, labels = related_views(9, 5), torch.tensor([0, 1, 0, 2, 1, 0, 3, 3, 2])
    options: dict[str, Any] = {"temperature": T, "objective": objective, "streaming": streaming}
    expected = SupConLoss("sincere", **options)(*views, labels=labels)
    torch.testing.assert_close(NTXentLoss(**options)(*views, groups=labels), expected, rtol=1e-12, atol=0)


@both_ways
def test_the_oracle_has_groups_too(streaming: bool) -> None:
    """Classes are left out, and groups within them attracted. N is the number of samples outside of the group."""
    views, labels = related_views(7, 5), [0, 1, 0, 2, 1, 0, 2]
    groups = [5, -1, 5, 1, 3, -1, 1]
    loss = OracleLoss(temperature=T, streaming=streaming, reduction="none")
    losses = loss(*views, labels=torch.tensor(labels), groups=torch.tensor(groups))
    vectors = [(vector, v, i) for v, view in enumerate(views) for i, vector in enumerate(view.tolist())]
    expected = []
    for anchor, v, i in vectors:
        positives, negatives, count = [], [], 0
        for vector, w, j in vectors:
            logit = oracles.cosine(anchor, vector) / T
            mate = i != j and groups[i] == groups[j] != -1
            if mate or (i == j and v != w):
                positives.append(logit)
            elif i != j:
                count += 1
                negatives += [logit] if labels[i] != labels[j] else []
        expected.append(oracles.infonce(positives, negatives, oracles.uniform(negatives), 0.0, 0.0, count)[0])
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="expected one label for each group, got the labels 0 and 1 in one group"):
        loss(*views, labels=torch.tensor(labels), groups=torch.tensor([5, 5, 5, 1, 3, -1, 1]))


@both_ways
@pytest.mark.parametrize("correction", LEARNING, ids=brief)
def test_corrections_that_learn(correction: Correction, streaming: bool) -> None:
    """They learn with groups, and give the same loss dense and streaming."""
    names = {"ids": torch.arange(9)} if type(correction).__name__ == "GloFND" else {}
    losses = [
        ContrastiveLoss(correction, samples=9 if names else None, streaming=each).double()
        for each in (streaming, False)
    ]
    for _ in range(3):
        views = related_views(9, 5)
        values = [loss(*views, groups=GROUPS, **names) for loss in losses]
        torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=0)
    for loss in losses:
        loss.end_epoch()


def test_ratio_counts_mates_as_positives(monkeypatch: pytest.MonkeyPatch) -> None:
    views, counts = related_views(9, 5), []
    for block in (1 << 21, 24):
        monkeypatch.setattr("pucl.contrast.pairs.BLOCK", block)
        loss = RatioLoss(tau_plus=0.05, warm_up=1)
        loss(*views, groups=GROUPS)
        assert loss.learnt is not None
        counts.append(loss.learnt.state_dict()["positive"])
    # Two views: 18 positives; groups of 3 and of 2 samples add 2 * 3 * 4 and 2 * 2 * 2.
    assert counts[0].sum() == 18 + 24 + 8
    assert torch.equal(counts[0], counts[1])


@both_ways
def test_metric_learning_with_many_of_a_label(streaming: bool) -> None:
    """Labels of pytorch-metric-learning are groups: also when a label has half of the batch."""
    embeddings, labels = torch.cat(related_views(6, 4)), torch.tensor([0, 1, 0, 0, 0, 2] * 2)
    each = MetricLearningLoss(PUCLLoss(alpha=0.02, c=0.0, reduction="none", streaming=streaming))(embeddings, labels)
    pairs = pair_views([embeddings[:6], embeddings[6:]], groups=labels[:6])
    torch.testing.assert_close(each, corrected_loss(pairs, PUCL(alpha=0.02, c=0.0)).loss)


def test_streaming_holds_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three groups: the mates of 900 anchors would be 270,000 logits."""
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 40_000)
    views = [torch.randn(450, 4, requires_grad=True) for _ in range(2)]
    groups = torch.arange(450) % 3
    for correction in (PUCL(alpha=0.02, c=0.0), Ring(lower=0.1, upper=0.9)):
        saved: list[int] = []

        def note(tensor: Tensor, saved: list[int] = saved) -> Tensor:
            saved.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            pairs = pair_views(views, groups=groups)
            loss = corrected_loss(pairs, correction, streaming=True).loss.mean()
        assert max(saved) < 2e4
        gradients = torch.autograd.grad(loss, views)
        dense = corrected_loss(pair_views(views, groups=groups), correction, streaming=False).loss.mean()
        torch.testing.assert_close(loss, dense)
        torch.testing.assert_close(gradients, torch.autograd.grad(dense, views), rtol=1e-4, atol=1e-8)


@both_ways
def test_a_temperature_that_is_learnt(streaming: bool) -> None:
    views, correction = related_views(9, 4), PUCL(alpha=0.02, c=0.0)
    temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)

    def loss(temperature: Tensor) -> Tensor:
        pairs = pair_views(views, temperature=temperature, groups=GROUPS)
        return corrected_loss(pairs, correction, streaming=streaming).loss.sum()

    assert torch.autograd.gradcheck(loss, [temperature])


def test_integers_of_any_size() -> None:
    views = related_views(9, 4)
    expected = NTXentLoss()(*views, groups=GROUPS)
    assert torch.equal(NTXentLoss()(*views, groups=GROUPS.int()), expected)
    large = torch.where(GROUPS >= 0, GROUPS + 2**62, -5)  # A hash; any negative number is no group.
    assert torch.equal(NTXentLoss()(*views, groups=large, ids=torch.arange(9)), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"groups": torch.zeros(4, dtype=torch.long)}, "got 8 embeddings of the group 0 alone.*larger batches.*most="),
        (
            {"groups": torch.tensor([0, 1, 2, 2]), "ids": torch.tensor([5, 5, 1, 2])},
            "the groups 0 and 1 for the id 5; groups that share a sample are one group, and pucl.pairs.groups joins",
        ),
        (
            {"groups": torch.tensor([0, -1, 2, 2]), "ids": torch.tensor([5, 5, 1, 2])},
            "got the groups .* for the id 5",
        ),
        ({"groups": torch.arange(3)}, "groups names the known group of each row, -1 for none: expected 4 integers"),
        ({"groups": torch.zeros(4)}, "expected 4 integers, got torch.float32"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_wrong_groups_are_refused(call: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PUCLLoss()(torch.randn(4, 3), torch.randn(4, 3), **call)


def test_groups_that_do_not_fit_are_refused() -> None:
    query, positive = related_views(4, 3)
    sets, labels = torch.randn(4, 5, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1])
    with pytest.raises(ValueError, match="expected both or neither, got one"):
        pair_up(query, positive, sets[0], query_groups=labels)
    with pytest.raises(ValueError, match="with a set for each anchor, use mask instead"):
        pair_up(query, positive, sets, query_groups=labels, unlabelled_groups=torch.arange(5))
    with pytest.raises(ValueError, match="expected one set, got a set for each anchor"):
        with_groups(pair_up(query, positive, sets), labels, torch.arange(5))
    twice = labels.repeat(2)
    with pytest.raises(ValueError, match="expected no groups beside the classes"):
        with_false_negatives_attracted(pair_views([query, positive], groups=labels), twice, twice)


def test_a_group_that_holds_nearly_all_leaves_its_anchors_what_is_left() -> None:
    """An anchor without any negative has no InfoNCE loss; one of a group with a single negative has one."""
    views, ones = [view.float().requires_grad_() for view in related_views(5, 4)], torch.ones(5, dtype=torch.int64)
    for streaming in (False, True):
        loss = NTXentLoss(reduction="none", streaming=streaming)(*views, groups=torch.tensor([1, 1, 1, 1, -1]))
        assert (loss > 0).all()
        pairs = pair_up(views[0], views[1], views[1], query_groups=ones, unlabelled_groups=ones)
        outcome = corrected_loss(pairs, PUCL(alpha=0.02, c=0.0), streaming=streaming)
        assert (outcome.loss == 0).all()
        gradients = torch.autograd.grad(loss.sum() + outcome.loss.sum(), views)
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("framework", ["simclr", "moco", "cmc"])
def test_a_training_with_groups(framework: str) -> None:
    """Whatever a framework compares with: samples of one group are positives, by their ids."""
    training = make_image_training(framework, grouped=True)
    for _ in range(3):
        training.advance()
    assert training.groups is not None
    for pairs in map(training._use_knowledge, training.framework.pairs(training._batch())):
        queries, keys = pairs.sample_ids()
        same = training.groups[queries][:, None] == training.groups[keys]
        same &= (training.groups[queries] >= 0)[:, None] & (queries[:, None] != keys)
        comparison = pairs.comparison()
        assert comparison.positive_mask is not None
        assert torch.equal(comparison.positive_mask.sum(dim=1), pairs.positives().shape[1] + same.sum(dim=1))
        assert comparison.mask is not None
        assert not (comparison.mask & same).any()
        assert same.any()


def test_groups_of_a_training_are_one_for_each_sample() -> None:
    training = make_image_training("simclr")
    with pytest.raises(ValueError, match=r"expected one for each of 48 samples, and no compat, got \(3,\)"):
        type(training)(
            training.framework, training.optimiser, training.data, Plain(), training.plan, groups=np.arange(3)
        )


# Two towers in several processes. Losses of views are compared by the doctor, and trainings in test_together.py.

SIZES = (3, 1, 2)
KINDS: dict[str, dict[str, Any]] = {
    "clip": {},
    "one direction, log q": {"directions": "first", "log_q": True},
    "ids": {"ids": True},
    "ids, groups, negatives, log q": {"ids": True, "groups": True, "negatives": True, "log_q": True},
    "groups, bias": {"groups": True, "logit_bias": -0.3},
}


def tower_results(sizes: list[int], rank: int | None, kind: str, *, streaming: bool) -> tuple[float, list[Tensor]]:
    """Loss, and gradients of both towers and the negatives: of one process, or of all with the whole batch."""
    total, generator = sum(sizes), torch.Generator().manual_seed(0)
    towers = [torch.randn(total, 4, dtype=torch.float64, generator=generator) for _ in range(2)]
    towers[1] += towers[0]
    extra = torch.randn(len(sizes), 4, dtype=torch.float64, generator=generator)
    numbers = torch.arange(total) % max(2, total - 1)
    values = {
        "ids": numbers,
        "groups": torch.where(numbers == 1, -1, numbers % 3),
        "log_q": -torch.rand(total, dtype=torch.float64, generator=generator),
    }
    of_extra = {
        "ids": numbers.new_zeros(len(sizes)),
        "groups": numbers.new_zeros(len(sizes)),
        "log_q": -torch.rand(len(sizes), dtype=torch.float64, generator=generator),
    }
    settings = dict(KINDS[kind])
    first = 0 if rank is None else sum(sizes[:rank])
    rows = slice(first, total if rank is None else first + sizes[rank])
    more = slice(0, len(sizes)) if rank is None else slice(rank, rank + 1)
    inputs = [tower[rows].clone().requires_grad_() for tower in towers]
    negatives = extra[more].clone().requires_grad_()
    for name, value in values.items():
        if settings.get(name) is True:
            parts = [value[rows], of_extra[name][more]] if "negatives" in settings else [value[rows]]
            settings[name] = torch.cat(parts)
    if "negatives" in settings:
        settings["negatives"] = negatives
    objective: ObjectiveName = "jensen_shannon" if "logit_bias" in settings else "infonce"
    loss = TwoTowerLoss(
        PUCLLoss(alpha=0.02, c=0.0, gather_distributed=True, streaming=streaming, objective=objective, floor=0.01)
    )
    value = loss(*inputs, 2.0, **settings)
    assert isinstance(value, Tensor)
    value.backward()
    return value.item(), [leaf.grad for leaf in (*inputs, negatives) if leaf.grad is not None]


def towers_together() -> dict[str, Any]:
    sizes = list(SIZES[: processes.world_size()])
    return {
        f"{kind}, {streaming}": tower_results(sizes, processes.rank(), kind, streaming=streaming)
        for kind in KINDS
        for streaming in (False, True)
    }


def unlike_calls() -> str:
    """One process has groups and the other has none: both say so, instead of waiting for each other."""
    groups = {"groups": torch.arange(3)} if processes.rank() else {}
    messages = []
    for loss in (PUCLLoss(gather_distributed=True), TwoTowerLoss(PUCLLoss(gather_distributed=True))):
        try:
            loss(torch.randn(3, 4), torch.randn(3, 4), **groups)
        except ValueError as error:
            messages.append(str(error))
    return "; ".join(messages)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_two_towers_of_several_processes_are_those_of_one(count: int) -> None:
    reports, sizes = results_together(__file__, "towers_together", count), list(SIZES[:count])
    for kind in KINDS:
        value, gradients = tower_results(sizes, None, kind, streaming=False)
        for streaming in (False, True):
            found = [report[f"{kind}, {streaming}"] for report in reports]
            assert [each for each, _ in found] == pytest.approx([value] * count, rel=1e-12)
            for tower, expected in enumerate(gradients):
                # The average over the processes is the gradient of one: the gradient of own rows is `count` times it.
                parts = torch.cat([each[tower] for _, each in found]) / count
                torch.testing.assert_close(parts, expected, rtol=1e-10, atol=1e-13)
                assert expected.abs().max() > 1e-4


@pytest.mark.slow
def test_processes_with_unlike_calls_say_so() -> None:
    for message in results_together(__file__, "unlike_calls", 2):
        assert message.count("given goes for all processes") == 2
        assert "0 in process 0, 1 in process 1" in message


def test_pairs_are_part_of_the_package() -> None:
    assert pucl.pairs.groups([(0, 1), (1, 2), (3, 4)]).tolist() == [0, 0, -1]
