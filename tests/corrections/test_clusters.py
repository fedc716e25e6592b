"""Clusters: plain while nothing can be seen, the oracle where everything can."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from image_trainings import FRAMEWORKS, make_image_training, resume_bit_by_bit
from pucl import AutoLoss, ClustersLoss, ContrastiveLoss, GloFNDLoss, NTXentLoss, OracleLoss, RatioLoss, processes
from pucl.cli import main as pucl_command
from pucl.commands.frameworks import compared_rows
from pucl.config import NAMED_ROWS, settings_of
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import Comparison
from pucl.contrast.pointwise import Pointwise
from pucl.corrections import Clusters, Correction, Plain
from pucl.corrections.clusters import MATES, OPENS, RECENT, ClusterState, choose_mates, mean_features
from pucl.functional import corrected_loss, pair_up, pair_views
from pucl.runs.directory import RunDirectory
from pucl.training.loop import NOT_READY
from small_runs import save_pictures
from worlds import results_together

SAMPLES, CLASSES, DIM, BATCH = 240, 6, 12, 60
ALL = [Clusters(), Clusters(attraction=1.0), Clusters(shuffled=True), Clusters(k=CLASSES)]
every = pytest.mark.parametrize("correction", ALL, ids=["communities", "attracting", "shuffled", "k-means"])
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
named_or_not = pytest.mark.parametrize("named", [True, False], ids=["ids", "no ids"])


class Data:
    """Two noisy views of samples in separate classes, or of noise."""

    def __init__(self, apart: float, noise: float = 0.3) -> None:
        numbers = torch.Generator().manual_seed(1)
        self.labels = torch.arange(SAMPLES) % CLASSES
        centres = torch.randn(CLASSES, DIM, generator=numbers, dtype=torch.float64)
        own = torch.randn(SAMPLES, DIM, generator=numbers, dtype=torch.float64)
        self.samples, self.noise = apart * centres[self.labels] + own, noise

    def batches(self, epoch: int) -> list[tuple[list[Tensor], Tensor]]:
        numbers = torch.Generator().manual_seed(epoch)
        order = torch.randperm(SAMPLES, generator=numbers)
        steps = []
        for ids in order.split(BATCH):
            noise = torch.randn(2, BATCH, DIM, generator=numbers, dtype=torch.float64)
            steps.append(([view.requires_grad_() for view in self.samples[ids] + self.noise * noise], ids))
        return steps


SEPARATE, NOISE = Data(apart=3.0), Data(apart=0.0)


def run(loss: ContrastiveLoss, data: Data, epochs: Sequence[int] = range(3), *, named: bool = True) -> list[float]:
    """The losses of each step of these epochs."""
    values = []
    for epoch in epochs:
        for views, ids in data.batches(epoch):
            values.append(loss(*views, ids=ids).item() if named else loss(*views).item())
        loss.end_epoch()
    return values


def make(correction: Correction | None = None, *, named: bool = True, **options: Any) -> ContrastiveLoss:
    return ContrastiveLoss(correction or Clusters(), samples=SAMPLES if named else None, **options)


def state_of(loss: ContrastiveLoss) -> ClusterState:
    assert isinstance(loss.learnt, ClusterState)
    return loss.learnt


@every
@named_or_not
def test_noise_is_plain_to_the_bit(correction: Correction, named: bool) -> None:
    loss, plain = make(correction, named=named), NTXentLoss()
    for epoch in range(4):
        for views, ids in NOISE.batches(epoch):
            options = {"ids": ids} if named else {}
            value, expected = loss(*views, **options), plain(*views, **options)
            assert torch.equal(value, expected)
            gradients = [torch.autograd.grad(each, views) for each in (value, expected)]
            assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
        report = loss.end_epoch()
    assert report is not None
    assert not state_of(loss).sees
    assert 0 < report.numbers["repeatable"] < OPENS
    assert report.numbers["tau_plus"] == report.numbers["removed"] == report.numbers["communities"] == 0
    assert report.sentence.startswith("plain: two halves of the samples agree by 0.")
    assert report.sentence.endswith("(adjusted Rand index), and 0.55 is needed")


@named_or_not
@both_ways
@pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
def test_separate_classes_are_the_oracle(
    named: bool, streaming: bool, objective: ObjectiveName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every partition is that of the classes, so r is 1 for pairs of one class and 0 for others."""
    # At a high temperature a class is no more than half of an anchor's sum, so the bound changes nothing.
    options: dict[str, Any] = {"temperature": 2.0, "objective": objective, "streaming": streaming}
    loss, oracle = make(named=named, **options), OracleLoss(**options)
    run(loss, SEPARATE, named=named)
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 1000)  # Several blocks of rows.
    views, ids = SEPARATE.batches(9)[0]
    value = loss(*views, ids=ids) if named else loss(*views)
    expected = oracle(*views, labels=SEPARATE.labels[ids], ids=ids)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
    gradients = [torch.autograd.grad(each, views) for each in (value, expected)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)
    assert loss.last is not None
    assert loss.last.floored == 0
    assert abs(float(value.detach()) - NTXentLoss(**options)(*views).item()) > 1e-3


@named_or_not
@both_ways
@pytest.mark.parametrize("attraction", [0.5, 2.0])
def test_sure_mates_are_positives(
    named: bool, streaming: bool, attraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every partition is that of the classes. The batch is so small that all mates of an anchor are attracted."""
    loss = make(Clusters(attraction=attraction), named=named, temperature=2.0, streaming=streaming)
    run(loss, SEPARATE, named=named)
    loss.reduction = "none"
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 100)  # Several blocks of rows.
    views, ids = [view[:12].detach() for view in SEPARATE.batches(9)[0][0]], SEPARATE.batches(9)[0][1][:12]
    values = loss(*views, ids=ids) if named else loss(*views)
    rows, classes = torch.nn.functional.normalize(torch.cat(views), dim=1), SEPARATE.labels[ids].repeat(2)
    lonely = 0
    for anchor in range(24):
        logits = {each: float(rows[anchor] @ rows[each]) / 2.0 for each in range(24) if each != anchor}
        given = logits.pop((anchor + 12) % 24)
        mates = [logit for each, logit in logits.items() if classes[each] == classes[anchor]]
        others = [logit for each, logit in logits.items() if classes[each] != classes[anchor]]
        assert len(mates) <= MATES
        negative = len(logits) * sum(map(math.exp, others)) / len(others)
        lonely += not mates
        positives = [(given, 1.0), *((mate, attraction / len(mates)) for mate in mates)]
        total = sum(weight * math.log1p(negative / math.exp(logit)) for logit, weight in positives)
        assert float(values[anchor]) == pytest.approx(total / sum(weight for _, weight in positives), rel=1e-9)
    assert lonely < 24


def test_few_of_many_mates_are_chosen() -> None:
    """Eight of each anchor, not the same for all, and the same in every block of rows."""
    keys = torch.arange(100)
    comparison = Comparison(
        positive=torch.zeros(30, 1),
        unlabelled=torch.zeros(30, 100),
        mask=torch.arange(100).expand(30, 100) < 80,
        query_samples=torch.arange(30),
        key_samples=keys,
    )
    hidden = (keys % 2 == 0).double().expand(30, 100)
    chosen = choose_mates(hidden, comparison, 1.0)
    assert torch.equal(chosen.weight, torch.full((30, MATES), 1 / MATES, dtype=torch.float64))
    assert (chosen.indices % 2 == 0).all()
    assert (chosen.indices < 80).all()
    assert len({tuple(sorted(row)) for row in chosen.indices.tolist()}) == 30
    assert len(chosen.indices.unique()) == 40
    assert comparison.mask is not None
    part = Comparison(
        positive=torch.zeros(2, 1),
        unlabelled=torch.zeros(2, 100),
        mask=comparison.mask[7:9],
        query_samples=torch.arange(7, 9),
        key_samples=keys,
    )
    assert torch.equal(choose_mates(hidden[7:9], part, 1.0).indices, chosen.indices[7:9])
    lonely = choose_mates(torch.zeros(30, 100), comparison, 1.0)
    assert not lonely.weight.any()


def test_what_is_believed_is_reported() -> None:
    loss = make()
    for epoch, begin in enumerate(
        ["plain so far: communities are looked for when epoch 2", "plain in this epoch; found"]
    ):
        run(loss, SEPARATE, [epoch])
        assert loss.last is not None
        assert loss.last.report is not None
        assert loss.last.report.sentence.startswith(begin)
    run(loss, SEPARATE, [2, 3])
    assert loss.last is not None
    report = loss.last.report
    assert report is not None
    assert report.numbers["communities"] == CLASSES
    assert report.numbers["repeatable"] == pytest.approx(1.0)
    share = (SAMPLES / CLASSES - 1) / (SAMPLES - 1)
    assert report.numbers["tau_plus"] == pytest.approx(share)
    assert float(loss.last.tau_plus) == pytest.approx(share)
    assert 0.3 < report.numbers["removed"] <= 0.5
    assert report.sentence == (
        f"{report.numbers['removed']:.0%} of plain's sum was removed in this epoch; found at its end: {CLASSES} "
        f"communities, on which two halves of the samples agree by 1.00 (adjusted Rand index), tau' {share:.3f}"
    )
    state = state_of(loss)
    state.opened.fill_(False)
    assert "; plain from now on: two halves of the samples agree by 1.00" in state.report().sentence
    assert state.report().sentence.endswith(", and 0.45 is needed to go on")


@pytest.mark.parametrize("measured", [1024, 7])
def test_the_share_removed_is_that_of_the_weights(measured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many keys, for a part of the anchors."""
    monkeypatch.setattr("pucl.corrections.clusters.MEASURED", measured)
    loss = make()
    run(loss, SEPARATE)
    views, ids = SEPARATE.batches(9)[0]
    pairs = pair_views(views, ids=ids)
    state = state_of(loss)
    seen, stride = state.see(pairs)[:, -2], max(1, 2 * BATCH // measured)
    comparison, reading = pairs.comparison(), state.read(pairs)
    plain = comparison.visible.exp().sum(dim=1)
    assert isinstance(reading, Pointwise)
    left = ((1 - reading.removal(comparison).hidden) * comparison.visible.exp()).sum(dim=1)
    torch.testing.assert_close(seen[::stride], (1 - left / plain)[::stride])
    assert (seen >= 0).sum() == len(seen[::stride])
    assert seen.max() <= 0.5 + 1e-9


def test_at_most_half_of_the_sum_is_removed() -> None:
    """At a low temperature an anchor's own class is nearly all of its sum."""
    loss, plain = make(temperature=0.1, reduction="none"), NTXentLoss(temperature=0.1, reduction="none")
    for epoch in range(3):
        for views, ids in SEPARATE.batches(epoch):
            loss(*views, ids=ids)
        loss.end_epoch()
    views, ids = SEPARATE.batches(9)[0]
    values, others = (each(*views, ids=ids) for each in (loss, plain))
    ratio = torch.expm1(values) / torch.expm1(others)
    assert (ratio > 0.5 - 1e-9).all()
    assert (ratio < 0.75).any()


def test_shuffled_communities_are_as_large_and_say_nothing() -> None:
    losses = [make(each) for each in (Clusters(), Clusters(shuffled=True))]
    for loss in losses:
        run(loss, SEPARATE)
    own, shuffled = (state_of(loss).groups for loss in losses)
    assert torch.equal(own.sort(dim=0).values, shuffled.sort(dim=0).values)
    together, labels = own[:, None, 0] == own[None, :, 0], SEPARATE.labels[:, None] == SEPARATE.labels[None, :]
    assert torch.equal(together, labels)
    mixed = shuffled[:, None, 0] == shuffled[None, :, 0]
    assert (labels & mixed).sum() / mixed.sum() < 0.4  # By chance 1/6, and each sample with itself.
    assert torch.equal(mixed, shuffled[:, None, 5] == shuffled[None, :, 5])  # One shuffle for all partitions.
    assert state_of(losses[0]).tau_plus == state_of(losses[1]).tau_plus


def test_k_means_takes_the_given_number() -> None:
    loss = make(Clusters(k=4))
    run(loss, SEPARATE)
    assert state_of(loss).groups.max() <= 3
    with pytest.raises(ValueError, match="k is the number of clusters: expected at least 2, got 1"):
        Clusters(k=1)
    assert ClustersLoss(shuffled=True, k=7).correction == Clusters(shuffled=True, k=7)


def test_r_is_calibrated_for_classes_that_overlap() -> None:
    """Of the pairs with about the same r, about that share is of one class."""
    data = Data(apart=1.0)
    loss = make()
    run(loss, data, range(4))
    state = state_of(loss)
    assert state.sees
    points, ids = data.samples, torch.arange(SAMPLES)
    pairs = pair_up(points, points, points, query_ids=ids, unlabelled_ids=ids)
    weights = state.read(pairs)
    assert isinstance(weights, Pointwise)
    different = ~torch.eye(SAMPLES, dtype=torch.bool)
    r = weights.hidden(pairs.comparison())[different]
    same = (data.labels[:, None] == data.labels[None, :])[different].double()
    assert r.unique().numel() > 4
    error = 0.0
    for level in r.unique():
        inside = r == level
        error += float((r[inside].mean() - same[inside].mean()).abs() * inside.double().mean())
    assert error < 0.1
    assert float(r.mean()) == pytest.approx(float(state.tau_plus))


def test_unknown_samples_have_no_community() -> None:
    loss = make()
    run(loss, SEPARATE)
    query, positive, unlabelled = (SEPARATE.samples[:9] + 0.1 * each for each in range(3))
    ids = torch.arange(9)
    pairs = pair_up(query, positive, unlabelled, query_ids=ids, unlabelled_ids=ids)
    unknown = replace(pairs, key_samples=torch.full((9,), -1))
    torch.testing.assert_close(
        corrected_loss(unknown, state_of(loss).read(unknown)).loss, corrected_loss(unknown, Plain()).loss
    )
    assert (corrected_loss(pairs, state_of(loss).read(pairs)).loss != corrected_loss(pairs, Plain()).loss).any()
    both = replace(unknown, query_samples=torch.full((9,), -1))
    weights = state_of(loss).read(both)
    assert isinstance(weights, Pointwise)
    assert (weights.hidden(both.comparison()) == 0).all()


def test_the_gate_opens_high_and_shuts_low(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = make()
    run(loss, SEPARATE)
    state, sees = state_of(loss), []
    found = Clusters().divide(torch.nn.functional.normalize(torch.randn(SAMPLES, 32), dim=1), 0)
    for agreement in (0.5, 0.44, 0.5, 0.56, 0.46):
        state.decide(replace(found, agreements=(agreement,)))
        sees.append(state.sees)
    assert sees == [True, False, False, True, True]


def test_older_epochs_fade_also_the_first() -> None:
    state = Clusters().start(2)
    others = torch.tensor([[-1.0, 1.0]]).expand(2, 2)  # Nothing was removed, and there is one copy of each.
    for direction in torch.eye(3):
        state.commit(torch.tensor([0, 1]), torch.cat([torch.stack([direction, -direction]), others], dim=1))
    torch.testing.assert_close(state.features[0], torch.tensor([0.49, 0.7, 1.0]))


def test_an_anchor_that_stands_for_several_counts_as_often() -> None:
    rows = torch.randn(5, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ids, copies = torch.tensor([3, 3, 8, 8, 9]), torch.tensor([1.0, 4.0, 2.0, 1.0, 3.0], dtype=torch.float64)
    samples, features = mean_features(ids, rows, copies)
    again = torch.arange(5).repeat_interleave(copies.long())
    expected, of_each = mean_features(ids[again], rows[again], torch.ones(len(again), dtype=torch.float64))
    assert samples.equal(expected)
    torch.testing.assert_close(features, of_each)
    pairs = replace(pair_views([rows, rows + 0.1], temperature=0.5, samples=ids), copies=torch.arange(10.0))
    assert state_of(make()).see(pairs)[:, -1].tolist() == list(range(10))


@pytest.mark.parametrize("named", [True, False])
def test_few_samples_are_plain(named: bool) -> None:
    loss = ContrastiveLoss(Clusters(), samples=40 if named else None)
    for _ in range(3):
        views = [torch.randn(40, 8), torch.randn(40, 8)]
        assert torch.equal(loss(*views, ids=torch.arange(40) if named else None), NTXentLoss()(*views))
        report = loss.end_epoch()
    assert report is not None
    assert report.sentence == "plain: 40 samples were seen, and communities need at least 60"
    empty = make()
    assert empty.end_epoch() is not None  # Before the first step.
    report = empty.end_epoch()
    assert report is not None
    assert report.sentence.startswith("plain: no step was seen in this epoch")


def test_after_a_short_epoch_earlier_communities_stay() -> None:
    loss = make()
    run(loss, SEPARATE)
    before = state_of(loss).groups.clone()
    state_of(loss).known.fill_(False)  # As in an epoch of few samples.
    report = loss.end_epoch()
    assert report is not None
    assert "; kept, as an epoch of fewer than 60 samples finds none: 6 communities" in report.sentence
    assert torch.equal(state_of(loss).groups, before)


def test_embeddings_of_two_dimensions_are_plain() -> None:
    """Neighbours in noise of two dimensions form groups that repeat."""
    loss = AutoLoss()
    for _ in range(2):
        loss(torch.randn(400, 2), torch.randn(400, 2))
        report = loss.end_epoch()
    assert report is not None
    assert report.sentence == "plain: embeddings have 2 dimensions, and communities need at least 4"


def test_a_collapsed_encoder_is_plain() -> None:
    loss = AutoLoss()
    for _ in range(2):
        for _ in range(4):
            loss(torch.ones(40, 8), torch.ones(40, 8))
        report = loss.end_epoch()
    assert report is not None
    assert report.sentence == "plain: two halves of the samples agree by 0.00 (adjusted Rand index), and 0.55 is needed"


@pytest.mark.parametrize(
    "make_loss", [lambda: AutoLoss(samples=SAMPLES), AutoLoss, RatioLoss], ids=["named", "recent", "ratio"]
)
def test_a_step_that_overflowed_leaves_no_trace(
    make_loss: Callable[[], ContrastiveLoss], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an accelerator NaN is no error, since a gradient scaler skips such a step."""
    monkeypatch.setattr("pucl.contrast.embeddings.check_finite", lambda *_: None)
    loss = make_loss()
    for epoch in range(2):
        for views, ids in SEPARATE.batches(epoch):
            loss(*views, ids=None if loss.samples is None else ids)
        if not epoch:
            views, ids = SEPARATE.batches(epoch)[0]
            broken = [views[0].detach().clone(), views[1].detach()]
            broken[0][3] = math.nan
            loss(*broken, ids=None if loss.samples is None else ids)
        report = loss.end_epoch()
    assert loss.learnt is not None
    assert report is not None
    assert all(bool(buffer.isfinite().all()) for buffer in loss.learnt.buffers())
    assert all(math.isfinite(number) for number in report.numbers.values())
    if not isinstance(loss, RatioLoss):
        assert loss.learnt.sees


def test_embeddings_keep_their_dimension_and_may_change_their_type() -> None:
    loss = AutoLoss(samples=8)
    loss(torch.randn(8, 4), torch.randn(8, 4), ids=torch.arange(8))
    loss(torch.randn(8, 4).double(), torch.randn(8, 4).double(), ids=torch.arange(8))
    assert state_of(loss).features.dtype == torch.float32
    with pytest.raises(ValueError, match="embeddings of 4 dimensions: expected the same in each step, got 5"):
        loss(torch.randn(8, 5), torch.randn(8, 5), ids=torch.arange(8))


@pytest.mark.parametrize("ids", [[0, 1, 2, 8], [-1, 0, 1, 2]])
def test_ids_are_those_of_remembered_samples(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=f"ids name samples: expected 0 to 7, got {min(ids)} to {max(ids)}"):
        AutoLoss(samples=8)(torch.randn(4, 4), torch.randn(4, 4), ids=torch.tensor(ids))


def test_more_samples_than_are_divided_follow_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("corrections.clusters", "estimation.communities"):
        monkeypatch.setattr(f"pucl.{module}.LARGEST", 200)
    for named in (True, False):
        loss = make(named=named)
        run(loss, SEPARATE, named=named)
        views, ids = SEPARATE.batches(9)[0]
        pairs = loss.pair_batch(tuple(views), ids if named else None)
        weights = state_of(loss).read(pairs)
        assert isinstance(weights, Pointwise)
        labels = SEPARATE.labels[ids].repeat(2)
        expected = (labels[:, None] == labels[None, :]).double()
        assert (weights.hidden(pairs.comparison()) - expected).abs().mean() < 0.01


def test_a_ring_of_recent_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older samples of an epoch make room, a new epoch starts at the beginning, and large batches are cut."""
    monkeypatch.setattr("pucl.corrections.clusters.RECENT", 140)
    loss = make(named=False)
    for (views, _), place in zip(SEPARATE.batches(0), (60, 120, 40, 100), strict=True):
        loss(*views)
        assert state_of(loss).state_dict()["place"] == place
    assert state_of(loss).known.all()
    loss.end_epoch()
    assert not state_of(loss).known.any()
    names = state_of(loss).name_samples(142)
    assert names is not None
    assert names.tolist() == [*range(140), -1, -1]
    big = [torch.randn(142, DIM, dtype=torch.float64) for _ in range(2)]
    for _ in range(2):
        loss(*big)
        loss.end_epoch()
    assert RECENT > 5000
    with pytest.raises(ValueError, match="memory bank are older than the batch.*pass samples="):
        ClustersLoss(memory_bank_size=8)


@pytest.mark.parametrize("bank", [0, 24])
def test_a_queue_of_known_samples(bank: int) -> None:
    loss = make(memory_bank_size=bank)
    values = run(loss, SEPARATE)
    plain = run(ContrastiveLoss(Plain(), memory_bank_size=bank), SEPARATE)
    assert values[:8] == plain[:8]
    assert all(one != other for one, other in zip(values[8:], plain[8:], strict=True))


@named_or_not
@every
def test_a_loss_is_saved_and_goes_on_bit_by_bit(correction: Correction, named: bool) -> None:
    whole, first, second = (make(correction, named=named) for _ in range(3))
    values = run(whole, SEPARATE, range(4), named=named)
    begun = run(first, SEPARATE, range(2), named=named)
    second.load_state_dict(first.state_dict())
    assert begun + run(second, SEPARATE, range(2, 4), named=named) == values
    for name, value in whole.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert state_of(whole).sees


@named_or_not
def test_auto_is_clusters_with_attraction(named: bool) -> None:
    options: dict[str, Any] = {"samples": SAMPLES if named else None}
    auto, clusters = AutoLoss(**options), ClustersLoss(**options, attraction=1.0)
    assert run(auto, SEPARATE, range(4), named=named) == run(clusters, SEPARATE, range(4), named=named)
    assert state_of(auto).sees
    assert auto.last is not None
    assert clusters.last is not None
    assert auto.last.report == clusters.last.report
    with pytest.raises(ValueError, match=r"Auto remembers samples.*pass samples="):
        AutoLoss(memory_bank_size=8)


@pytest.mark.parametrize("make_loss", [AutoLoss, ClustersLoss, GloFNDLoss], ids=lambda make: make.__name__)
def test_a_loop_without_end_epoch_is_warned_once(make_loss: Callable[..., ContrastiveLoss]) -> None:
    """When the third pass over the samples begins: until `end_epoch` is called, the loss is plain for ever."""
    loss, words = make_loss(SAMPLES), "has taken 9 steps without end_epoch.*call loss.end_epoch.. after"
    steps = [step for epoch in range(4) for step in SEPARATE.batches(epoch)]
    for number, (views, ids) in enumerate(steps, start=1):
        with pytest.warns(UserWarning, match=words) if number == 9 else nullcontext():  # Other warnings are errors.
            loss(*views, ids=ids)


def test_a_loop_without_names_and_without_end_epoch_is_warned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.losses.contrastive.STEPS_WITHOUT_END", 5)
    loss, careful = AutoLoss(), AutoLoss()
    for number, (views, _) in enumerate([*SEPARATE.batches(0), *SEPARATE.batches(1)], start=1):
        with pytest.warns(UserWarning, match="AutoLoss has taken 5 steps") if number == 5 else nullcontext():
            loss(*views)
        careful(*views)
        careful.end_epoch()


def test_ids_are_needed_where_samples_are_remembered() -> None:
    views, _ = SEPARATE.batches(0)[0]
    with pytest.raises(ValueError, match="this correction remembers samples: expected their ids, got none; pass ids="):
        make()(*views)
    with pytest.raises(ValueError, match="expected the ids of the anchors, got none"):
        state_of(make()).commit(None, torch.zeros(3, 4))


# In a training.


@pytest.mark.slow
@pytest.mark.parametrize("correction", ["clusters", "auto"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_is_resumed_bit_by_bit(
    framework: str, correction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With communities of any agreement."""
    for name, value in {"FEWEST": 40, "OPENS": -1.0, "SHUTS": -1.0}.items():
        monkeypatch.setattr(f"pucl.corrections.clusters.{name}", value)
    state = resume_bit_by_bit(lambda: make_image_training(framework, correction=correction, epochs=4), tmp_path)
    assert state["correction"]["opened"]
    assert state["correction"]["removed"] > 0


def test_nothing_is_learnt_while_a_queue_fills() -> None:
    training = make_image_training("moco", correction="auto", queue_size=1000)
    for _ in range(6):
        training.advance()
    assert training.report.sentence == NOT_READY
    assert isinstance(training.learnt, ClusterState)
    assert not training.learnt.known.any()


def test_the_command_reports_what_is_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = save_pictures(tmp_path / "pictures.npz", 80, 8)
    command = ["train", "simclr", str(data), "--epochs=3", "--batch-size=20", "--dim=8", "--probes=knn"]
    assert pucl_command([*command, "--correction=clusters", "--k=2", "--out", str(tmp_path / "run")]) == 0
    run = RunDirectory(tmp_path / "run")
    assert run.config().settings == {"k": 2}
    names = ("tau_plus", "removed", "repeatable", "communities")
    lines = run.history()
    assert all(f"correction.{name}" in line for line in lines for name in names)
    printed = capsys.readouterr()
    assert all(line["correction.report"] in printed.err for line in lines)
    assert lines[0]["correction.report"].startswith("plain so far")
    assert lines[0]["correction.repeatable"] == 0 != lines[2]["correction.repeatable"]
    result = run.result()
    assert result is not None
    assert "two halves of the samples agree by" in result["correction.report"]
    assert f"clusters, in the last epoch: {result['correction.report']}\n" in printed.out


def test_a_comparison_says_which_rows_were_plain_to_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = save_pictures(tmp_path / "pictures.npz", 40, 8)
    command = ["simclr", str(data), "--epochs=2", "--batch-size=20", "--dim=8", "--probes=knn"]
    rows = ["--corrections=plain,auto", "--seeds=1", "--no-page", "--out", str(tmp_path / "runs")]
    assert pucl_command(["compare", *command, *rows]) == 0
    printed = capsys.readouterr()
    assert "auto corrected nothing at the end of 1 of 1 runs, one says: plain: 28 samples were seen" in printed.out
    assert "communities are found from the end of epoch 2 on, and the training has 2" in printed.err
    train = ["train", *command, "--correction=auto", "--out", str(tmp_path / "run")]
    assert pucl_command(train) == 0
    assert f"pucl diagnose {tmp_path / 'run'} says what" in capsys.readouterr().out


def test_controls_are_rows_of_a_comparison() -> None:
    assert NAMED_ROWS["clusters-shuffled"] == ("clusters", {"shuffled": True})
    assert NAMED_ROWS["clusters-kmeans"] == ("clusters", {"k": 10})
    rows = compared_rows([])
    place = rows.index("clusters")
    assert rows[place : place + 3] == ["clusters", "clusters-shuffled", "clusters-kmeans"]
    assert settings_of("clusters-kmeans") == ["attraction", "shuffled"]
    assert NAMED_ROWS["auto-shuffled"] == ("clusters", {"attraction": 1.0, "shuffled": True})


# In several processes.


def learn_together() -> dict[str, Any]:
    """Losses and states, each process with its part of every batch."""
    report = {}
    for named in (True, False):
        loss, values = make(Clusters(attraction=1.0), named=named, gather_distributed=True), []
        for epoch in range(3):
            for views, ids in SEPARATE.batches(epoch):
                ends = [*[0, 25, 40][: processes.world_size()], BATCH]  # Parts of unequal size.
                rows = slice(ends[processes.rank()], ends[processes.rank() + 1])
                part = [view[rows] for view in views]
                values.append((loss(*part, ids=ids[rows]) if named else loss(*part)).item())
            loss.end_epoch()
        assert state_of(loss).sees
        state = {name: value.double().flatten()[:2000].tolist() for name, value in state_of(loss).state_dict().items()}
        report[str(named)] = {"losses": values, "state": state}
    return report


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_processes_learn_as_one(count: int) -> None:
    reports = results_together(__file__, "learn_together", count)
    for name, alone in learn_together().items():
        assert all(report[name] == reports[0][name] for report in reports)  # Bit by bit.
        assert reports[0][name]["losses"] == pytest.approx(alone["losses"], rel=1e-9)
        for part, values in alone["state"].items():
            if part not in ("directions", "points"):  # Eigenvectors have no sign.
                assert reports[0][name]["state"][part] == pytest.approx(values, rel=1e-6, abs=1e-9)
