"""Pairs, losses and states of a batch that is spread over processes, as if one process held it."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from pucl import processes
from pucl.contrast.correction import CorrectionState, StateReport
from pucl.contrast.loss import Outcome, Reduction, reduce
from pucl.contrast.pairing import (
    GROUPS_MEAN,
    Others,
    Temperature,
    check_ids,
    check_temperature,
    pair_views,
    stack_views,
)
from pucl.contrast.pairs import Pairs
from pucl.precision import full_precision
from pucl.shapes import Float, Int, Tensor


def pair_views_together(
    views: Sequence[Float[Tensor, "batch dim"]],
    *,
    temperature: Temperature,
    ids: Int[Tensor, " batch"] | None = None,
    samples: Int[Tensor, " batch"] | None = None,
    groups: Int[Tensor, " batch"] | None = None,
) -> Pairs:
    """The views of this process as anchors, against all views of all processes; see `pair_views`."""
    check_temperature(temperature)
    stacked = stack_views(views)
    count, batch, dim = stacked.shape
    check_ids("ids", ids, batch, stacked.device)
    check_ids("samples", samples, batch, stacked.device)
    check_ids("groups", groups, batch, stacked.device, GROUPS_MEAN)
    sizes = processes.gather_sizes(
        batch,
        stacked.device,
        alike={
            "the dimension of embeddings": dim,
            "the number of views": count,
            "the size of a number in bytes": stacked.element_size(),
            "whether ids are given": int(ids is not None),
            "whether samples are named": int(samples is not None),
            "whether groups are given": int(groups is not None),
            "whether a gradient is needed": int(stacked.requires_grad and torch.is_grad_enabled()),
        },
    )
    if sum(sizes) < 2:
        raise ValueError("an anchor is compared with the samples of all processes: expected at least 2, got 1")
    samples = ids if samples is None else samples
    if ids is None:
        ids = torch.arange(batch, device=stacked.device) + sum(sizes[: processes.rank()])
    rows = processes.gather(stacked.transpose(0, 1).reshape(batch, count * dim), sizes)
    keys = rows.view(-1, count, dim).transpose(0, 1).reshape(-1, dim)
    ids = ids.to(torch.int64)
    names = torch.stack([each.to(torch.int64) for each in (ids, samples, groups) if each is not None], dim=1)
    key_names = processes.gather(names, sizes).repeat(count, 1)
    others = Others(
        keys,
        key_ids=key_names[:, 0],
        key_samples=None if samples is None else key_names[:, 1],
        key_groups=None if groups is None else key_names[:, -1],
    )
    return pair_views(
        list(stacked),
        temperature=temperature,
        ids=ids,
        samples=samples,
        groups=groups,
        others=others,
        normalize=False,
    )


@torch.no_grad()
def learn(state: CorrectionState, pairs_of_step: Sequence[Pairs], *, together: bool) -> None:
    """Let the state of a correction learn from the pairs of one step; see `CorrectionState`.

    With `together`, it learns from the pairs of all processes, so that the state stays the same in all of them. It
    learns nothing from anchors with NaN or infinity, which a gradient scaler skips: they would stay for ever.
    """
    with full_precision(pairs_of_step[0].query.device):
        seen = torch.cat([state.see(pairs) for pairs in pairs_of_step])
    samples = [pairs.query_samples for pairs in pairs_of_step if pairs.query_samples is not None]
    ids = torch.cat(samples).to(torch.int64) if len(samples) == len(pairs_of_step) else None
    if together:
        alike = {
            "the number of columns that a state sees": seen.shape[1],
            "whether ids are given": int(ids is not None),
        }
        sizes = processes.gather_sizes(len(seen), seen.device, alike=alike)
        seen, ids = processes.gather(seen, sizes), None if ids is None else processes.gather(ids, sizes)
    finite = seen.isfinite().all(dim=1)
    if not bool(finite.all()):
        seen, ids = seen[finite], None if ids is None else ids[finite]
    state.commit(ids, seen)


@torch.no_grad()
def end_epoch(state: CorrectionState, *, together: bool) -> StateReport:
    """Let the state of a correction end its epoch, and return its report.

    With `together`, the buffers of the first process are copied to the others.
    """
    state.end_epoch()
    if together:
        processes.copy_from_first(state.buffers())
    return state.report()


def settle_together(outcome: Outcome, reduction: Reduction) -> tuple[Float[Tensor, "*reduced"], Outcome]:
    """The loss and the outcome of the whole batch.

    The average of the loss's gradients over the processes is the gradient of the whole batch's loss. With
    ``reduction="none"`` the losses of this process's anchors are returned unchanged: the sum of their gradients over
    the processes is that of the whole batch.
    """
    loss, anchors = reduce(outcome.loss, reduction), len(outcome.loss)
    shares = [outcome.tau_plus] if isinstance(outcome.tau_plus, Tensor) else []  # A mean over anchors, or one for all.
    means = torch.stack(
        [
            outcome.loss.detach().mean(),
            outcome.floored,
            outcome.positive_similarity,
            outcome.unlabelled_similarity,
            *shares,
        ]
    )
    *sums, total = processes.sum_over_processes(torch.cat([means, means.new_ones(1)]) * anchors)
    if reduction != "none":
        whole = sums[0] if reduction == "sum" else sums[0] / total
        share = 1.0 if reduction == "sum" else anchors / total
        own = loss * share * processes.world_size()
        loss = whole + (own - own.detach())  # The same bits in every process, so that all take the same decisions.
    floored, positive, unlabelled, *tau_plus = (value / total for value in sums[1:])
    return loss, replace(
        outcome,
        floored=floored,
        tau_plus=tau_plus[0] if tau_plus else outcome.tau_plus,
        positive_similarity=positive,
        unlabelled_similarity=unlabelled,
    )
