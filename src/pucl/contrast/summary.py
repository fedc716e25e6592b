"""What is left of a comparison once the unlabelled samples are averaged, for single anchors and for groups of them."""

import math
from dataclasses import dataclass

import torch

from pucl.contrast.brief import brief_repr
from pucl.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True, repr=False)
class Summary:
    """What is left of a comparison once the unlabelled samples are averaged: a few numbers per anchor.

    Args:
        positive: Logits of the positives.
        positive_mask: True where a positive counts; None if all do.
        member: The anchor that each row of positives belongs to, where one anchor stands for a group; None if each has
            its own row.
        sizes: How many rows each anchor then has, copies included.
        present: How many positives each anchor then has, where some may have none; None if each row has all of its own.
        copies: How many equal rows (without `member` how many equal anchors) each one stands for; None for one.
        unlabelled: The weighted average of g over the unlabelled samples of each row, in the objective's own scale
            (InfoNCE: its logarithm).
        count: N, for how many samples that average stands; 0 where an anchor has none.
        lowest: The least value that a logit can take.
        temperature: What similarities were divided by.
        unlabelled_similarity: Mean similarity of the unlabelled pairs.
    """

    positive: Float[Tensor, "row positive"]
    positive_mask: Bool[Tensor, "row positive"] | None = None
    member: Int[Tensor, " row"] | None = None
    sizes: Float[Tensor, " anchor"] | None = None
    present: Float[Tensor, " anchor"] | None = None
    copies: Float[Tensor, " row"] | None = None
    unlabelled: Float[Tensor, " row"]
    count: Float[Tensor, " anchor"]
    lowest: float | Float[Tensor, ""]
    temperature: float | Float[Tensor, ""]
    unlabelled_similarity: Float[Tensor, ""]

    def __post_init__(self) -> None:
        if (self.member is None) != (self.sizes is None):
            raise ValueError("member and sizes say which rows an anchor has: expected both or neither, got one")
        if self.member is not None and self.positive_mask is not None and self.present is None:
            raise ValueError("present is how many positives an anchor has: expected it for rows with a mask, got none")

    def __repr__(self) -> str:
        return brief_repr(self)

    def over_positives(self, values: Float[Tensor, "row positive"]) -> Float[Tensor, " anchor"]:
        """The mean over each anchor's positives; 0 for an anchor that has none."""
        if self.positive_mask is None and self.member is None:
            return values.mean(dim=1)
        shown = values if self.positive_mask is None else values.masked_fill(~self.positive_mask, 0.0)
        return self._over_members(shown.sum(dim=1)) / self.positives().clamp_min(1)

    def positives(self) -> Float[Tensor, " anchor"]:
        """How many positives each anchor has."""
        if self.present is not None:
            return self.present
        if self.sizes is not None:
            return self.sizes * self.positive.shape[1]
        if self.positive_mask is None:
            return self.positive.new_full((len(self.positive),), self.positive.shape[1])
        return self.positive_mask.sum(dim=1).to(self.positive.dtype)

    def for_rows(self, values: Float[Tensor, " anchor"]) -> Float[Tensor, "row 1"]:
        """The value of its anchor for each row of positives."""
        return (values if self.member is None else values.index_select(0, self.member))[:, None]

    def log_mean_positive(self) -> Float[Tensor, " anchor"]:
        """Log of the mean of exp(positive); 0 for an anchor that has none."""
        if self.positive_mask is None and self.member is None:
            return torch.logsumexp(self.positive, dim=1) - math.log(self.positive.shape[1])
        present, hidden = self.positives(), self.positive
        if self.positive_mask is not None:
            hidden = hidden.masked_fill(~self.positive_mask, -math.inf)
        if self.member is None:
            sums = torch.logsumexp(hidden.masked_fill((present == 0)[:, None], 0.0), dim=1)
        else:
            highest = torch.full_like(present, -math.inf)
            highest = highest.scatter_reduce(0, self.member, hidden.detach().amax(dim=1), "amax")
            highest = torch.where(highest.isfinite(), highest, 0.0)
            terms = self._over_members((hidden - self.for_rows(highest)).exp().sum(dim=1))
            sums = highest + torch.where(present > 0, terms, 1.0).log()
        return sums - present.clamp_min(1).log()

    def log_mean_unlabelled(self) -> Float[Tensor, " anchor"]:
        """Log of the mean of exp(unlabelled) over the rows of each anchor, around the largest of them."""
        if self.member is None or self.sizes is None:
            return self.unlabelled
        highest = torch.full_like(self.sizes, -math.inf)
        highest = highest.scatter_reduce(0, self.member, self.unlabelled.detach(), "amax")
        highest = torch.where(highest.isfinite(), highest, 0.0)
        total = self._over_members((self.unlabelled - highest[self.member]).exp())
        return highest + (total / self.sizes.clamp_min(1)).log()

    def _over_members(self, values: Float[Tensor, " row"]) -> Float[Tensor, " anchor"]:
        if self.member is None:
            return values
        return sum_groups(times(values, self.copies), self.member, len(self.count))


def times(values: Float[Tensor, "member *of"], copies: Float[Tensor, " member"] | None) -> Float[Tensor, "member *of"]:
    """Each value as often as it is there; as it is where that is once."""
    return values if copies is None else values * copies.view(-1, *[1] * (values.ndim - 1))


def sum_groups(
    values: Float[Tensor, "member *of"], group: Int[Tensor, " member"], groups: int
) -> Float[Tensor, "group *of"]:
    """The sum over each group; in double precision, as many like numbers are added up one after the other."""
    precise = torch.float64 if values.device.type == "cpu" else values.dtype
    sums = torch.zeros(groups, *values.shape[1:], dtype=precise, device=values.device)
    return sums.index_add(0, group, values.to(precise)).to(values.dtype)
