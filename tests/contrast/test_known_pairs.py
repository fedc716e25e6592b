"""Pairs that are never each other's negatives: against loops, the oracle and the dense form."""

import math

import pytest
import torch
from torch import Tensor

import oracles
from examples import related_views
from image_trainings import make_image_training
from pucl.contrast.knowledge import KnownPairs, with_groups, without_false_negatives
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Plain, Ring
from pucl.functional import corrected_loss, pair_up, pair_views

T = 0.4
SAMPLES = torch.tensor([5, 2, 9, 0, 7, 3])
LISTED = torch.tensor([[2, 5], [9, 0], [2, 3], [8, 1]])  # The last is of samples that are not here.


def views_of(seed: int = 0) -> list[Tensor]:
    torch.manual_seed(seed)
    return [view.requires_grad_() for view in related_views(6, 5)]


def pairs_of(views: list[Tensor]) -> Pairs:
    return pair_views(views, temperature=T, samples=SAMPLES)


def test_listed_pairs_are_left_out_and_n_stays() -> None:
    views = views_of()
    outcome = corrected_loss(KnownPairs(LISTED, 10).leave_out(pairs_of(views)), Plain())
    listed = {frozenset(pair) for pair in LISTED.tolist()}
    rows = [row.tolist() for view in views for row in view.detach()]
    samples = SAMPLES.tolist() * 2
    for anchor, loss in enumerate(outcome.loss.tolist()):
        others = [key for key in range(12) if key % 6 != anchor % 6]
        left = [key for key in others if frozenset((samples[anchor], samples[key])) not in listed]
        h = [math.exp(oracles.cosine(rows[anchor], rows[key]) / T) for key in left]
        positive = math.exp(oracles.cosine(rows[anchor], rows[(anchor + 6) % 12]) / T)
        assert loss == pytest.approx(math.log1p(len(others) * sum(h) / len(h) / positive))


def test_the_band_of_ring_is_that_of_the_drawn() -> None:
    ring, met = Ring(lower=0.1, upper=0.7), torch.tensor([8.0, 10.0, 0.0])
    drawn = torch.tensor([10.0, 10.0, 10.0])
    assert ring.count(met, drawn).tolist() == [6.0, 6.0, 0.0]


def test_anchors_of_no_listed_pair_keep_their_loss() -> None:
    """Sample 7 is in none, though its batch has listed pairs."""
    for correction in (Plain(), PUCL(alpha=0.05, c=0.0), Ring(lower=0.1, upper=0.7)):
        pairs = pairs_of(views_of())
        before, after = (
            corrected_loss(each, correction).loss for each in (pairs, KnownPairs(LISTED, 10).leave_out(pairs))
        )
        assert after[4].item() == pytest.approx(before[4].item()), correction
        assert after[1].item() != pytest.approx(before[1].item()), correction


@pytest.mark.parametrize("correction", [Plain(), PUCL(alpha=0.05, c=0.0), Ring(lower=0.1, upper=0.7)], ids=str)
def test_streaming_is_the_dense_form_with_its_gradients(correction: Plain | PUCL | Ring) -> None:
    results = []
    for streaming in (False, True):
        views = views_of()
        outcome = corrected_loss(KnownPairs(LISTED, 10).leave_out(pairs_of(views)), correction, streaming=streaming)
        outcome.loss.sum().backward()
        assert float(outcome.floored) < 1
        results.append([outcome.loss.detach(), *(view.grad for view in views)])
    for dense, streamed in zip(*results, strict=True):
        torch.testing.assert_close(streamed, dense)


def test_all_pairs_of_one_class_are_the_oracle() -> None:
    labels = torch.tensor([0, 0, 1, 2, 1, 2])
    pairs = pairs_of(views_of())
    same = [[int(SAMPLES[i]), int(SAMPLES[j])] for i in range(6) for j in range(i) if labels[i] == labels[j]]
    known = corrected_loss(KnownPairs(torch.tensor(same), 10).leave_out(pairs), Plain()).loss
    oracle = corrected_loss(without_false_negatives(pairs, labels.repeat(2), labels.repeat(2)), Plain()).loss
    torch.testing.assert_close(known, oracle)


def test_without_a_listed_pair_the_pairs_are_the_same_object() -> None:
    pairs = pairs_of(views_of())
    assert KnownPairs(torch.tensor([[8, 1], [5, 6]]), 10).leave_out(pairs) is pairs


def test_a_queue_with_samples_that_are_not_known() -> None:
    query, positive = views_of()
    queue = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([3, -1, 9, 4])
    pairs = pair_up(query, positive, queue, temperature=T, query_ids=SAMPLES, unlabelled_ids=ids)
    mask = KnownPairs(LISTED, 10).leave_out(pairs).counting()
    assert mask is not None
    expected = torch.ones(6, 4, dtype=torch.bool)
    expected[1, 0] = False  # 2 and 3 are listed.
    expected[3, 2] = False  # 0 and 9 are listed.
    expected[2, 2] = expected[5, 0] = False  # The samples themselves.
    assert torch.equal(mask, expected)


def test_pairs_of_a_group_stay_positives() -> None:
    groups = torch.tensor([0, 0, -1, -1, 1, 1]).repeat(2)
    pairs = with_groups(pairs_of(views_of()), groups, groups)
    inside = KnownPairs(torch.tensor([[5, 2]]), 10).leave_out(pairs)
    torch.testing.assert_close(corrected_loss(inside, Plain()).loss, corrected_loss(pairs, Plain()).loss)
    beyond = KnownPairs(torch.tensor([[5, 9]]), 10).leave_out(pairs)
    assert not torch.equal(corrected_loss(beyond, Plain()).loss, corrected_loss(pairs, Plain()).loss)


def test_samples_of_single_anchors_are_refused() -> None:
    query, positive = views_of()
    pairs = pair_up(query, positive, torch.randn(6, 3, 5, dtype=torch.float64))
    with pytest.raises(ValueError, match="expected one set of samples"):
        KnownPairs(LISTED, 10).leave_out(pairs)


@pytest.mark.parametrize("framework", ["simclr", "moco", "cmc"])
def test_a_training_leaves_them_out(framework: str) -> None:
    """Excluding all pairs of all samples but one pair leaves that one to push."""
    everything = torch.combinations(torch.arange(48))[1:]
    losses = []
    for excluded in (None, everything.numpy()):
        training = make_image_training(framework, excluded=excluded, correction="plain")
        for _ in range(2):
            training.advance()
        losses.append(training.tally.means()["loss"])
    assert losses[0] > losses[1] >= 0
