"""Anchors, positives and unlabelled samples: as vectors (`Pairs`), and as logits (`Comparison`)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch

from pucl.contrast.brief import brief_repr
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Int, Tensor

AttractingForm = Literal["sincere", "supcon"]

BLOCK = 1 << 21  # Logits in a block of rows: 8 MiB of float32.
PER_ANCHOR = (
    "query",
    "positive",
    "own",
    "positive_mask",
    "query_ids",
    "query_samples",
    "mask",
    "drawn",
    "group",
    "copies",
)
"""The fields of `Pairs` that have one row for each anchor."""


class Classes(NamedTuple):
    """Classes of the anchors and of the unlabelled samples. Pairs of one class then attract each other.

    Args:
        query: Class of each anchor.
        key: Class of each unlabelled sample.
        form: The loss, ``"sincere"`` or ``"supcon"``; see `pucl.contrast.attraction`.
    """

    query: Int[Tensor, " anchor"]
    key: Int[Tensor, " unlabelled"]
    form: AttractingForm = "sincere"


class Groups(NamedTuple):
    """Known groups of samples. Keys of an anchor's group that show another sample are its *mates*: positives.

    Two rows are of one group if they have the same number. A row without a known group has a number of its own.

    Args:
        query: Group of each anchor.
        key: Group of each key.
        query_rows: Sample of each anchor. An anchor's own sample is no mate.
        key_rows: Sample of each key.
    """

    query: Int[Tensor, " anchor"]
    key: Int[Tensor, " unlabelled"]
    query_rows: Int[Tensor, " anchor"]
    key_rows: Int[Tensor, " unlabelled"]

    def of(self, rows: slice) -> "Groups":
        """The groups of these anchors."""
        return self._replace(query=self.query[rows], query_rows=self.query_rows[rows])

    def counts(self) -> Int[Tensor, " anchor"]:
        """The number of mates of each anchor, without comparing all pairs."""
        return _times_found(self.query, self.key) - _times_found(self.query_rows, self.key_rows)

    def find(self) -> tuple[Int[Tensor, "anchor mate"], Bool[Tensor, "anchor mate"]]:
        """Indices of each anchor's mates among the keys, and which of these indices are used.

        Groups are searched in sorted order: the cost grows with the number of mates, not with the number of all pairs.
        """
        groups, order = self.key.sort(stable=True)
        begin, end = (torch.searchsorted(groups, self.query, right=right) for right in (False, True))
        width = max(1, int((end - begin).max()))
        positions = begin[:, None] + torch.arange(width, device=order.device)
        indices = order[positions.clamp_max(len(order) - 1)]
        return indices, (positions < end[:, None]) & (self.key_rows[indices] != self.query_rows[:, None])


def _times_found(wanted: Int[Tensor, " anchor"], among: Int[Tensor, " unlabelled"]) -> Int[Tensor, " anchor"]:
    """How often each number is among others."""
    rising = among.sort().values
    return torch.searchsorted(rising, wanted, right=True) - torch.searchsorted(rising, wanted)


@dataclass(frozen=True, kw_only=True, repr=False)
class Pairs:
    """Anchors, their positives and their unlabelled samples. Frameworks and losses make it; `outcome_of` takes it.

    The logits of the unlabelled pairs are not computed yet: there may be too many to hold at once.

    Args:
        query: One vector per anchor, scaled so that its inner product with a key is a logit.
        key: The unlabelled vectors: one set that all anchors share, or one set for each anchor.
        positive: Logits of the positives.
        own: Index of the key that is each anchor's positive, if the positives are among the keys. `positive` then has
            no columns; `positives` computes them.
        positive_mask: True where a positive counts. None: everywhere.
        query_ids: An anchor is not compared with keys of the same id: itself, its own positive or, for the oracle, its
            own class.
        key_ids: The ids of the keys.
        query_samples: Sample of the data that each anchor shows, for corrections that remember samples. Unlike
            `query_ids` it excludes no pairs. None if it is not known.
        key_samples: The same for each unlabelled sample; -1 where it is not known.
        mask: True where a pair counts. None: everywhere.
        symmetric: Whether queries and keys are the same vectors with the same ids.
        period: With `symmetric`: the ids are 0 to period - 1, repeated for each view of the batch. The excluded pairs
            are then known without comparing ids. 0: the ids have no such order.
        bound: Upper limit of the absolute value of all logits; inf if unknown.
        lowest: The least value that a logit can have; see `Comparison`.
        temperature: Similarities were divided by it.
        drawn: Number of samples that the unlabelled ones represent; see `Comparison`.
        group: Group of each anchor, from 0. Anchors of a group share one estimate over negatives; see `averages.pool`.
        copies: Number of equal anchors that each anchor stands for; None for one. Losses count each anchor that many
            times; reported similarities count it once.
        classes: Known classes, if unlabelled samples of the anchor's class are attracted; None otherwise.
        groups: Known groups of samples; None if there are none. Keys of the anchor's group are positives, and the ids
            exclude them from the unlabelled; see `pucl.contrast.knowledge.with_groups`.
        shifts: Number of last coordinates that add a number to the logit of each key and are no part of an embedding.
        unit: For logits without a lowest value, the largest absolute one; None if it was not asked for. See `measured`.
    """

    query: Float[Tensor, "anchor dim"]
    key: Float[Tensor, "unlabelled dim"] | Float[Tensor, "anchor unlabelled dim"]
    positive: Float[Tensor, "anchor positive"]
    own: Int[Tensor, " anchor"] | None = None
    positive_mask: Bool[Tensor, "anchor positive"] | None = None
    query_ids: Int[Tensor, " anchor"] | None = None
    key_ids: Int[Tensor, " unlabelled"] | None = None
    query_samples: Int[Tensor, " anchor"] | None = None
    key_samples: Int[Tensor, " unlabelled"] | None = None
    mask: Bool[Tensor, "anchor unlabelled"] | None = None
    symmetric: bool = False
    period: int = 0
    bound: float = math.inf
    lowest: float | Float[Tensor, ""] = -math.inf
    temperature: float | Float[Tensor, ""] = 1.0
    drawn: Float[Tensor, " anchor"] | None = None
    group: Int[Tensor, " anchor"] | None = None
    copies: Float[Tensor, " anchor"] | None = None
    classes: Classes | None = None
    groups: Groups | None = None
    shifts: int = 0
    unit: Float[Tensor, ""] | None = None

    def __repr__(self) -> str:
        return brief_repr(self)

    @property
    def shared(self) -> bool:
        """Whether all anchors have the same unlabelled samples."""
        return self.key.ndim == 2

    @property
    def shape(self) -> tuple[int, int]:
        """Number of anchors and of unlabelled samples: the shape of the matrix of logits."""
        return len(self.query), self.key.shape[-2]

    def comparison(self) -> "Comparison":
        """All logits at once."""
        unlabelled = self.query @ self.key.T if self.shared else torch.einsum("ad,aud->au", self.query, self.key)
        positive = self.positive if self.own is None else unlabelled.gather(1, self.own[:, None])
        positive_mask = self.positive_mask
        if self.groups is not None:
            indices, present = self.mates(self.groups)
            positive, positive_mask = self._with_mates(positive, unlabelled.gather(1, indices), present)
        return Comparison(
            positive=positive,
            unlabelled=unlabelled,
            mask=self.counting(),
            positive_mask=positive_mask,
            lowest=self.lowest,
            temperature=self.temperature,
            drawn=self.drawn,
            query_samples=self.query_samples,
            key_samples=self.key_samples,
            unit=self.unit,
            steepness=self.steepness,
        )

    def counting(self) -> Bool[Tensor, "anchor unlabelled"] | None:
        """True where a pair counts; None if all pairs do."""
        if self.query_ids is None or self.key_ids is None:
            return self.mask
        different = self.query_ids[:, None] != self.key_ids[None, :]
        return different if self.mask is None else different & self.mask

    def positives(self) -> Float[Tensor, "anchor positive"]:
        """Logits of the positives, whether they are given or among the keys; without mates."""
        if self.own is None:
            return self.positive
        return (self.query * self.key[self.own]).sum(dim=1, keepdim=True)

    def all_positives(
        self,
    ) -> tuple[Float[Tensor, "anchor positive"], Bool[Tensor, "anchor positive"] | None]:
        """Logits of all positives, including mates, and which of them count; None if all do."""
        if self.groups is None:
            return self.positives(), self.positive_mask
        indices, present = self.mates(self.groups)
        return self._with_mates(self.positives(), self.logits_at(indices), present)

    def mates(self, groups: Groups) -> tuple[Int[Tensor, "anchor mate"], Bool[Tensor, "anchor mate"]]:
        """Indices of each anchor's mates among the keys, and which of these indices are used."""
        indices, present = groups.find()
        return indices, present if self.mask is None else present & self.mask.gather(1, indices)

    def logits_at(self, indices: Int[Tensor, "anchor sample"]) -> Float[Tensor, "anchor sample"]:
        """Logits of each anchor with the keys at these indices, from their vectors or from all logits.

        Whichever needs less memory is computed.
        """
        with full_precision(self.query.device):
            if indices.shape[1] * self.key.shape[1] <= len(self.key):
                return (self.query[:, None] * self.key[indices]).sum(dim=-1)
            return (self.query @ self.key.T).gather(1, indices)

    def _with_mates(
        self,
        positive: Float[Tensor, "anchor given"],
        of_mates: Float[Tensor, "anchor mate"],
        present: Bool[Tensor, "anchor mate"],
    ) -> tuple[Float[Tensor, "anchor positive"], Bool[Tensor, "anchor positive"]]:
        given = self.positive_mask
        given = torch.ones_like(positive, dtype=torch.bool) if given is None else given
        return torch.cat([positive, of_mates], dim=1), torch.cat([given, present], dim=1)

    def measured(self) -> "Pairs":
        """The pairs with a `unit`, if their logits have no lowest value; unchanged if they are cosines.

        A tilt, and weights over similarities, need logits of a known size. Scores without bound grow during training.
        Weights exp(score) would then be those of a single sample.
        """
        if self.unit is not None or not without_bound(self.lowest):
            return self
        query, key = self.query.detach(), self.key.detach()
        ends = [] if self.own is not None else [end.detach() for end in self.positive.aminmax()]
        if self.shared:
            height = max(1, (BLOCK >> 4) // len(key))
            buffer = query.new_empty(height, len(key))  # Used again for all blocks: this memory is on top of all else.
            for block in query.split(height):
                logits = torch.mm(block, key.T, out=buffer[: len(block)])
                ends += [logits.amin(), logits.amax()]
        else:
            for rows in self.blocks():
                ends += torch.einsum("ad,aud->au", query[rows], key[rows]).aminmax()
        unit = torch.stack(ends).abs().amax()
        return replace(self, unit=unit.clamp_min(torch.finfo(unit.dtype).tiny))

    @property
    def steepness(self) -> float | Float[Tensor, ""]:
        """What the tilt of a correction is multiplied by: 1, but 2 / `unit` for scores without bound.

        The factor 2 is that of HCL's authors for graphs. Such scores are then weighed as cosines are at temperature
        0.5. Shifted cosines keep their temperature.
        """
        return 1.0 if self.unit is None or self.shifts else 2 / self.unit

    def embeddings(self) -> Float[Tensor, "anchor dim"]:
        """The embedding of each anchor, with length one and without gradient, for corrections that remember it."""
        vectors = self.query.detach()
        return torch.nn.functional.normalize(vectors[:, : vectors.shape[1] - self.shifts], dim=1)

    def sample_ids(self) -> tuple[Int[Tensor, " anchor"], Int[Tensor, " unlabelled"]]:
        """The samples of the anchors and of the unlabelled, for a correction that needs them.

        Raises:
            ValueError: If they are not known.
        """
        return _known_samples(self.query_samples, self.key_samples)

    def comparisons(self) -> Iterator["Comparison"]:
        """The logits of one block of anchors after the other; each block is small enough to be held in memory."""
        return (self.rows(block).comparison() for block in self.blocks())

    def blocks(self) -> list[slice]:
        """Blocks of anchors, each so small that all of its logits can be held at once."""
        anchors, unlabelled = self.shape
        height = max(1, BLOCK // unlabelled)
        return [slice(start, min(start + height, anchors)) for start in range(0, anchors, height)]

    def rows(self, rows: slice) -> "Pairs":
        """The pairs of these anchors."""
        given = {name: getattr(self, name) for name in PER_ANCHOR}
        changes = {name: value[rows] for name, value in given.items() if value is not None}
        if not self.shared:
            changes["key"] = self.key[rows]
        if self.classes is not None:
            changes["classes"] = self.classes._replace(query=self.classes.query[rows])
        if self.groups is not None:
            changes["groups"] = self.groups.of(rows)
        return replace(self, **changes, symmetric=False, period=0)

    def columns(self, columns: slice) -> "Pairs":
        """The pairs with these unlabelled samples alone. The positives stay, and mates are among them."""
        positive, positive_mask = self.all_positives()
        return replace(
            self,
            key=self.key[..., columns, :],
            positive=positive,
            positive_mask=positive_mask,
            own=None,
            groups=None,
            key_ids=None if self.key_ids is None else self.key_ids[columns],
            key_samples=None if self.key_samples is None else self.key_samples[columns],
            mask=None if self.mask is None else self.mask[:, columns],
            symmetric=False,
            period=0,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """The logits of every anchor with its positives and its unlabelled samples. Corrections weigh these.

    A logit is a similarity divided by the temperature.

    Args:
        positive: Logits of the pairs known to be positive; one or more per anchor.
        unlabelled: Logits of the unlabelled pairs.
        mask: True where an unlabelled sample counts. None: everywhere.
        lowest: The least value that a logit can have: ``-1 / temperature`` for cosines, ``-inf`` for scores without
            bound. The floor depends on it.
        drawn: Number of unlabelled samples before known positives were masked, as the oracle does. The remaining
            samples then represent that many. None: as many as the mask shows.
        positive_mask, temperature, query_samples, key_samples, unit, steepness: See `Pairs`.

    Attributes:
        count: N, the number of unlabelled samples of each anchor.
        visible: The unlabelled logits, -inf where they are masked. Rows without any sample are zero instead, so that
            nothing computed from them is NaN; their `count` is 0.

    Note:
        An anchor whose unlabelled samples are all masked has a negative term of zero, and an InfoNCE loss of zero.
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
    unit: Float[Tensor, ""] | None = None
    steepness: float | Float[Tensor, ""] = 1.0
    count: Float[Tensor, " anchor"] = field(init=False, repr=False)
    visible: Float[Tensor, "anchor unlabelled"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        count = self.unlabelled.new_full((len(self.unlabelled),), self.unlabelled.shape[1])
        visible = self.unlabelled
        if self.mask is not None:
            count = self.mask.sum(dim=1).to(self.unlabelled.dtype)
            visible = visible.masked_fill(~self.mask, -math.inf).masked_fill((count == 0)[:, None], 0.0)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "visible", visible)

    def __repr__(self) -> str:
        return brief_repr(self)

    def sample_ids(self) -> tuple[Int[Tensor, " anchor"], Int[Tensor, " unlabelled"]]:
        """The samples of the anchors and of the unlabelled; see `Pairs.sample_ids`."""
        return _known_samples(self.query_samples, self.key_samples)

    def similarities(self, logits: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The similarities of some of these logits, without gradient: from -1 to 1 for cosines, and with a unit."""
        return logits.detach() * self.temperature if self.unit is None else logits.detach() / self.unit


def _known_samples(
    queries: Int[Tensor, " anchor"] | None, keys: Int[Tensor, " unlabelled"] | None
) -> tuple[Int[Tensor, " anchor"], Int[Tensor, " unlabelled"]]:
    if queries is None or keys is None:
        raise ValueError("this correction remembers samples: expected their ids, got none; pass ids= to the loss")
    return queries.long(), keys.long()  # torch reads small integers as masks, and products of others overflow.


def without_bound(lowest: float | Float[Tensor, ""]) -> bool:
    """Whether this is the lowest value of scores that can be any number. It is a tensor for cosines alone."""
    return isinstance(lowest, float) and lowest == -math.inf
