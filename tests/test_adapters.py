"""The calls of other libraries: the same numbers as theirs where nothing is corrected."""

import math
import pickle
from typing import Any

import pytest
import torch

import oracles
import pucl
from examples import ALL, brief, loop_count, loop_weights, related_views
from pucl.adapters import MetricLearningLoss, TwoTowerLoss
from pucl.contrast.loss import ObjectiveName
from pucl.corrections import PUCL, Correction, Plain, PointwiseTable
from pucl.functional import contrastive_loss

both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])


class TestMetricLearning:
    @both_ways
    def test_is_the_two_view_loss(self, streaming: bool) -> None:
        z0, z1 = related_views(9, 5)
        loss = pucl.PUCLLoss(streaming=streaming)
        labels = torch.arange(9).repeat(2)
        torch.testing.assert_close(MetricLearningLoss(loss)(torch.cat([z0, z1]), labels), loss(z0, z1))

    @both_ways
    def test_equals_pytorch_metric_learning(self, streaming: bool) -> None:
        losses = pytest.importorskip("pytorch_metric_learning.losses", exc_type=ImportError)
        embeddings = torch.randn(12, 5, dtype=torch.float64)
        labels = torch.arange(4).repeat(3)[torch.randperm(12)]
        expected = losses.NTXentLoss(temperature=0.3)(embeddings, labels)
        ours = MetricLearningLoss(pucl.NTXentLoss(temperature=0.3, streaming=streaming))(embeddings, labels)
        torch.testing.assert_close(ours, expected)

    def test_references(self) -> None:
        losses = pytest.importorskip("pytorch_metric_learning.losses", exc_type=ImportError)
        embeddings, references = torch.randn(6, 5, dtype=torch.float64), torch.randn(9, 5, dtype=torch.float64)
        labels, reference_labels = torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(3).repeat(3)
        expected = losses.NTXentLoss(temperature=0.3)(
            embeddings, labels, ref_emb=references, ref_labels=reference_labels
        )
        ours = MetricLearningLoss(pucl.NTXentLoss(temperature=0.3))(
            embeddings, labels, ref_emb=references, ref_labels=reference_labels
        )
        torch.testing.assert_close(ours, expected)

    def test_anchors_without_positive_are_left_out(self) -> None:
        embeddings = torch.randn(5, 4, dtype=torch.float64)
        labels = torch.tensor([0, 0, 1, 2, 3])
        each = MetricLearningLoss(pucl.PUCLLoss(reduction="none"))(embeddings, labels)
        assert (each[:2] > 0).all()
        assert (each[2:] == 0).all()
        torch.testing.assert_close(MetricLearningLoss(pucl.PUCLLoss())(embeddings, labels), each[:2].mean())

    @pytest.mark.parametrize("dim", [1, 4])
    def test_unequal_numbers_of_positives(self, dim: int) -> None:
        """Three of one label, two of another: each anchor's own positives, and no others, are in its mean.

        From the vectors of positives, or from all logits where these are fewer numbers.
        """
        embeddings = torch.randn(6, dim, dtype=torch.float64)
        labels = torch.tensor([0, 1, 0, 1, 0, 2])
        each = MetricLearningLoss(pucl.PUCLLoss(reduction="none"))(embeddings, labels)
        for i in range(5):
            same = [j for j in range(6) if labels[j] == labels[i] and j != i]
            other = [j for j in range(6) if labels[j] != labels[i]]
            alone = contrastive_loss(embeddings[i : i + 1], embeddings[same][None], embeddings[other], PUCL())
            torch.testing.assert_close(each[i], alone)

    def test_refuses(self) -> None:
        with pytest.raises(ValueError, match="without a memory bank"):
            MetricLearningLoss(pucl.NTXentLoss(memory_bank_size=8))
        for remembers in (pucl.AutoLoss(), pucl.AutoLoss(samples=10)):
            with pytest.raises(ValueError, match="AutoLoss remembers samples.*expected a loss that remembers none"):
                MetricLearningLoss(remembers)
        loss = MetricLearningLoss(pucl.NTXentLoss())
        with pytest.raises(ValueError, match="expected both or neither"):
            loss(torch.randn(4, 3), torch.arange(4), ref_emb=torch.randn(4, 3))


class TestWrappersOfMetricLearning:
    """pytorch-metric-learning's wrappers and miners take our loss in place of theirs, and nothing else changes."""

    @both_ways
    @pytest.mark.parametrize("symmetric", [True, False])
    def test_self_supervised(self, symmetric: bool, streaming: bool) -> None:
        losses = pytest.importorskip("pytorch_metric_learning.losses", exc_type=ImportError)
        views = [z.requires_grad_() for z in related_views(7, 5)]
        ours = MetricLearningLoss(pucl.NTXentLoss(temperature=0.3, streaming=streaming))
        values = [
            losses.SelfSupervisedLoss(loss, symmetric=symmetric)(*views)
            for loss in (losses.NTXentLoss(temperature=0.3), ours)
        ]
        torch.testing.assert_close(*values)
        for expected, gradient in zip(*(torch.autograd.grad(value, views) for value in values), strict=True):
            torch.testing.assert_close(gradient, expected)

    def test_self_supervised_with_a_correction_is_the_loss_of_two_views(self) -> None:
        losses = pytest.importorskip("pytorch_metric_learning.losses", exc_type=ImportError)
        loss = pucl.PUCLLoss(alpha=0.05, c=0.0)
        z0, z1 = related_views(9, 5)
        torch.testing.assert_close(losses.SelfSupervisedLoss(MetricLearningLoss(loss))(z0, z1), loss(z0, z1))
        assert loss.last is not None
        assert loss.last.floored < 0.5

    def test_memory(self) -> None:
        """Batch after batch, while the memory fills and when it wraps around."""
        losses = pytest.importorskip("pytorch_metric_learning.losses", exc_type=ImportError)
        theirs, ours = (
            losses.CrossBatchMemory(loss, 5, memory_size=12)
            for loss in (losses.NTXentLoss(temperature=0.3), MetricLearningLoss(pucl.NTXentLoss(temperature=0.3)))
        )
        for _ in range(4):
            embeddings = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
            labels = torch.arange(3).repeat(2)
            values = [memory(embeddings, labels) for memory in (theirs, ours)]
            torch.testing.assert_close(*values)
            torch.testing.assert_close(*(torch.autograd.grad(value, embeddings) for value in values))

    def test_memory_of_keys(self) -> None:
        """As MoCo uses it: the second half of a batch is remembered, and the first is compared with the memory."""
        losses = pytest.importorskip("pytorch_metric_learning.losses", exc_type=ImportError)
        correction, keys = PUCL(alpha=0.05, c=0.0), torch.arange(8) >= 4
        memory = losses.CrossBatchMemory(MetricLearningLoss(pucl.ContrastiveLoss(correction)), 5, memory_size=12)
        older = torch.randn(0, 5, dtype=torch.float64)
        for step in range(3):
            query, positive = related_views(4, 5)
            value = memory(torch.cat([query, positive]), torch.arange(4).repeat(2) + 4 * step, enqueue_mask=keys)
            unlabelled, ids = torch.cat([older, positive]), torch.arange(4 * step + 4)
            expected = contrastive_loss(
                query, positive, unlabelled, correction, query_ids=ids[4 * step :], unlabelled_ids=ids
            )
            torch.testing.assert_close(value, expected)
            older = unlabelled

    def test_miner(self) -> None:
        """Anchors have unequal numbers of positives. Theirs is a mean over pairs, ours over anchors."""
        miners = pytest.importorskip("pytorch_metric_learning.miners", exc_type=ImportError)
        losses = pytest.importorskip("pytorch_metric_learning.losses", exc_type=ImportError)
        embeddings, labels = torch.randn(12, 3, dtype=torch.float64), torch.arange(3).repeat(4)
        chosen = miners.MultiSimilarityMiner(epsilon=-0.2)(embeddings, labels)
        assert 0 < len(chosen[0]) < 36
        assert 0 < len(chosen[2]) < 96
        each = MetricLearningLoss(pucl.NTXentLoss(temperature=0.3, reduction="none"))(embeddings, labels, chosen)
        counts = torch.bincount(chosen[0], minlength=12)
        assert len(counts.unique()) > 1
        expected = losses.NTXentLoss(temperature=0.3)(embeddings, labels, chosen)
        torch.testing.assert_close((each * counts).sum() / counts.sum(), expected)
        mean = MetricLearningLoss(pucl.NTXentLoss(temperature=0.3))(embeddings, labels, chosen)
        torch.testing.assert_close(mean, each[counts > 0].mean())

    @both_ways
    def test_chosen_pairs_equal_a_loop(self, streaming: bool) -> None:
        embeddings, labels = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 1])
        chosen = [torch.tensor(each) for each in ([0, 0, 1], [1, 2, 0], [0, 1, 1, 1], [3, 3, 2, 2])]
        loss = pucl.PUCLLoss(alpha=0.05, c=0.0, reduction="none", streaming=streaming)
        each = MetricLearningLoss(loss)(embeddings, labels, chosen)
        correction = PUCL(alpha=0.05, c=0.0)
        rows = [(0, [1, 2], [3]), (1, [0], [3, 2])]  # A pair that is given twice counts once.
        for anchor, positives, unlabelled in rows:
            query, positive = embeddings[anchor : anchor + 1], embeddings[positives][None]
            expected = contrastive_loss(query, positive, embeddings[unlabelled], correction)
            torch.testing.assert_close(each[anchor], expected)
        assert (each[2:] == 0).all()
        assert loss.last is not None
        assert loss.last.floored < 0.5

    def test_is_printed_and_pickled_by_its_own_name(self) -> None:
        loss = MetricLearningLoss(pucl.NTXentLoss())
        assert repr(loss).startswith("MetricLearningLoss(")
        assert isinstance(pickle.loads(pickle.dumps(loss)), MetricLearningLoss)  # noqa: S301

    @pytest.mark.parametrize(
        ("chosen", "message"),
        [
            ([[0], [1], [2]], "expected four tensors of indices.*got 3; a miner of triplets does not fit"),
            ([[0], [1], [0, 4], [2, 3]], "expected indices from 0 to 3 for anchors, got 0 to 4"),
            ([[0], [-1], [0], [2]], "expected indices from 0 to 3 for samples, got -1 to -1"),
        ],
    )
    def test_refuses(self, chosen: list[list[int]], message: str) -> None:
        indices = tuple(torch.tensor(each) for each in chosen)
        with pytest.raises(ValueError, match=message):
            MetricLearningLoss(pucl.NTXentLoss())(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]), indices)


class TestTwoTowers:
    def reference(self, images: torch.Tensor, texts: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """CLIP's loss as everybody writes it."""
        images, texts = (torch.nn.functional.normalize(z, dim=1) for z in (images, texts))
        logits, target = scale * images @ texts.T, torch.arange(len(images))
        directions = [torch.nn.functional.cross_entropy(matrix, target) for matrix in (logits, logits.T)]
        return (directions[0] + directions[1]) / 2

    @both_ways
    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize("scale", [1.0, 14.3, 100.0])
    def test_plain_is_clip(self, streaming: bool, scale: float) -> None:
        inputs = [z.requires_grad_() for z in related_views(9, 5)]
        inputs.append(torch.tensor(scale, dtype=torch.float64, requires_grad=True))
        expected = self.reference(*inputs)
        expected_gradients = torch.autograd.grad(expected, inputs)
        loss = TwoTowerLoss(pucl.NTXentLoss(streaming=streaming))(inputs[0], inputs[1], inputs[2])
        gradients = torch.autograd.grad(loss, inputs)
        torch.testing.assert_close(loss, expected)
        for ours, theirs in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)

    @both_ways
    def test_gradient_of_the_scale_when_corrected(self, streaming: bool) -> None:
        images, texts = related_views(6, 4)
        loss = TwoTowerLoss(pucl.PUCLLoss(alpha=0.1, c=0.0, streaming=streaming))
        scale = torch.tensor(4.0, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda s: loss(images, texts, s), [scale])
        assert loss.loss.last is not None
        assert loss.loss.last.floored < 0.5

    def test_temperature_of_the_loss_holds_without_a_scale(self) -> None:
        images, texts = related_views(6, 4)
        loss = TwoTowerLoss(pucl.PUCLLoss(temperature=0.2))
        torch.testing.assert_close(loss(images, texts), loss(images, texts, 5.0))
        assert loss(images, texts, output_dict=True).keys() == {"contrastive_loss"}

    def test_refuses_a_batch_of_one(self) -> None:
        with pytest.raises(ValueError, match="expected a batch of at least 2, got 1"):
            TwoTowerLoss(pucl.NTXentLoss())(torch.randn(1, 3), torch.randn(1, 3))


def test_one_direction_of_two_towers_by_hand() -> None:
    images, texts = related_views(5, 4)
    ids = torch.arange(5)
    each = TwoTowerLoss(pucl.NTXentLoss(reduction="none"))(images, texts)
    forth = contrastive_loss(images, texts, texts, Plain(), query_ids=ids, unlabelled_ids=ids, reduction="none")
    torch.testing.assert_close(each[:5], forth)


ITEMS = [7, 3, 7, 0, 5, 2, 9]
"""The item of each of five pairs (the third is the first one's again), and of two negatives."""
SORTS = [-1, 4, -1, 4, 8, 4, -1]
"""Their known groups: the first negative is of a group that two pairs have."""


@pytest.mark.usefixtures("small_tiles")
class TestItems:
    """Two towers as a recommender calls them, against loops."""

    def towers(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        users, items = related_views(5, 4)
        log_q = torch.tensor([0.2, 0.1, 0.2, 0.05, 0.3, 0.02, 0.4], dtype=torch.float64).log()
        return users, items, torch.randn(2, 4, dtype=torch.float64), log_q

    @both_ways
    @pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
    # A table of r is one over cosines. For shifted logits it is over another scale; see `bins_of`.
    @pytest.mark.parametrize("correction", [each for each in ALL if not isinstance(each, PointwiseTable)], ids=brief)
    def test_equals_the_loops(self, correction: Correction, objective: ObjectiveName, streaming: bool) -> None:
        users, items, extra, log_q = self.towers()
        scale, bias, share = 3.0, -0.7, 0.05
        loss = pucl.ContrastiveLoss(correction, objective=objective, streaming=streaming, reduction="none", floor=share)
        ids, groups = torch.tensor(ITEMS), torch.tensor(SORTS)
        losses = TwoTowerLoss(loss)(
            users, items, scale, bias, ids=ids, groups=groups, negatives=extra, log_q=log_q, directions="both"
        )
        assert loss.last is not None
        assert loss.last.floored < 0.5
        bias = bias if objective == "jensen_shannon" else 0.0  # InfoNCE does not depend on it.
        candidates = [*items.tolist(), *extra.tolist()]
        shift = [bias - each for each in log_q.tolist()]
        rows = oracles.towers_as_logits(users.tolist(), candidates, scale, ITEMS, SORTS, shift)
        rows += oracles.towers_as_logits(items.tolist(), users.tolist(), scale, ITEMS, SORTS, [bias] * 5)
        expected, odds = [], float(correction.odds)
        for positives, unlabelled in rows:
            weights = loop_weights(correction, 1.0)(unlabelled)
            g = math.exp if objective == "infonce" else oracles.softplus
            floor = share * sum(weight * g(u) for weight, u in zip(weights, unlabelled, strict=True))
            if objective == "infonce":
                count = loop_count(correction, unlabelled)
                expected.append(oracles.infonce(positives, unlabelled, weights, odds, floor, count)[0])
            else:
                expected.append(oracles.jensen_shannon(positives, unlabelled, weights, odds, floor)[0])
        torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)

    @both_ways
    @pytest.mark.parametrize("bias", [None, -10.0])
    def test_plain_is_open_clip_typed_as_a_loop(self, streaming: bool, bias: float | None) -> None:
        images, texts = related_views(6, 5)
        loss = TwoTowerLoss(pucl.NTXentLoss(streaming=streaming))
        value = loss(images, texts, 14.3, bias)
        assert isinstance(value, torch.Tensor)
        expected = oracles.clip(images.tolist(), texts.tolist(), 14.3, bias or 0.0)
        assert value.item() == pytest.approx(expected, rel=1e-6)
        single = loss(images.float(), texts.float(), torch.tensor(14.3), bias)
        assert isinstance(single, torch.Tensor)
        assert single.item() == pytest.approx(expected, rel=1e-6)

    def test_jensen_shannon_with_a_bias_has_the_terms_of_siglip(self) -> None:
        """SigLIP adds the others of a sample up, Jensen-Shannon takes their mean."""
        images, texts = related_views(6, 5)
        loss = TwoTowerLoss(pucl.NTXentLoss(objective="jensen_shannon"))
        pairs, others = oracles.siglip_terms(images.tolist(), texts.tolist(), 10.0, -10.0)
        expected = sum(pairs) / len(pairs) + sum(others) / len(others)
        assert float(loss(images, texts, 10.0, -10.0)) == pytest.approx(expected, rel=1e-10)

    @both_ways
    @pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
    def test_gradients(self, objective: ObjectiveName, streaming: bool) -> None:
        users, items, extra, log_q = self.towers()
        loss = TwoTowerLoss(pucl.PUCLLoss(alpha=0.05, c=0.0, objective=objective, streaming=streaming))
        known = {"ids": torch.tensor(ITEMS), "groups": torch.tensor(SORTS), "log_q": log_q}
        numbers = [torch.tensor(value, dtype=torch.float64) for value in (3.0, -0.5)]
        inputs = [each.requires_grad_() for each in (users, items, extra, *numbers)]

        def value(users: Any, items: Any, extra: Any, scale: Any, bias: Any) -> Any:
            return loss(users, items, scale, bias, negatives=extra, **known)

        assert torch.autograd.gradcheck(value, inputs, fast_mode=True)
        assert loss.last is not None
        assert loss.last.floored < 0.5
        gradients = torch.autograd.grad(value(*inputs), inputs)
        assert all(gradient.abs().sum() > 0 for gradient in gradients[:4])
        assert (gradients[4] == 0) == (objective == "infonce")

    def test_an_accidental_hit_is_as_if_it_were_not_there(self) -> None:
        users, items, _, _ = self.towers()
        each = TwoTowerLoss(pucl.NTXentLoss(reduction="none"))(users, items, ids=torch.tensor(ITEMS[:5]))
        alone = contrastive_loss(users[:1], items[:1], items[[1, 3, 4]], Plain())
        assert isinstance(each, torch.Tensor)
        torch.testing.assert_close(each[0], alone)
        torch.testing.assert_close(
            TwoTowerLoss(pucl.NTXentLoss(reduction="none"))(users, items, ids=torch.tensor([4, 1, 9, 0, 8])),
            TwoTowerLoss(pucl.NTXentLoss(reduction="none"))(users, items),
            rtol=0,
            atol=0,
        )

    def test_one_direction(self) -> None:
        users, items, _, _ = self.towers()
        each = TwoTowerLoss(pucl.PUCLLoss(alpha=0.02, c=0.0, reduction="none"))
        both = each(users, items, 4.0)
        assert isinstance(both, torch.Tensor)
        assert torch.equal(torch.as_tensor(each(users, items, 4.0, directions="first")), both[:5])
        assert torch.equal(torch.as_tensor(each(users, items, 4.0, directions="second")), both[5:])

    def test_a_probability_that_is_the_same_for_all_changes_nothing(self) -> None:
        users, items, _, _ = self.towers()
        loss = TwoTowerLoss(pucl.PUCLLoss(alpha=0.005, c=0.0, temperature=0.2))
        same = torch.full((5,), 0.01, dtype=torch.float64).log()
        torch.testing.assert_close(loss(users, items, log_q=same), loss(users, items))
        assert loss.last is not None
        assert loss.last.floored < 0.5

    def test_negatives_alone_are_enough(self) -> None:
        users, items, extra, _ = self.towers()
        value = TwoTowerLoss(pucl.NTXentLoss())(users[:1], items[:1], negatives=extra, directions="first")
        torch.testing.assert_close(value, contrastive_loss(users[:1], items[:1], extra, Plain()))

    def test_a_loss_that_remembers_rows_is_refused_and_one_that_knows_samples_is_not(self) -> None:
        with pytest.raises(ValueError, match="AutoLoss remembers samples.*pass samples= to it, and ids= in each call"):
            TwoTowerLoss(pucl.AutoLoss())
        users, items, _, _ = self.towers()
        loss = TwoTowerLoss(pucl.AutoLoss(samples=10))
        loss(users, items, ids=torch.tensor(ITEMS[:5]))
        report = loss.end_epoch()
        assert report is not None
        assert report.sentence.startswith("plain so far")
        assert TwoTowerLoss(pucl.NTXentLoss()).end_epoch() is None

    def test_ids_are_samples_of_a_correction_that_remembers(self) -> None:
        users, items, _, _ = self.towers()
        loss = TwoTowerLoss(pucl.GloFNDLoss(10, dropped=0.3, wait=0))
        assert float(loss(users, items, ids=torch.tensor(ITEMS[:5]))) > 0
        assert loss.loss.learnt is not None
        with pytest.raises(ValueError, match="expected their ids, got none"):
            loss(users, items)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ({"ids": torch.full((4,), 3)}, "expected two different items or more, got 4 times the item 3.*negatives="),
            ({"groups": torch.full((4,), 3)}, "expected two groups or more.*got 4 embeddings of the group 3 alone"),
            (
                {"ids": torch.tensor([1, 1, 2, 3]), "groups": torch.tensor([0, 1, 2, 2])},
                "the groups 0 and 1 for the id 1",
            ),
            ({"ids": torch.tensor([1, -1, 2, 3])}, "ids name items: expected none below 0, got -1"),
            ({"ids": torch.arange(5)}, "names the item of each row: expected 4 integers"),
            (
                {"log_q": torch.tensor([0.0, -math.inf, math.nan, 1.0])},
                "got 2 of 4 that are not.*add one to all counts",
            ),
            ({"log_q": torch.zeros(3)}, "expected 4 numbers, for 4 items of the batch and 0 negatives, got .*\\(3,\\)"),
            ({"log_q": torch.zeros(4), "negatives": torch.randn(2, 3)}, "for 4 items of the batch and 2 negatives"),
            (
                {"negatives": torch.randn(2, 5)},
                "text_features and negatives .* expected the same dimension, got 3 and 5",
            ),
            ({"directions": "forth"}, "whose samples are anchors: expected 'both', or 'first' or 'second'"),
            (
                {"directions": "second", "log_q": torch.zeros(4)},
                "expected the directions 'first' or 'both', got 'second'",
            ),
            ({"logit_bias": math.inf}, "logit_bias is added to all logits: expected a finite number, got inf"),
        ],
    )
    @pytest.mark.usefixtures("without_shape_checks")
    def test_what_does_not_fit_is_refused(self, call: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            TwoTowerLoss(pucl.NTXentLoss())(torch.randn(4, 3), torch.randn(4, 3), **call)
