"""The losses behind the calls that other libraries make."""

from dataclasses import replace
from typing import Literal, overload

import torch
from torch import nn

from pucl import processes
from pucl.contrast.embeddings import as_embeddings
from pucl.contrast.objectives import Outcome
from pucl.contrast.pairing import (
    SMALLEST_TEMPERATURE,
    check_ids,
    pair_up,
    readable_number,
    scalar,
    stack_views,
)
from pucl.contrast.pairs import Pairs
from pucl.losses import ContrastiveLoss, OracleLoss
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Int, Tensor


class _Adapter(nn.Module):
    """A loss of pucl behind another call."""

    loss: ContrastiveLoss

    @property
    def last(self) -> Outcome | None:
        """What the last call came to: the share of floored anchors, tau', mean similarities; None before the first."""
        return self.loss.last


class MetricLearningLoss(_Adapter):
    """A loss of pucl with the call of pytorch-metric-learning: ``loss(embeddings, labels)``.

    Samples of one label are positives of each other, all others are unlabelled. For self-supervised training a
    label is the number of the sample, as PML's ``SelfSupervisedLoss`` sets it: then every view of one sample is
    positive, and with real labels all of a class is.

    The loss of an anchor with several positives is their mean, and anchors without any are left out.

    Args:
        loss: A loss of pucl without a memory bank, and that does not gather over processes.

    Example:
        >>> import pucl
        >>> loss = MetricLearningLoss(pucl.PUCLLoss(alpha=0.12, c=0.1))
        >>> value = loss(torch.randn(8, 16), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]))
    """

    def __init__(self, loss: ContrastiveLoss) -> None:
        super().__init__()
        if loss.queue is not None or loss.gather_distributed:
            raise ValueError(
                "embeddings and labels are all that this call compares: expected a loss without memory_bank_size and "
                "gather_distributed"
            )
        _refuse_oracle(loss)
        self.loss = loss

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
        places, present = _same_label(labels, reference_labels, itself)
        pairs = pair_up(
            embeddings,
            reference[places[:, 0]],
            reference,
            temperature=self.loss.temperature,
            query_ids=labels,
            unlabelled_ids=reference_labels,
        )
        # Labels leave out pairs, and name no samples.
        pairs = replace(
            pairs,
            positive=_logits_at(pairs, places),
            positive_mask=present,
            query_samples=None,
            key_samples=None,
        )
        outcome = self.loss.compare(pairs)
        self.loss.learn(pairs)
        has_positive = present.any(dim=1)
        if self.loss.reduction == "mean" and has_positive.any():
            outcome = replace(outcome, loss=outcome.loss[has_positive])
        return self.loss.settle(outcome)


class TwoTowerLoss(_Adapter):
    """A loss of pucl with the call of CLIP-like training: ``loss(image_features, text_features, logit_scale)``.

    Images are anchors for texts and texts for images; the partner is the positive, the other side of all other
    samples is unlabelled. The two directions are averaged.

    Args:
        loss: Any loss of pucl without a memory bank. Its temperature holds where no logit scale is given. With its
            default floor the loss learns at any logit scale; see `pucl.contrast.objectives.Floor`.

    Shapes:
        - features of either tower: [batch, dim], normalised inside.
        - ``logit_scale``: a number or 0-d tensor, 1 / temperature (already exponentiated, as open_clip passes it);
          a tensor receives its gradient.

    Example:
        >>> import pucl
        >>> loss = TwoTowerLoss(pucl.PUCLLoss(alpha=0.01, c=0.0))
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16), torch.tensor(14.3))
    """

    def __init__(self, loss: ContrastiveLoss) -> None:
        super().__init__()
        if loss.queue is not None:
            raise ValueError(
                "the other samples of the batch are unlabelled here: expected a loss without a memory bank"
            )
        _refuse_oracle(loss)
        self.loss = loss

    @overload
    def forward(
        self,
        image_features: Float[Tensor, "batch dim"],
        text_features: Float[Tensor, "batch dim"],
        logit_scale: float | Float[Tensor, ""] | None = None,
        *,
        output_dict: Literal[False] = False,
    ) -> Float[Tensor, "*reduced"]: ...

    @overload
    def forward(
        self,
        image_features: Float[Tensor, "batch dim"],
        text_features: Float[Tensor, "batch dim"],
        logit_scale: float | Float[Tensor, ""] | None = None,
        *,
        output_dict: Literal[True],
    ) -> dict[str, Float[Tensor, "*reduced"]]: ...

    def forward(
        self,
        image_features: Float[Tensor, "batch dim"],
        text_features: Float[Tensor, "batch dim"],
        logit_scale: float | Float[Tensor, ""] | None = None,
        *,
        output_dict: bool = False,
    ) -> Float[Tensor, "*reduced"] | dict[str, Float[Tensor, "*reduced"]]:
        """The mean of both directions."""
        images, texts = stack_views([image_features, text_features])
        temperature = self.loss.temperature if logit_scale is None else _temperature(logit_scale)
        comparisons = self._pairs(images, texts, temperature), self._pairs(texts, images, temperature)
        forth, back = (self.loss.compare(pairs) for pairs in comparisons)
        loss = self.loss.settle(_joined(forth, back))
        self.loss.learn(*comparisons)
        return {"contrastive_loss": loss} if output_dict else loss

    def _pairs(
        self,
        anchors: Float[Tensor, "batch dim"],
        partners: Float[Tensor, "batch dim"],
        temperature: float | Float[Tensor, ""],
    ) -> Pairs:
        candidates, ids = partners, torch.arange(len(anchors), device=anchors.device)
        candidate_ids = ids
        if self.loss.together:
            sizes = processes.gather_sizes(len(anchors), anchors.device, alike={"the dimension": anchors.shape[1]})
            ids = ids + sum(sizes[: processes.rank()])
            candidates, candidate_ids = processes.gather(partners, sizes), processes.gather(ids, sizes)
        if len(candidates) < 2:
            raise ValueError("the other samples of a batch are unlabelled: expected a batch of at least 2, got 1")
        pairs = pair_up(
            anchors,
            partners,
            candidates,
            temperature=temperature,
            query_ids=ids,
            unlabelled_ids=candidate_ids,
            normalize=False,
        )
        return replace(pairs, query_samples=None, key_samples=None)  # Places in the batch name no samples.


def _refuse_oracle(loss: ContrastiveLoss) -> None:
    if isinstance(loss, OracleLoss):
        raise ValueError("the oracle needs labels of its own, which this call does not have: expected another loss")


def _temperature(logit_scale: float | Float[Tensor, ""]) -> float | Float[Tensor, ""]:
    meaning = "logit_scale is 1 / temperature"
    value = readable_number(meaning, logit_scale)
    if value is not None and not 0 < value < 1 / SMALLEST_TEMPERATURE:
        raise ValueError(f"{meaning}: expected 0 < logit_scale < {1 / SMALLEST_TEMPERATURE:g}, got {value:g}")
    return 1 / scalar(logit_scale)


def _same_label(
    labels: Int[Tensor, " anchor"], reference_labels: Int[Tensor, " reference"], itself: Int[Tensor, " anchor"]
) -> tuple[Int[Tensor, "anchor positive"], Bool[Tensor, "anchor positive"]]:
    """Where the references of each anchor's label are, and which of these places are used.

    A search in sorted labels: what it takes grows with the number of positives, not of all pairs.
    """
    sorted_labels, order = reference_labels.sort(stable=True)
    begin, end = torch.searchsorted(sorted_labels, labels), torch.searchsorted(sorted_labels, labels, right=True)
    width = max(1, int((end - begin).max()))
    places = begin[:, None] + torch.arange(width, device=labels.device)
    present = places < end[:, None]
    places = order[places.clamp_max(len(order) - 1)]
    return places, present & (places != itself[:, None])


def _logits_at(pairs: Pairs, places: Int[Tensor, "anchor positive"]) -> Float[Tensor, "anchor positive"]:
    """Each anchor's logits with the keys at these places, from whatever is less: their vectors or all logits."""
    if places.shape[1] * pairs.key.shape[1] <= len(pairs.key):
        return (pairs.query[:, None] * pairs.key[places]).sum(dim=-1)
    with full_precision(pairs.query.device):
        return (pairs.query @ pairs.key.T).gather(1, places)


def _joined(forth: Outcome, back: Outcome) -> Outcome:
    """The anchors of both directions together."""
    return Outcome(
        loss=torch.cat([forth.loss, back.loss]),
        floored=(forth.floored + back.floored) / 2,
        tau_plus=(forth.tau_plus + back.tau_plus) / 2,
        positive_similarity=(forth.positive_similarity + back.positive_similarity) / 2,
        unlabelled_similarity=(forth.unlabelled_similarity + back.unlabelled_similarity) / 2,
        floor=forth.floor,
    )
