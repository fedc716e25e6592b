"""The number of keys of each query, and the sum of all logits, without a pass over the tiles."""

from typing import Any

import torch

from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import tiles
from pucl.shapes import Float, Tensor


def pair_counts(pairs: Pairs) -> Float[Tensor, " anchor"]:
    """The number of unlabelled samples of each anchor."""
    if pairs.mask is None and pairs.shared:
        count: Tensor
        query, key = pairs.query.detach()[:, :0], pairs.key.detach()[:, :0]  # The logits are not needed.
        count, _ = pair_totals(query, key, pairs.query_ids, pairs.key_ids, None, pairs.period)
        return count
    counting = pairs.counting()
    if counting is None:
        return pairs.query.new_full((len(pairs.query),), pairs.shape[1])
    return counting.sum(dim=1).to(pairs.query.dtype)


@torch.library.custom_op("pucl::pair_totals", mutates_args=())
def pair_totals(
    query: Tensor,
    key: Tensor,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    mask: Tensor | None,
    period: int,
) -> tuple[Tensor, Tensor]:
    """The number of keys of each query that count, and the sum of all their logits."""
    if mask is not None:
        blocks = [slice(start, start + tiles.TILE) for start in range(0, len(query), tiles.TILE)]
        weight = [(mask[rows].to(key.dtype) @ key * query[rows]).sum() for rows in blocks]
        return mask.sum(dim=1).to(query.dtype), torch.stack(weight).sum()
    count = query.new_full((len(query),), len(key))
    total = query.sum(dim=0) @ key.sum(dim=0)
    if query_ids is None or key_ids is None:
        return count, total
    if period:
        views = [side.view(len(side) // period, period, side.shape[1]).sum(dim=0) for side in (query, key)]
        return count - len(key) // period, total - (views[0] * views[1]).sum()
    ids, group = torch.unique(key_ids, return_inverse=True)
    keys_of = torch.bincount(group, minlength=len(ids)).to(query.dtype)
    sum_of = key.new_zeros(len(ids), key.shape[1]).index_add_(0, group, key)
    index = torch.searchsorted(ids, query_ids).clamp_max(len(ids) - 1)
    known = ids[index] == query_ids
    # Queries are summed by id too. Those whose id no key has go into one extra entry.
    queries_of = query.new_zeros(len(ids) + 1, query.shape[1])
    queries_of.index_add_(0, torch.where(known, index, len(ids)), query)
    return count - known.to(query.dtype) * keys_of[index], total - (queries_of[:-1] * sum_of).sum()


@pair_totals.register_fake
def _(query: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return query.new_empty(len(query)), query.new_empty(())
