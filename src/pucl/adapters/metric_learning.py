"""The call of pytorch-metric-learning."""

from dataclasses import replace

import torch

from pucl.adapters.adapter import Adapter
from pucl.contrast.embeddings import as_embeddings
from pucl.contrast.pairing import check_ids, pair_up
from pucl.contrast.pairs import Pairs
from pucl.losses import ContrastiveLoss
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Int, Tensor


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
        indices, present = _same_label(labels, reference_labels, itself)
        pairs = pair_up(
            embeddings,
            reference[indices[:, 0]],
            reference,
            temperature=self.loss.temperature,
            query_ids=labels,
            unlabelled_ids=reference_labels,
        )
        pairs = replace(
            pairs,
            positive=_logits_at(pairs, indices),
            positive_mask=present,
            query_samples=None,  # Labels exclude pairs, but they are not ids of samples.
            key_samples=None,
        )
        outcome = self.loss.outcome(pairs)
        self.loss.learn(pairs)
        has_positive = present.any(dim=1)
        if self.loss.reduction == "mean" and has_positive.any():
            outcome = replace(outcome, loss=outcome.loss[has_positive])
        return self.loss.settle(outcome)


def _same_label(
    labels: Int[Tensor, " anchor"], reference_labels: Int[Tensor, " reference"], itself: Int[Tensor, " anchor"]
) -> tuple[Int[Tensor, "anchor positive"], Bool[Tensor, "anchor positive"]]:
    """Indices of the references with each anchor's label, and which of these indices are used.

    Labels are searched in sorted order: the cost grows with the number of positives, not with that of all pairs.
    """
    sorted_labels, order = reference_labels.sort(stable=True)
    begin, end = torch.searchsorted(sorted_labels, labels), torch.searchsorted(sorted_labels, labels, right=True)
    width = max(1, int((end - begin).max()))
    ranks = begin[:, None] + torch.arange(width, device=labels.device)
    present = ranks < end[:, None]
    indices = order[ranks.clamp_max(len(order) - 1)]
    return indices, present & (indices != itself[:, None])


def _logits_at(pairs: Pairs, indices: Int[Tensor, "anchor positive"]) -> Float[Tensor, "anchor positive"]:
    """Logits of each anchor with the keys at these indices, from whichever is smaller: their vectors or all logits."""
    if indices.shape[1] * pairs.key.shape[1] <= len(pairs.key):
        return (pairs.query[:, None] * pairs.key[indices]).sum(dim=-1)
    with full_precision(pairs.query.device):
        return (pairs.query @ pairs.key.T).gather(1, indices)
