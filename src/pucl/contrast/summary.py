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
        positive_weight: How much each positive counts: weights, or a mask where that is all or nothing; None if all
            count alike.
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
    positive_weight: Bool[Tensor, "row positive"] | Float[Tensor, "row positive"] | None = None
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
        if self.member is not None and self.positive_weight is not None and self.present is None:
            raise ValueError("present is how many positives an anchor has: expected it for rows with a mask, got none")

    def __repr__(self) -> str:
        return brief_repr(self)

    def over_positives(self, values: Float[Tensor, "row positive"]) -> Float[Tensor, " anchor"]:
        """The mean over each anchor's positives; 0 for an anchor that has none."""
        if self.positive_weight is None and self.member is None:
            return values.mean(dim=1)
        return self._over_members(weighted(values, self.positive_weight).sum(dim=1)) / _or_one(self.positives())

    def over_rows(self, values: Float[Tensor, " row"]) -> Float[Tensor, " anchor"]:
        """The mean over the rows of each anchor; 0 for an anchor that has none."""
        return values if self.sizes is None else self._over_members(values) / self.sizes.clamp_min(1)

    def any_row(self, flags: Bool[Tensor, " row"]) -> Bool[Tensor, " anchor"]:
        """Whether it is so for any row of each anchor."""
        if self.member is None:
            return flags
        return sum_groups(flags.to(self.count.dtype), self.member, len(self.count)) > 0

    def positives(self) -> Float[Tensor, " anchor"]:
        """How many positives each anchor has: the sum of their weights."""
        if self.present is not None:
            return self.present
        if self.sizes is not None:
            return self.sizes * self.positive.shape[1]
        if self.positive_weight is None:
            return self.positive.new_full((len(self.positive),), self.positive.shape[1])
        return self.positive_weight.sum(dim=1).to(self.positive.dtype)

    def for_rows(self, values: Float[Tensor, " anchor"]) -> Float[Tensor, "row 1"]:
        """The value of its anchor for each row of positives."""
        return (values if self.member is None else values.index_select(0, self.member))[:, None]

    def log_mean_positive(self, log_factor: Float[Tensor, " row"] | None = None) -> Float[Tensor, " anchor"]:
        """Log of the mean of exp(positive), each row times a factor; 0 for an anchor that has no positive."""
        if self.member is None:
            log_mean = self._log_mean_of_row()
            return log_mean if log_factor is None else log_mean + log_factor
        present, hidden = self.positives(), self._log_weighted()
        hidden = hidden if log_factor is None else hidden + log_factor[:, None]
        highest = torch.full_like(present, -math.inf)
        highest = highest.scatter_reduce(0, self.member, hidden.detach().amax(dim=1), "amax")
        highest = torch.where(highest.isfinite(), highest, 0.0)
        terms = self._over_members((hidden - self.for_rows(highest)).exp().sum(dim=1))
        return highest + torch.where(terms > 0, terms, 1.0).log() - _or_one(present).log()

    def _log_mean_of_row(self) -> Float[Tensor, " row"]:
        if self.positive_weight is None:
            return torch.logsumexp(self.positive, dim=1) - math.log(self.positive.shape[1])
        present = self.positives()
        hidden = self._log_weighted().masked_fill((present == 0)[:, None], 0.0)
        return torch.logsumexp(hidden, dim=1) - _or_one(present).log()

    def _log_weighted(self) -> Float[Tensor, "row positive"]:
        """Log of exp(positive) times its weight."""
        weight = self.positive_weight
        if weight is None:
            return self.positive
        if weight.dtype == torch.bool:
            return self.positive.masked_fill(~weight, -math.inf)
        return torch.where(weight > 0, self.positive + weight.log(), -math.inf)

    def log_mean_unlabelled(self, log_factor: Float[Tensor, " row"] | None = None) -> Float[Tensor, " anchor"]:
        """Log of the mean of exp(unlabelled) over the rows of each anchor, each row times a factor."""
        rows = self.unlabelled if log_factor is None else self.unlabelled + log_factor
        if self.member is None or self.sizes is None:
            return rows
        highest = torch.full_like(self.sizes, -math.inf)
        highest = highest.scatter_reduce(0, self.member, rows.detach(), "amax")
        highest = torch.where(highest.isfinite(), highest, 0.0)
        total = self._over_members((rows - highest[self.member]).exp())
        return highest + (total / self.sizes.clamp_min(1)).log()

    def _over_members(self, values: Float[Tensor, " row"]) -> Float[Tensor, " anchor"]:
        if self.member is None:
            return values
        return sum_groups(times(values, self.copies), self.member, len(self.count))


def weighted(
    values: Float[Tensor, "row positive"], weight: Bool[Tensor, "row positive"] | Float[Tensor, "row positive"] | None
) -> Float[Tensor, "row positive"]:
    """Each value times its weight; whatever stands where the weight is 0 becomes 0."""
    if weight is None:
        return values
    if weight.dtype == torch.bool:
        return values.masked_fill(~weight, 0.0)
    return torch.where(weight > 0, values, 0.0) * weight


def _or_one(count: Float[Tensor, " anchor"]) -> Float[Tensor, " anchor"]:
    """A divisor: the count, or 1 where it is 0."""
    return torch.where(count > 0, count, 1.0)


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
