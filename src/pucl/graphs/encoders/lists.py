"""Lists of nodes, all in one tensor, and the sum over each of them."""

from typing import NamedTuple

import torch

from pucl.shapes import Float, Int, Tensor


class Lists(NamedTuple):
    """A list of nodes for each node or graph i: ``members[starts[i]:starts[i + 1]]``.

    Args:
        members: One list after the other.
        starts: Where each begins, and the end of the last.
        copies: How often each member counts; None for once.
    """

    members: Int[Tensor, " member"]
    starts: Int[Tensor, " start"]
    copies: Float[Tensor, " member"] | None = None

    def to(self, device: torch.device | str) -> "Lists":
        """The same on another device."""
        copies = None if self.copies is None else self.copies.to(device)
        return Lists(self.members.to(device), self.starts.to(device), copies)

    def sums(self, x: Float[Tensor, "node dim"]) -> Float[Tensor, "list dim"]:
        """The sum over each list.

        A bag of embeddings is the quickest of torch's sums over lists: on 63,000 nodes of 32 numbers with 152,000 edges
        1.7 ms, where a sparse matrix takes 5.3 and index_add 18.
        """
        copies = None if self.copies is None else self.copies.to(x.dtype)
        sums: Tensor
        # Not the one of torch.nn.functional, which is this after tests that cost a small batch as much as the sum.
        sums, *_ = torch.embedding_bag(
            x, self.members, self.starts, mode=0, per_sample_weights=copies, include_last_offset=True
        )
        return sums


def lists_of(
    owner: Int[Tensor, " member"],
    members: Int[Tensor, " member"] | None,
    count: int,
    copies: Float[Tensor, " member"] | None = None,
) -> Lists:
    """The members of each owner from 0 to ``count - 1``, in the order in which they come; by default their places."""
    order = owner.argsort(stable=True)
    starts = torch.zeros(count + 1, dtype=torch.int64, device=owner.device)
    torch.cumsum(torch.bincount(owner, minlength=count), 0, out=starts[1:])
    return Lists(order if members is None else members[order], starts, None if copies is None else copies[order])
