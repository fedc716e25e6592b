"""The calls of other libraries: the same numbers as theirs where nothing is corrected."""

import pytest
import torch

import pucl
from examples import related_views
from pucl.adapters import MetricLearningLoss, TwoTowerLoss
from pucl.corrections import PUCL, Plain
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
        loss = MetricLearningLoss(pucl.NTXentLoss())
        with pytest.raises(ValueError, match="expected both or neither"):
            loss(torch.randn(4, 3), torch.arange(4), ref_emb=torch.randn(4, 3))


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
