"""The call of CLIP-like training, as in open_clip."""

from dataclasses import replace

import torch

from pucl import processes
from pucl.adapters.adapter import Adapter
from pucl.contrast.loss import Outcome
from pucl.contrast.pairing import SMALLEST_TEMPERATURE, pair_up, readable_number, scalar, stack_views
from pucl.contrast.pairs import Pairs
from pucl.shapes import Float, Tensor


class TwoTowerLoss(Adapter):
    """A loss of pucl with the call of CLIP-like training: ``loss(image_features, text_features, logit_scale)``.

    Images are anchors for texts, and texts for images. The partner is the positive; the partners of all other samples
    are unlabelled. The loss is the mean over both directions.

    Args:
        loss: Any loss of pucl without a memory bank, except the oracle. Its temperature is used if no logit scale is
            given. With its default floor the loss learns at any logit scale; see `pucl.contrast.objectives.Floor`.

    Shapes:
        - features of either tower: [batch, dim], normalised inside.
        - ``logit_scale``: a number or 0-d tensor, 1 / temperature (already exponentiated, as open_clip passes it).
          A tensor receives a gradient.

    Example:
        >>> import pucl
        >>> loss = TwoTowerLoss(pucl.PUCLLoss(alpha=0.01, c=0.0))
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16), torch.tensor(14.3))
    """

    def forward(
        self,
        image_features: Float[Tensor, "batch dim"],
        text_features: Float[Tensor, "batch dim"],
        logit_scale: float | Float[Tensor, ""] | None = None,
        *,
        output_dict: bool = False,
    ) -> Float[Tensor, "*reduced"] | dict[str, Float[Tensor, "*reduced"]]:
        """The mean over both directions; with `output_dict` under the name ``"contrastive_loss"``."""
        images, texts = stack_views([image_features, text_features])
        temperature = self.loss.temperature if logit_scale is None else _temperature(logit_scale)
        both = self._pairs(images, texts, temperature), self._pairs(texts, images, temperature)
        loss = self.loss.settle(_joined(*(self.loss.outcome(pairs) for pairs in both)))
        self.loss.learn(*both)
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
        return replace(pairs, query_samples=None, key_samples=None)  # Positions in the batch are no ids of samples.


def _temperature(logit_scale: float | Float[Tensor, ""]) -> float | Float[Tensor, ""]:
    meaning = "logit_scale is 1 / temperature"
    value = readable_number(meaning, logit_scale)
    if value is not None and not 0 < value < 1 / SMALLEST_TEMPERATURE:
        raise ValueError(f"{meaning}: expected 0 < logit_scale < {1 / SMALLEST_TEMPERATURE:g}, got {value:g}")
    return 1 / scalar(logit_scale)


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
