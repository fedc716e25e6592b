"""The call of pytorch-metric-learning."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from pucl.adapters.adapter import Adapter, check_rows_are_not_remembered
from pucl.contrast.embeddings import as_embeddings
from pucl.contrast.pairing import check_ids, pair_up
from pucl.contrast.pairs import Groups, Pairs
from pucl.losses import ContrastiveLoss
from pucl.shapes import Bool, Float, Int, Tensor

NONE_REMEMBERED = "expected a loss that remembers none"
INDICES_MEAN = "indices_tuple chooses the pairs that are compared"


class MetricLearningLoss(Adapter):
    """A loss of pucl with the call of pytorch-metric-learning: ``loss(embeddings, labels)``.

    Samples with the same label are positives of each other; all other samples are unlabelled. For self-supervised
    training the label is the number of the sample: the views of one sample are positives. With class labels, all
    samples of a class are.

    The wrappers ``SelfSupervisedLoss`` and ``CrossBatchMemory`` of pytorch-metric-learning take it in place of their
    ``NTXentLoss``, and miners of pairs may choose what is compared.

    The loss of an anchor with several positives is their mean. Anchors without any are left out.

    Args:
        loss: Any loss of pucl without ``memory_bank_size`` and ``gather_distributed``, except the oracle and those that
            remember samples, such as `pucl.AutoLoss`.

    Shapes:
        - ``embeddings``: [batch, dim], normalised inside; ``labels``: [batch], integers.
        - ``indices_tuple``: four tensors of indices, from a miner of pairs: anchors and positives of the positive
          pairs, anchors and samples of the unlabelled pairs. Only these pairs are compared, each of them once.
        - ``ref_emb``: [reference, dim] and ``ref_labels``: [reference], to compare with these instead of the batch.

    Example:
        >>> import pucl
        >>> loss = MetricLearningLoss(pucl.PUCLLoss(alpha=0.12, c=0.1))
        >>> value = loss(torch.randn(8, 16), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]))
    """

    def __init__(self, loss: ContrastiveLoss) -> None:
        super().__init__(loss)
        check_rows_are_not_remembered(loss, NONE_REMEMBERED)
        if loss.samples is not None:
            raise ValueError(
                f"{type(loss).__name__} remembers samples by ids, which this call lacks: {NONE_REMEMBERED}"
            )
        if loss.gather_distributed:
            raise ValueError("this call compares the batch of one process: expected a loss without gather_distributed")

    def forward(
        self,
        embeddings: Float[Tensor, "anchor dim"],
        labels: Int[Tensor, " anchor"],
        indices_tuple: Sequence[Int[Tensor, " _"]] | None = None,
        ref_emb: Float[Tensor, "reference dim"] | None = None,
        ref_labels: Int[Tensor, " reference"] | None = None,
    ) -> Float[Tensor, "*reduced"]:
        """The loss of every embedding as an anchor, against the others or against references."""
        if (ref_emb is None) != (ref_labels is None):
            raise ValueError("ref_emb and ref_labels belong together: expected both or neither, got one")
        embeddings = as_embeddings("embeddings", embeddings)
        labels = labels.to(embeddings.device)  # The library's wrappers make labels on the CPU.
        check_ids("labels", labels, len(embeddings), embeddings.device, "say which rows are positives of each other")
        reference, reference_labels, itself = embeddings, labels, torch.arange(len(labels), device=labels.device)
        if ref_emb is not None and ref_labels is not None:
            reference, itself = as_embeddings("ref_emb", ref_emb), itself.fill_(-1)
            reference_labels = ref_labels.to(embeddings.device)
            check_ids("ref_labels", reference_labels, len(reference), embeddings.device)
        pairs = pair_up(embeddings, embeddings, reference, temperature=self.loss.temperature)
        # No positive is given: labels or indices say which samples are positives.
        pairs = replace(pairs, positive=pairs.positive[:, :0])
        if indices_tuple is None:
            rows = torch.arange(len(reference), device=reference.device)
            groups = Groups(labels.to(torch.int64), reference_labels.to(torch.int64), itself, rows)
            pairs, has_positive = _by_label(pairs, groups)
        else:
            pairs, has_positive = _by_indices(pairs, indices_tuple)
        outcome = self.loss.outcome(pairs)
        self.loss.learn(pairs)
        if self.loss.reduction == "mean" and has_positive.any():
            outcome = replace(outcome, loss=outcome.loss[has_positive])
        return self.loss.settle(outcome)

    def _get_name(self) -> str:
        """The name that is printed."""
        return type(self).__qualname__


# The wrappers of pytorch-metric-learning accept losses by the name of their class, and have a list of these names. This
# is NT-Xent for them: the same call with the same pairs. Pickle goes by the qualified name, which stays.
MetricLearningLoss.__name__ = "NTXentLoss"


def _by_label(pairs: Pairs, groups: Groups) -> tuple[Pairs, Bool[Tensor, " anchor"]]:
    """Pairs whose positives are the samples of the anchor's label, and which anchors have any."""
    return replace(pairs, query_ids=groups.query, key_ids=groups.key, groups=groups), groups.counts() > 0


def _by_indices(pairs: Pairs, indices: Sequence[Int[Tensor, " _"]]) -> tuple[Pairs, Bool[Tensor, " anchor"]]:
    """Pairs that a miner has chosen, and which anchors have a positive."""
    if len(indices) != 4:
        raise ValueError(
            f"{INDICES_MEAN}: expected four tensors of indices, as miners of pairs return them (anchors and positives, "
            f"anchors and unlabelled samples), got {len(indices)}; a miner of triplets does not fit"
        )
    positive, unlabelled = _marked(pairs, indices[0], indices[1]), _marked(pairs, indices[2], indices[3])
    counts = positive.sum(dim=1)
    width = max(1, int(counts.max()))
    found = positive.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :width]
    used = torch.arange(width, device=found.device) < counts[:, None]
    return replace(pairs, positive=pairs.logits_at(found), positive_mask=used, mask=unlabelled), counts > 0


def _marked(
    pairs: Pairs, anchors: Int[Tensor, " pair"], samples: Int[Tensor, " pair"]
) -> Bool[Tensor, "anchor reference"]:
    """True for the pairs at these indices."""
    marked = torch.zeros(pairs.shape, dtype=torch.bool, device=pairs.query.device)
    for name, given, size in (("anchors", anchors, marked.shape[0]), ("samples", samples, marked.shape[1])):
        if len(given) and given.device.type == "cpu" and not 0 <= int(given.min()) <= int(given.max()) < size:
            raise ValueError(
                f"{INDICES_MEAN}: expected indices from 0 to {size - 1} for {name}, got {int(given.min())} to "
                f"{int(given.max())}"
            )
    marked[anchors.to(marked.device), samples.to(marked.device)] = True
    return marked
