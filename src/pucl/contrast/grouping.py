"""Anchors that share one estimate: the nodes of a graph, or all of a batch."""

from dataclasses import replace

import torch

from pucl.contrast.summary import Summary, sum_groups, times
from pucl.shapes import Float, Int, Tensor


def pool(
    summary: Summary,
    group: Int[Tensor, " anchor"],
    copies: Float[Tensor, " anchor"] | None = None,
) -> tuple[Summary, Float[Tensor, " group"]]:
    r"""One anchor for each group, whose positives are those of all its members.

    The expectation over true negatives is then taken, and floored, once for a group:

    .. math:: E^-_G[g] = (1 + \omega)\, \mathrm{mean}_{i \in G}\, m_i - \omega\, \mathrm{mean}_{i \in G, j}\, g(p_{ij})

    with :math:`m_i` the average over the unlabelled samples of anchor i. A floor binds later so: members with an
    estimate below it are made up for by others.

    Args:
        summary: Of the single anchors.
        group: The group of each anchor, from 0.
        copies: How many equal anchors each one stands for; None for one.

    Returns:
        The summary of the groups, and what their losses are to be multiplied with so that the mean over groups is the
        mean over anchors: a large group counts for more.
    """
    groups = int(group.max()) + 1
    copies = None if copies is None else copies.to(summary.positive.dtype)
    here = torch.ones_like(summary.count) if copies is None else copies
    sizes, count = sum_groups(torch.stack([here, here * summary.count], dim=1), group, groups).unbind(1)
    present = None
    if summary.positive_weight is not None:
        present = sum_groups(times(summary.positives(), copies), group, groups)
    elif torch.compiler.is_compiling() or not sizes.all():  # Compiled, it must not depend on the numbers.
        present = sizes * summary.positive.shape[1]
    pooled = replace(
        summary, member=group, copies=copies, sizes=sizes, present=present, count=count / sizes.clamp_min(1)
    )
    return pooled, sizes * (groups / sizes.sum())
