"""Anchors that share one estimate: the nodes of a graph, or all of a batch."""

from dataclasses import replace

import torch

from pucl.contrast.objectives import Objective, Summary, sum_groups
from pucl.shapes import Float, Int, Tensor


def pool(
    summary: Summary, group: Int[Tensor, " anchor"], objective: Objective
) -> tuple[Summary, Float[Tensor, " group"]]:
    r"""One anchor for each group, whose positives are those of all its members.

    The expectation over true negatives is then taken, and floored, once for a group:

    .. math:: E^-_G[g] = (1 + \omega)\, \mathrm{mean}_{i \in G}\, m_i - \omega\, \mathrm{mean}_{i \in G, j}\, g(p_{ij})

    with :math:`m_i` the average over the unlabelled samples of anchor i. A floor binds later so: members with an
    estimate below it are made up for by others.

    Args:
        summary: Of the single anchors.
        group: The group of each anchor, from 0.
        objective: In whose scale the averages are.

    Returns:
        The summary of the groups, and what their losses are to be multiplied with so that the mean over groups is the
        mean over anchors: a large group counts for more.
    """
    groups = int(group.max()) + 1
    sizes = torch.bincount(group, minlength=groups)
    weight = sizes.to(summary.positive.dtype)
    pooled = replace(
        summary,
        member=group,
        present=sum_groups(summary.positives(), group, groups),
        unlabelled=objective.pool(summary.unlabelled, group, weight),
        count=sum_groups(summary.count, group, groups) / weight.clamp_min(1),
    )
    return pooled, weight * (groups / len(group))
