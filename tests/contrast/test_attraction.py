"""False negatives attracted: SINCERE and SupCon against loops, by blocks, and as the second oracle of a training."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import oracles
from examples import related_views
from pucl import NTXentLoss, OracleLoss, SupConLoss
from pucl.contrast.knowledge import check_form, with_false_negatives_attracted
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import AttractingForm
from pucl.corrections import Hard, Plain
from pucl.functional import corrected_loss, pair_up, pair_views

both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
both_forms = pytest.mark.parametrize("form", ["sincere", "supcon"])
every_form = pytest.mark.parametrize(
    ("form", "objective"), [("sincere", "infonce"), ("supcon", "infonce"), ("sincere", "jensen_shannon")]
)
pytestmark = pytest.mark.usefixtures("small_tiles")

T = 0.4
LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 3])


def loop(views: list[Tensor], labels: list[int], form: str, objective: str) -> list[float]:
    """The loss of every anchor, typed from the formulas."""
    vectors = [(vector, v, i) for v, view in enumerate(views) for i, vector in enumerate(view.tolist())]
    losses = []
    for anchor, v, i in vectors:
        positive: list[float] = []
        negative: list[float] = []
        for vector, w, j in vectors:
            if (v, i) != (w, j):
                (positive if labels[i] == labels[j] else negative).append(oracles.cosine(anchor, vector) / T)
        if objective == "jensen_shannon":
            loss = sum(map(oracles.softplus, negative)) / len(negative)
            parts = [oracles.softplus(-p) for p in positive]
        elif form == "supcon":
            loss, total = 0.0, sum(map(math.exp, positive + negative))
            parts = [-math.log(math.exp(p) / total) for p in positive]
        else:
            loss, total = 0.0, sum(map(math.exp, negative))
            parts = [-math.log(math.exp(p) / (math.exp(p) + total)) for p in positive]
        losses.append(loss + sum(parts) / len(parts))
    return losses


@every_form
@both_ways
@pytest.mark.parametrize("count", [2, 3])
def test_equals_a_loop(form: AttractingForm, objective: ObjectiveName, streaming: bool, count: int) -> None:
    views = related_views(7, 5, count)
    loss = SupConLoss(form, temperature=T, objective=objective, reduction="none", streaming=streaming)
    losses = loss(*views, labels=LABELS)
    expected = torch.tensor(loop(views, LABELS.tolist(), form, objective), dtype=torch.float64)
    torch.testing.assert_close(losses, expected, rtol=1e-10, atol=1e-12)
    assert loss.last is not None
    assert loss.last.floored == 0
    plain = NTXentLoss(temperature=T)
    plain(*views)
    assert plain.last is not None
    torch.testing.assert_close(loss.last.positive_similarity, plain.last.positive_similarity)
    torch.testing.assert_close(loss.last.unlabelled_similarity, plain.last.unlabelled_similarity)


@every_form
@both_ways
def test_gradients(form: AttractingForm, objective: ObjectiveName, streaming: bool) -> None:
    loss = SupConLoss(form, temperature=T, objective=objective, streaming=streaming)
    inputs = [view.requires_grad_() for view in related_views(7, 3)]
    assert torch.autograd.gradcheck(lambda *views: loss(*views, labels=LABELS), inputs, fast_mode=True)


@every_form
@both_ways
@pytest.mark.parametrize("masked", [False, True])
def test_a_queue_with_masks(form: AttractingForm, objective: ObjectiveName, streaming: bool, masked: bool) -> None:
    """Given positives and keys of their own, some of which do not count: as if they were not there."""
    torch.manual_seed(0)
    query, *positive = related_views(5, 4, 3)
    keys, labels = torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 3
    kept = torch.arange(12) % 4 != 1 if masked else torch.ones(12, dtype=torch.bool)
    options: dict[str, Any] = {"objective": objective, "streaming": streaming}
    results = []
    for shown, mask in ((kept, None), (torch.ones(12, dtype=torch.bool), kept.expand(5, 12))):
        inputs = [tensor.clone().requires_grad_() for tensor in (query, torch.stack(positive, dim=1))]
        pairs = pair_up(inputs[0], inputs[1], keys[shown], temperature=T, mask=mask)
        pairs = with_false_negatives_attracted(pairs, torch.arange(5) % 3, labels[shown], form)
        loss = corrected_loss(pairs, Plain(), **options).loss
        results.append((loss.detach(), torch.autograd.grad(loss.sum(), inputs)))
    torch.testing.assert_close(results[0], results[1])


@both_forms
@both_ways
def test_if_all_labels_differ_it_is_plain(form: AttractingForm, streaming: bool) -> None:
    views, labels = related_views(7, 5), torch.arange(7)
    plain = NTXentLoss(temperature=T)(*views)
    torch.testing.assert_close(SupConLoss(form, temperature=T, streaming=streaming)(*views, labels=labels), plain)
    torch.testing.assert_close(OracleLoss(temperature=T)(*views, labels=labels), plain)
    assert SupConLoss(form, temperature=T)(*views, labels=LABELS) != plain


@both_ways
@pytest.mark.parametrize("temperature", [0.01, 0.5])
def test_a_class_of_all_samples_has_no_negatives(streaming: bool, temperature: float) -> None:
    views = [view.float().requires_grad_() for view in related_views(4, 5)]
    loss = SupConLoss(temperature=temperature, streaming=streaming)(*views, labels=torch.zeros(4, dtype=torch.long))
    loss.backward()
    assert loss == 0
    assert all(view.grad is not None and view.grad.isfinite().all() for view in views)


def test_blocks_hold_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes: the mates of 800 anchors would be 320,000 indices."""
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 40_000)
    views = [torch.randn(400, 4, requires_grad=True) for _ in range(2)]
    labels = torch.arange(800) % 2
    pairs, saved = with_false_negatives_attracted(pair_views(views), labels, labels), []

    def note(tensor: Tensor) -> Tensor:
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = corrected_loss(pairs, Plain(), streaming=True).loss.mean()
    assert max(saved) < 1e4
    assert loss.isfinite()


def test_what_does_not_fit_is_refused() -> None:
    views = related_views(4, 3)
    with pytest.raises(ValueError, match="expected 'sincere' or 'supcon', got 'simclr'"):
        check_form("simclr")
    with pytest.raises(ValueError, match="expected 'sincere' with the objective 'jensen_shannon', got 'supcon'"):
        SupConLoss("supcon", objective="jensen_shannon")
    with pytest.raises(ValueError, match="expected no memory bank"):
        SupConLoss(memory_bank_size=8)
    with pytest.raises(ValueError, match="expected labels of at least 0, got -1"):
        SupConLoss()(*views, labels=torch.tensor([0, 1, -1, 0]))
    labels = torch.arange(8) % 2
    pairs = with_false_negatives_attracted(pair_views(views), labels, labels)
    with pytest.raises(ValueError, match="expected Plain, got Hard"):
        corrected_loss(pairs, Hard())
    each = pair_up(views[0], views[1], torch.randn(4, 6, 3).double())
    with pytest.raises(ValueError, match="got a set for each anchor"):
        with_false_negatives_attracted(each, labels[:4], labels[:6])
    assert "form='supcon'" in repr(SupConLoss("supcon"))


def test_copies_count_as_often_as_they_are() -> None:
    """Two equal anchors are one anchor with two copies."""
    torch.manual_seed(0)
    query, positive = related_views(3, 4)
    keys, labels = torch.randn(6, 4, dtype=torch.float64), torch.arange(6) % 2
    twice = [0, 0, 1, 2]
    many = with_false_negatives_attracted(pair_up(query[twice], positive[twice], keys), labels[twice], labels)
    few = with_false_negatives_attracted(pair_up(query, positive, keys), labels[:3], labels)
    few = replace(few, copies=torch.tensor([2.0, 1.0, 1.0]))
    torch.testing.assert_close(corrected_loss(few, Plain()).loss.mean(), corrected_loss(many, Plain()).loss.mean())
