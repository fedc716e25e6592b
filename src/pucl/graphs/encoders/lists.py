"""Lists of nodes in one tensor, and sums over each list."""

from typing import NamedTuple

import torch

from pucl.shapes import Float, Int, Tensor


class Lists(NamedTuple):
    """A list of nodes for each node or graph i: ``members[starts[i]:starts[i + 1]]``.

    Args:
        members: The lists one after the other.
        starts: The start of each list, and the end of the last one.
        copies: How often each member counts; None: once.
    """

    members: Int[Tensor, " member"]
    starts: Int[Tensor, " start"]
    copies: Float[Tensor, " member"] | None = None

    def sums(self, x: Float[Tensor, "node dim"]) -> Float[Tensor, "list dim"]:
        """The sum over each list.

        embedding_bag is the fastest of torch's sums over lists: for 63,000 nodes of 32 numbers and 152,000 edges it
        takes 1.7 ms, a sparse matrix 5.3 ms and index_add 18 ms.
        """
        copies = None if self.copies is None else self.copies.to(x.dtype)
        sums: Tensor
        # torch.nn.functional.embedding_bag calls this too, after checks that take a small batch as long as the sum.
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
    """The list of each owner from 0 to ``count - 1``, in the order of the members. None: members are their indices."""
    order = owner.argsort(stable=True)
    starts = torch.zeros(count + 1, dtype=torch.int64, device=owner.device)
    torch.cumsum(torch.bincount(owner, minlength=count), 0, out=starts[1:])
    return Lists(order if members is None else members[order], starts, None if copies is None else copies[order])
