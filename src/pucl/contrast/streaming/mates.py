"""Sums over the positives that anchors have in known groups, block by block.

A group may hold half of the batch. Then mates are as many as unlabelled samples, and their logits are never held at
once: every sum computes them again, and so does its backward pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from pucl.contrast.averages import MateSums
from pucl.contrast.pairs import Groups, Pairs
from pucl.contrast.streaming.blocks import BlockResults, in_blocks
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Tensor


@dataclass(frozen=True, kw_only=True)
class StreamedMates(MateSums):
    """The mates of all anchors, found again for each sum.

    Args:
        pairs: All pairs.
        groups: Their groups.
        count, highest: See `MateSums`.
    """

    pairs: Pairs
    groups: Groups

    @classmethod
    def of(cls, pairs: Pairs, groups: Groups) -> "StreamedMates":
        """The mates that anchors have in these groups."""

        def count_and_highest(block: Pairs) -> BlockResults:
            logits, present = _logits_of_mates(block, groups)
            count = present.sum(dim=1).to(logits.dtype)
            return (), (count, logits.amax(dim=1))

        with torch.no_grad():
            count, highest = in_blocks(pairs, count_and_highest)
        return cls(pairs=pairs, groups=groups, count=count, highest=highest)

    def sum(self, function: Callable[..., Tensor], *rows: Float[Tensor, " row"]) -> Float[Tensor, " row"]:
        """Sum of function(logit, number of the anchor, ...) over the mates of each anchor."""

        def add_up(block: Pairs, *of_rows: Tensor) -> BlockResults:
            logits, present = _logits_of_mates(block, self.groups)
            values = function(logits, *(each[:, None] for each in of_rows))
            return (values.masked_fill(~present, 0.0).sum(dim=1),), ()

        with full_precision(self.pairs.query.device):
            return in_blocks(self.pairs, add_up, *rows)[0]

    def detach(self) -> "StreamedMates":
        """The same without gradient."""
        vectors = {name: getattr(self.pairs, name).detach() for name in ("query", "key", "positive")}
        return replace(self, pairs=replace(self.pairs, **vectors))


def _logits_of_mates(block: Pairs, groups: Groups) -> tuple[Float[Tensor, "row mate"], Bool[Tensor, "row mate"]]:
    """Logits of the mates of some anchors, and which of them count.

    The others are -inf. An anchor's own logit can be far above those of its mates: exp would overflow, and its gradient
    would be NaN.
    """
    indices, present = block.mates(block.groups or groups)
    return block.logits_at(indices).masked_fill(~present, -torch.inf), present
