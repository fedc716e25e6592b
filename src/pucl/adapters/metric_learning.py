"""The call of pytorch-metric-learning."""

from dataclasses import replace

import torch

from pucl.adapters.adapter import Adapter
from pucl.contrast.embeddings import as_embeddings
from pucl.contrast.pairing import check_ids, pair_up
from pucl.contrast.pairs import Groups
from pucl.losses import ContrastiveLoss
from pucl.shapes import Float, Int, Tensor


class MetricLearningLoss(Adapter):
    """A loss of pucl with the call of pytorch-metric-learning: ``loss(embeddings, labels)``.

    Samples with the same label are positives of each other; all other samples are unlabelled. For self-supervised
    training the label is the number of the sample, as in ``SelfSupervisedLoss`` of pytorch-metric-learning: the views
    of one sample are positives. With class labels, all samples of a class are.

    The loss of an anchor with several positives is their mean. Anchors without any are left out.

    Args:
        loss: Any loss of pucl without ``memory_bank_size`` and ``gather_distributed``, except the oracle.

    Shapes:
        - ``embeddings``: [batch, dim], normalised inside; ``labels``: [batch], integers.
        - ``ref_emb``: [reference, dim] and ``ref_labels``: [reference], to compare with these instead of the batch.

    Example:
        >>> import pucl
        >>> loss = MetricLearningLoss(pucl.PUCLLoss(alpha=0.12, c=0.1))
        >>> value = loss(torch.randn(8, 16), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]))
    """

    def __init__(self, loss: ContrastiveLoss) -> None:
        super().__init__(loss)
        if loss.gather_distributed:
            raise ValueError("this call compares the batch of one process: expected a loss without gather_distributed")

    def forward(
        self,
        embeddings: Float[Tensor, "anchor dim"],
        labels: Int[Tensor, " anchor"],
        indices_tuple: None = None,
        ref_emb: Float[Tensor, "reference dim"] | None = None,
        ref_labels: Int[Tensor, " reference"] | None = None,
    ) -> Float[Tensor, "*reduced"]:
        """The loss of every embedding as an anchor, against the others or against references."""
        if indices_tuple is not None:
            raise ValueError("indices_tuple chooses pairs, which is what a correction does: expected None, got a tuple")
        if (ref_emb is None) != (ref_labels is None):
            raise ValueError("ref_emb and ref_labels belong together: expected both or neither, got one")
        embeddings = as_embeddings("embeddings", embeddings)
        check_ids("labels", labels, len(embeddings), embeddings.device)
        reference, reference_labels, itself = embeddings, labels, torch.arange(len(labels), device=labels.device)
        if ref_emb is not None and ref_labels is not None:
            reference, reference_labels, itself = as_embeddings("ref_emb", ref_emb), ref_labels, itself.fill_(-1)
            check_ids("ref_labels", ref_labels, len(reference), embeddings.device)
        labels, reference_labels = labels.to(torch.int64), reference_labels.to(torch.int64)
        groups = Groups(labels, reference_labels, itself, torch.arange(len(reference), device=reference.device))
        pairs = pair_up(embeddings, embeddings, reference, temperature=self.loss.temperature)
        # No positive is given: all positives of an anchor are samples of its label.
        pairs = replace(
            pairs, positive=pairs.positive[:, :0], query_ids=labels, key_ids=reference_labels, groups=groups
        )
        outcome = self.loss.outcome(pairs)
        self.loss.learn(pairs)
        has_positive = groups.counts() > 0
        if self.loss.reduction == "mean" and has_positive.any():
            outcome = replace(outcome, loss=outcome.loss[has_positive])
        return self.loss.settle(outcome)
