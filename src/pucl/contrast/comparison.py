"""What one anchor is compared with: its positives, its unlabelled samples, and how low a logit can be."""

import math
from dataclasses import dataclass, field

import torch

from pucl.contrast.brief import brief_repr
from pucl.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Every anchor against its positives and its unlabelled samples, as logits.

    This is where *framework* (who is compared with whom), *correction* and *objective* meet, and all
    that any of them knows of the others. A logit is a similarity divided by the temperature.

    Args:
        positive: Logits of the pairs known to be positive; one or more per anchor.
        unlabelled: Logits of the pairs about which nothing is known.
        mask: True where an unlabelled sample counts. None: all of them do.
        positive_mask: True where a positive counts, for anchors with unequal numbers of positives.
        lowest: The least value that a logit can take: ``-1 / temperature`` for cosines, ``-inf`` for
            scores without bound. The floor of a correction rests on it.
        temperature: What the similarities were divided by; only for reporting similarities.
        drawn: How many unlabelled samples there were before any were masked as known positives (the
            oracle does that). Those left then speak for that many. None: as many as the mask shows.

        query_samples: Which sample of the data each anchor is of; None if nobody said.
        key_samples: The same of each unlabelled sample; -1 where it is not known.

    Attributes:
        count: N, how many unlabelled samples each anchor has.
        visible: The unlabelled logits with masked ones at -inf, where no exponential sees them. Rows without
            any sample are zero instead, so that nothing computed from them is NaN; `count` tells them apart.

    Note:
        An anchor whose unlabelled samples are all masked is compared with nothing. Its negative term is
        zero, and so is its InfoNCE loss.
    """

    positive: Float[Tensor, "anchor positive"]
    unlabelled: Float[Tensor, "anchor unlabelled"]
    mask: Bool[Tensor, "anchor unlabelled"] | None = None
    positive_mask: Bool[Tensor, "anchor positive"] | None = None
    lowest: float | Float[Tensor, ""] = -math.inf
    temperature: float | Float[Tensor, ""] = 1.0
    drawn: Float[Tensor, " anchor"] | None = None
    query_samples: Int[Tensor, " anchor"] | None = None
    key_samples: Int[Tensor, " unlabelled"] | None = None
    count: Float[Tensor, " anchor"] = field(init=False, repr=False)
    visible: Float[Tensor, "anchor unlabelled"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, logits in (("positive", self.positive), ("unlabelled", self.unlabelled)):
            if logits.ndim != 2 or not logits.is_floating_point():
                raise ValueError(
                    f"{name} holds one row of logits per anchor: expected a floating-point [anchor, {name}] "
                    f"tensor, got {logits.dtype} of shape {tuple(logits.shape)}"
                )
            if logits.shape[1] == 0:
                raise ValueError(f"every anchor needs at least one {name} sample to be compared with, got none")
        if len(self.positive) != len(self.unlabelled):
            raise ValueError(
                f"positive and unlabelled hold one row per anchor: expected as many rows in both, "
                f"got {len(self.positive)} and {len(self.unlabelled)}"
            )
        for name, mask, logits in (
            ("mask", self.mask, self.unlabelled),
            ("positive_mask", self.positive_mask, self.positive),
        ):
            if mask is not None and (mask.dtype != torch.bool or mask.shape != logits.shape):
                raise ValueError(
                    f"{name} says which samples count: expected a bool tensor of shape {tuple(logits.shape)}, "
                    f"got {mask.dtype} of shape {tuple(mask.shape)}"
                )
        count = self.unlabelled.new_full((len(self.unlabelled),), self.unlabelled.shape[1])
        visible = self.unlabelled
        if self.mask is not None:
            count = self.mask.sum(dim=1).to(self.unlabelled.dtype)
            visible = visible.masked_fill(~self.mask, -math.inf).masked_fill((count == 0)[:, None], 0.0)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "visible", visible)

    def __repr__(self) -> str:
        return brief_repr(self)

    def unlabelled_similarity(self) -> Float[Tensor, ""]:
        """The mean similarity of the pairs that count, for reports."""
        logits = self.unlabelled.detach()
        if self.mask is None:
            return logits.mean() * self.temperature
        total = logits.masked_fill(~self.mask, 0.0).sum()
        return total / self.count.sum().clamp_min(1) * self.temperature
