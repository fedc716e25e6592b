"""Anchors that share one estimate: the nodes of a graph, or all of a batch."""

from dataclasses import replace

import torch

from pucl.contrast.objectives import Objective, Summary
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
    order = group.argsort(stable=True)
    starts = sizes.cumsum(0) - sizes
    place = torch.empty_like(group)
    place[order] = torch.arange(len(group), device=group.device) - starts[group[order]]
    longest, several = int(sizes.max()), summary.positive.shape[1]
    shape = (groups, longest, several)
    positive = summary.positive.new_zeros(shape).index_put((group, place), summary.positive)
    given = summary.positive_mask
    present = torch.ones_like(summary.positive, dtype=torch.bool) if given is None else given
    mask = torch.zeros(shape, dtype=torch.bool, device=group.device).index_put((group, place), present)
    weight = sizes.to(positive.dtype)
    pooled = replace(
        summary,
        positive=positive.flatten(1),
        positive_mask=mask.flatten(1),
        unlabelled=objective.pool(summary.unlabelled, group, weight),
        count=summary.count.new_zeros(groups).index_add(0, group, summary.count) / weight.clamp_min(1),
    )
    return pooled, weight * (groups / len(group))
