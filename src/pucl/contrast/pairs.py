"""Who is compared with whom, as vectors: what a comparison is made from, all at once or a part at a time."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pucl.contrast.brief import brief_repr
from pucl.contrast.comparison import Comparison
from pucl.shapes import Bool, Float, Int, Tensor

BLOCK = 1 << 21  # Logits in a block of rows: 8 MiB of float32.


@dataclass(frozen=True, kw_only=True, repr=False)
class Pairs:
    """Anchors and their unlabelled samples before any logit is made.

    Args:
        query: One vector per anchor, scaled so that its inner product with a key is a logit.
        key: The unlabelled vectors, shared by all anchors or given for each.
        positive: Logits of the positives. They are few and always held.
        own: The number of the key that is each anchor's positive, where it is one of the keys; `positive` then has no
            columns, and `positives` makes it. Streams find it among the logits that they make anyway.
        positive_mask: True where a positive counts.
        query_ids: Pairs with equal ids are left out: an anchor does not meet itself, its own positive, or,
            for the oracle, its own class.
        key_ids: The ids of the other side.
        query_samples: Which sample of the data each anchor is of, for corrections that remember samples. Unlike
            `query_ids` it leaves no pair out. None if nobody said.
        key_samples: The same of each unlabelled sample; -1 where it is not known.
        mask: True where a pair counts.
        symmetric: Queries and keys are the same vectors with the same ids.
        period: With `symmetric`, the ids are 0 to period - 1, again and again: view after view of a batch. Then
            the pairs to be left out are known without comparing ids. 0: not so.
        bound: No logit is larger than this in absolute value; inf if unknown.
        lowest: The least value that a logit can take; see `Comparison`.
        temperature: What similarities were divided by.
        drawn: How many samples the unlabelled ones speak for; see `Comparison`.
        group: Anchors of the same group, numbered from 0, share one estimate over their negatives; see `grouping.pool`.
        copies: How many equal anchors each one stands for; None for one. In losses it counts as so many; similarities
            are reported as of one.
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

    def __repr__(self) -> str:
        return brief_repr(self)

    @property
    def shared(self) -> bool:
        """Whether all anchors have the same unlabelled samples."""
        return self.key.ndim == 2

    @property
    def shape(self) -> tuple[int, int]:
        """Anchors and unlabelled samples: the size of the matrix of logits, if it were held."""
        return len(self.query), self.key.shape[-2]

    def positives(self) -> Float[Tensor, "anchor positive"]:
        """Logits of the positives, whether they are given or keys."""
        if self.own is None:
            return self.positive
        if self.query.device.type != "cpu" or torch.compiler.is_compiling():
            return (self.query * self.key[self.own]).sum(dim=1, keepdim=True)
        scores: Tensor = _OwnScores.apply(self.query, self.key, self.own)  # type: ignore[no-untyped-call]
        return scores

    def comparison(self) -> Comparison:
        """All logits at once."""
        unlabelled = self.query @ self.key.T if self.shared else torch.einsum("ad,aud->au", self.query, self.key)
        return Comparison(
            positive=self.positive if self.own is None else unlabelled.gather(1, self.own[:, None]),
            unlabelled=unlabelled,
            mask=self.counting(),
            positive_mask=self.positive_mask,
            lowest=self.lowest,
            temperature=self.temperature,
            drawn=self.drawn,
            query_samples=self.query_samples,
            key_samples=self.key_samples,
        )

    def sample_ids(self) -> tuple[Int[Tensor, " anchor"], Int[Tensor, " unlabelled"]]:
        """Which samples the anchors and the unlabelled are, for a correction that cannot do without.

        Raises:
            ValueError: If nobody said.
        """
        if self.query_samples is None or self.key_samples is None:
            raise ValueError("this correction remembers samples: expected their ids, got none; pass ids= to the loss")
        return self.query_samples, self.key_samples

    def blocks(self) -> list[slice]:
        """Blocks of anchors, each so small that all of its logits can be held at once; see `rows`."""
        anchors, unlabelled = self.shape
        height = max(1, BLOCK // unlabelled)
        return [slice(start, min(start + height, anchors)) for start in range(0, anchors, height)]

    def rows(self, rows: slice) -> "Pairs":
        """These anchors alone."""
        return replace(
            self,
            query=self.query[rows],
            key=self.key if self.shared else self.key[rows],
            positive=self.positive[rows],
            own=None if self.own is None else self.own[rows],
            positive_mask=None if self.positive_mask is None else self.positive_mask[rows],
            query_ids=None if self.query_ids is None else self.query_ids[rows],
            query_samples=None if self.query_samples is None else self.query_samples[rows],
            mask=None if self.mask is None else self.mask[rows],
            drawn=None if self.drawn is None else self.drawn[rows],
            group=None if self.group is None else self.group[rows],
            copies=None if self.copies is None else self.copies[rows],
            symmetric=False,
            period=0,
        )

    def counting(self) -> Bool[Tensor, "anchor unlabelled"] | None:
        """Which pairs count; None if all do."""
        if self.query_ids is None or self.key_ids is None:
            return self.mask
        different = self.query_ids[:, None] != self.key_ids[None, :]
        return different if self.mask is None else different & self.mask


class _OwnScores(torch.autograd.Function):
    """Inner products of anchors and keys, without a copy of its key for each anchor but for a block of them."""

    BLOCK = 1 << 16

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, own: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, own)
        scores = query.new_empty(len(query), 1)
        for rows in _OwnScores._blocks(query):
            torch.sum(key.index_select(0, own[rows]).mul_(query[rows]), 1, keepdim=True, out=scores[rows])
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        query, key, own = ctx.saved_tensors
        of_query, of_key = torch.empty_like(query), torch.zeros_like(key)
        for rows in _OwnScores._blocks(query):
            torch.mul(key.index_select(0, own[rows]), gradients[0][rows], out=of_query[rows])
            of_key.index_add_(0, own[rows], query[rows] * gradients[0][rows])
        return of_query, of_key, None

    @staticmethod
    def _blocks(query: Tensor) -> list[slice]:
        height = max(1, _OwnScores.BLOCK // query.shape[1])
        return [slice(start, start + height) for start in range(0, len(query), height)]
