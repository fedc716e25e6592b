"""The averages over the unlabelled samples, for single anchors and for groups of anchors that share one estimate."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from pucl.contrast.brief import brief_repr
from pucl.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class MateSums:
    """Sums over the mates of each row, for mates whose logits are too many to be held; see `streaming.mates`.

    Args:
        count: Number of mates of each row.
        highest: The highest logit of each row's mates, -inf for a row without any.
    """

    count: Float[Tensor, " row"]
    highest: Float[Tensor, " row"]

    def sum(self, function: Callable[..., Tensor], *rows: Float[Tensor, " row"]) -> Float[Tensor, " row"]:
        """Sum of function(logit, number of the row, ...) over the mates of each row."""
        raise NotImplementedError

    def detach(self) -> "MateSums":
        """The same without gradient."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, repr=False)
class Averages:
    """A few numbers per anchor: its positive logits, and the average over its unlabelled samples.

    Usually an anchor has one row. An anchor that stands for a group has one row for each member.

    Args:
        positive: Logits of the positives.
        mates: More positives of each row, which are summed over without being held; None if all are in `positive`.
        positive_weight: Weight of each positive, or a mask; None if all have weight 1.
        member: The anchor that each row belongs to, if anchors stand for groups; None if each anchor has one row.
        sizes: With `member`: number of rows of each anchor, copies included.
        present: With `member`: number of positives of each anchor, if some may have none; None if every row has all.
        copies: Number of equal rows (without `member`: equal anchors) that each one stands for; None for one.
        unlabelled: The weighted average of g over the unlabelled samples of each row; for InfoNCE its logarithm.
        count: N, the number of samples that the average represents; 0 for an anchor without samples.
        lowest: The least value that a logit can have.
        temperature: Similarities were divided by it.
        unlabelled_similarity: Mean similarity of the unlabelled pairs.
    """

    positive: Float[Tensor, "row positive"]
    positive_weight: Bool[Tensor, "row positive"] | Float[Tensor, "row positive"] | None = None
    mates: MateSums | None = None
    member: Int[Tensor, " row"] | None = None
    sizes: Float[Tensor, " anchor"] | None = None
    present: Float[Tensor, " anchor"] | None = None
    copies: Float[Tensor, " row"] | None = None
    unlabelled: Float[Tensor, " row"]
    count: Float[Tensor, " anchor"]
    lowest: float | Float[Tensor, ""]
    temperature: float | Float[Tensor, ""]
    unlabelled_similarity: Float[Tensor, ""]

    def __repr__(self) -> str:
        return brief_repr(self)

    def over_positives(self, function: Callable[..., Tensor], *rows: Float[Tensor, " row"]) -> Float[Tensor, " anchor"]:
        """The mean of function(logit, number of the row, ...) over each anchor's positives; 0 if it has none."""
        values = function(self.positive, *(row[:, None] for row in rows))
        if self.positive_weight is None and self.member is None and self.mates is None:
            return values.mean(dim=1)
        sums = weighted(values, self.positive_weight).sum(dim=1)
        if self.mates is not None:
            sums = sums + self.mates.sum(function, *rows)
        return self._over_members(sums) / _or_one(self.positives())

    def mean_positive(self) -> Float[Tensor, ""]:
        """The mean logit of all positives, each counted with its weight, without gradient; 0 if there are none."""
        positive = self.positive.detach()
        if self.positive_weight is None and self.mates is None:
            return positive.mean()
        weight = torch.ones_like(positive) if self.positive_weight is None else self.positive_weight
        total, present = weighted(positive, weight).sum(), weight.sum()
        if self.mates is not None:
            of_mates = self.mates.detach().sum(lambda logit: logit)
            total, present = total + of_mates.sum(), present + self.mates.count.sum()
        return total / torch.where(present > 0, present, 1)

    def without_gradient_of_positives(self) -> "Averages":
        """The same, with the logits of the positives as constants."""
        mates = None if self.mates is None else self.mates.detach()
        return replace(self, positive=self.positive.detach(), mates=mates)

    def over_rows(self, values: Float[Tensor, " row"]) -> Float[Tensor, " anchor"]:
        """The mean over the rows of each anchor; 0 for an anchor that has none."""
        return values if self.sizes is None else self._over_members(values) / self.sizes.clamp_min(1)

    def any_row(self, flags: Bool[Tensor, " row"]) -> Bool[Tensor, " anchor"]:
        """Whether the flag is set for any row of each anchor."""
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
            given = self.positive.new_full((len(self.positive),), self.positive.shape[1])
        else:
            given = self.positive_weight.sum(dim=1).to(self.positive.dtype)
        return given if self.mates is None else given + self.mates.count

    def for_rows(self, values: Float[Tensor, " anchor"]) -> Float[Tensor, " row"]:
        """For each row the value of its anchor."""
        return values if self.member is None else values.index_select(0, self.member)

    def log_mean_positive(self, log_factor: Float[Tensor, " row"] | None = None) -> Float[Tensor, " anchor"]:
        """Log of the mean of exp(positive), each row times a factor; 0 for an anchor that has no positive."""
        if self.member is not None or self.mates is not None:
            return self._log_mean_positive(log_factor)
        if self.positive_weight is None:
            log_mean = torch.logsumexp(self.positive, dim=1) - math.log(self.positive.shape[1])
        else:
            present = self.positives()
            hidden = self._log_weighted().masked_fill((present == 0)[:, None], 0.0)
            log_mean = torch.logsumexp(hidden, dim=1) - _or_one(present).log()
        return log_mean if log_factor is None else log_mean + log_factor

    def _log_mean_positive(self, log_factor: Float[Tensor, " row"] | None) -> Float[Tensor, " anchor"]:
        """The same for rows of several members, and for mates."""
        hidden, factor = self._log_weighted(), torch.zeros_like(self.unlabelled) if log_factor is None else log_factor
        hidden = hidden + factor[:, None]
        tops = hidden if self.mates is None else torch.cat([hidden, (self.mates.highest + factor)[:, None]], dim=1)
        highest = self._highest(tops.amax(dim=1))
        shift = self.for_rows(highest)
        terms = (hidden - shift[:, None]).exp().sum(dim=1)
        if self.mates is not None:
            terms = terms + self.mates.sum(lambda logit, off: (logit - off).exp(), shift - factor)
        terms = self._over_members(terms)
        return highest + torch.where(terms > 0, terms, 1.0).log() - _or_one(self.positives()).log()

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
        highest = self._highest(rows)
        total = self._over_members((rows - highest[self.member]).exp())
        return highest + (total / self.sizes.clamp_min(1)).log()

    def _highest(self, rows: Float[Tensor, " row"]) -> Float[Tensor, " anchor"]:
        """The highest value of each anchor's rows, without gradient; 0 if none is finite."""
        highest = rows.detach()
        if self.member is not None:
            highest = torch.full_like(self.count, -math.inf).scatter_reduce(0, self.member, highest, "amax")
        return torch.where(highest.isfinite(), highest, 0.0)

    def _over_members(self, values: Float[Tensor, " row"]) -> Float[Tensor, " anchor"]:
        if self.member is None:
            return values
        return sum_groups(times(values, self.copies), self.member, len(self.count))


def weighted(
    values: Float[Tensor, "row positive"], weight: Bool[Tensor, "row positive"] | Float[Tensor, "row positive"] | None
) -> Float[Tensor, "row positive"]:
    """Each value times its weight; 0 where the weight is 0, even for NaN."""
    if weight is None:
        return values
    if weight.dtype == torch.bool:
        return values.masked_fill(~weight, 0.0)
    return torch.where(weight > 0, values, 0.0) * weight


def _or_one(count: Float[Tensor, " anchor"]) -> Float[Tensor, " anchor"]:
    """A divisor: the count, or 1 where it is 0."""
    return torch.where(count > 0, count, 1.0)


def times(values: Float[Tensor, "member *of"], copies: Float[Tensor, " member"] | None) -> Float[Tensor, "member *of"]:
    """Multiply values by their number of copies; unchanged if None."""
    return values if copies is None else values * copies.view(-1, *[1] * (values.ndim - 1))


def sum_groups(
    values: Float[Tensor, "member *of"], group: Int[Tensor, " member"], groups: int
) -> Float[Tensor, "group *of"]:
    """The sum over each group. On the CPU in double precision, since many similar numbers are added in sequence."""
    precise = torch.float64 if values.device.type == "cpu" else values.dtype
    sums = torch.zeros(groups, *values.shape[1:], dtype=precise, device=values.device)
    return sums.index_add(0, group, values.to(precise)).to(values.dtype)


def pool(
    averages: Averages,
    group: Int[Tensor, " anchor"],
    copies: Float[Tensor, " anchor"] | None = None,
) -> tuple[Averages, Float[Tensor, " group"]]:
    r"""Make one anchor of each group, with the positives of all its members.

    The expectation over true negatives is then estimated, and floored, once for a group:

    .. math:: E^-_G[g] = (1 + \omega)\, \mathrm{mean}_{i \in G}\, m_i - \omega\, \mathrm{mean}_{i \in G, j}\, g(p_{ij})

    with :math:`m_i` the average over the unlabelled samples of anchor i. Fewer groups than anchors are floored: a
    member with an estimate below the floor is balanced by the others.

    Args:
        averages: Averages of the single anchors.
        group: The group of each anchor, from 0.
        copies: Number of equal anchors that each one stands for; None for one.

    Returns:
        The averages of the groups, and a factor for the loss of each group, so that the mean over groups is the mean
        over anchors.
    """
    groups = int(group.max()) + 1
    copies = None if copies is None else copies.to(averages.positive.dtype)
    here = torch.ones_like(averages.count) if copies is None else copies
    sizes, count = sum_groups(torch.stack([here, here * averages.count], dim=1), group, groups).unbind(1)
    present = None
    if averages.positive_weight is not None or averages.mates is not None:
        present = sum_groups(times(averages.positives(), copies), group, groups)
    elif torch.compiler.is_compiling() or not sizes.all():  # Compiled code must not branch on values.
        present = sizes * averages.positive.shape[1]
    pooled = replace(
        averages, member=group, copies=copies, sizes=sizes, present=present, count=count / sizes.clamp_min(1)
    )
    return pooled, sizes * (groups / sizes.sum())
