"""Who is compared with whom, as vectors: what a comparison is made from, all at once or a part at a time."""

import math
from dataclasses import dataclass, replace

import torch

from pucl.contrast.comparison import Comparison
from pucl.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Anchors and their unlabelled samples before any logit is made.

    Args:
        query: One vector per anchor, scaled so that its inner product with a key is a logit.
        key: The unlabelled vectors, shared by all anchors or given for each.
        positive: Logits of the positives. They are few and always held.
        positive_mask: True where a positive counts.
        query_ids: Pairs with equal ids are left out: an anchor does not meet itself, its own positive, or,
            for the oracle, its own class.
        key_ids: The ids of the other side.
        mask: True where a pair counts.
        symmetric: Queries and keys are the same vectors with the same ids.
        period: With `symmetric`, the ids are 0 to period - 1, again and again: view after view of a batch. Then
            the pairs to be left out are known without comparing ids. 0: not so.
        bound: No logit is larger than this in absolute value; inf if unknown.
        lowest: The least value that a logit can take; see `Comparison`.
        temperature: What similarities were divided by.
        drawn: How many samples the unlabelled ones speak for; see `Comparison`.
        group: Anchors of the same group, numbered from 0, share one estimate over their negatives; see `grouping.pool`.
    """

    query: Float[Tensor, "anchor dim"]
    key: Float[Tensor, "unlabelled dim"] | Float[Tensor, "anchor unlabelled dim"]
    positive: Float[Tensor, "anchor positive"]
    positive_mask: Bool[Tensor, "anchor positive"] | None = None
    query_ids: Int[Tensor, " anchor"] | None = None
    key_ids: Int[Tensor, " unlabelled"] | None = None
    mask: Bool[Tensor, "anchor unlabelled"] | None = None
    symmetric: bool = False
    period: int = 0
    bound: float = math.inf
    lowest: float | Float[Tensor, ""] = -math.inf
    temperature: float | Float[Tensor, ""] = 1.0
    drawn: Float[Tensor, " anchor"] | None = None
    group: Int[Tensor, " anchor"] | None = None

    @property
    def shared(self) -> bool:
        """Whether all anchors have the same unlabelled samples."""
        return self.key.ndim == 2

    @property
    def shape(self) -> tuple[int, int]:
        """Anchors and unlabelled samples: the size of the matrix of logits, if it were held."""
        return len(self.query), self.key.shape[-2]

    def comparison(self) -> Comparison:
        """All logits at once."""
        unlabelled = self.query @ self.key.T if self.shared else torch.einsum("ad,aud->au", self.query, self.key)
        return Comparison(
            positive=self.positive,
            unlabelled=unlabelled,
            mask=self.counting(),
            positive_mask=self.positive_mask,
            lowest=self.lowest,
            temperature=self.temperature,
            drawn=self.drawn,
        )

    def rows(self, rows: slice) -> "Pairs":
        """These anchors alone."""
        return replace(
            self,
            query=self.query[rows],
            key=self.key if self.shared else self.key[rows],
            positive=self.positive[rows],
            positive_mask=None if self.positive_mask is None else self.positive_mask[rows],
            query_ids=None if self.query_ids is None else self.query_ids[rows],
            mask=None if self.mask is None else self.mask[rows],
            drawn=None if self.drawn is None else self.drawn[rows],
            group=None if self.group is None else self.group[rows],
            symmetric=False,
            period=0,
        )

    def counting(self) -> Bool[Tensor, "anchor unlabelled"] | None:
        """Which pairs count; None if all do."""
        if self.query_ids is None or self.key_ids is None:
            return self.mask
        different = self.query_ids[:, None] != self.key_ids[None, :]
        return different if self.mask is None else different & self.mask
