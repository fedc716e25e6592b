"""Averages of any correction, a block of rows at a time: weights of any form, or a set of samples for each anchor."""

from dataclasses import replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pucl.contrast.correction import Correction
from pucl.contrast.objectives import Objective, summarise
from pucl.contrast.pairs import Pairs
from pucl.contrast.summary import Summary
from pucl.precision import full_precision
from pucl.shapes import Float, Tensor


def average(
    pairs: Pairs, correction: Correction, objective: Objective
) -> tuple[
    Float[Tensor, " anchor"],
    Float[Tensor, " anchor"],
    Float[Tensor, ""],
    Float[Tensor, "anchor extra"],
    Float[Tensor, "anchor extra"],
]:
    """The averages, the N of the loss for each anchor, the mean similarity, logits and weights of extra positives.

    Blocks are computed again in the backward pass.
    """
    # The averages of any correction are too varied to be one operator: a compiled step is interrupted here.
    apply = torch.compiler.disable(_RowAverages.apply)
    averages, count, similarity, extra, extra_weight = apply(pairs.query, pairs.key, pairs, correction, objective)
    return averages, count, similarity, extra, extra_weight


class _RowAverages(torch.autograd.Function):
    """Averages over the unlabelled, by blocks of rows.

    Nothing allocated for a block outlives it, apart from what was set aside before the first: otherwise the
    allocator of the C library would find no room between the remains and ask for ever more.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, pairs: Pairs, correction: Correction, objective: Objective
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        ctx.save_for_backward(query, key)
        ctx.settings = pairs, correction, objective
        average, count, met = query.new_empty(len(query)), query.new_empty(len(query)), query.new_zeros(2)
        extra = extra_weight = query.new_empty(len(query), 0)
        for rows in pairs.blocks():
            comparison = pairs.rows(rows).comparison()
            summary = summarise(comparison, correction, objective)
            average[rows], count[rows] = summary.unlabelled, summary.count
            more, more_weight = _extra(summary, comparison.positive.shape[1])
            if more_weight is not None:
                if rows.start == 0:
                    extra, extra_weight = (query.new_empty(len(query), more.shape[1]) for _ in range(2))
                extra[rows], extra_weight[rows] = more, more_weight
            samples = comparison.count.sum()
            met += torch.stack([samples, summary.unlabelled_similarity * samples])
        similarity = met[1] / met[0].clamp_min(1)
        ctx.mark_non_differentiable(count, similarity, extra_weight)
        return average, count, similarity, extra, extra_weight

    @staticmethod
    @once_differentiable  # A second derivative would miss what happens inside: better none.
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (query, key), (pairs, correction, objective) = ctx.saved_tensors, ctx.settings
        of_query, of_key = ctx.needs_input_grad[:2]
        query_gradient, key_gradient = torch.zeros_like(query), torch.zeros_like(key)
        for rows in pairs.blocks():
            block = pairs.rows(rows)
            leaves = block.query.detach().requires_grad_(), block.key.detach().requires_grad_()
            with torch.enable_grad(), full_precision(query.device):
                comparison = replace(block, query=leaves[0], key=leaves[1]).comparison()
                summary = summarise(comparison, correction, objective)
                extra, extra_weight = _extra(summary, comparison.positive.shape[1])
            outputs, of_outputs = [summary.unlabelled], [gradients[0][rows]]
            if extra_weight is not None:
                outputs, of_outputs = [*outputs, extra], [*of_outputs, gradients[3][rows]]
            of_block = torch.autograd.grad(outputs, leaves, of_outputs)
            query_gradient[rows] = of_block[0]
            (key_gradient if pairs.shared else key_gradient[rows]).add_(of_block[1])
        return query_gradient if of_query else None, key_gradient if of_key else None, None, None, None


def _extra(summary: Summary, given: int) -> tuple[Tensor, Tensor | None]:
    """Logits and weights of the positives behind the given ones; no weights if there are none."""
    if summary.positive_weight is None or summary.positive.shape[1] == given:
        return summary.positive[:, given:], None
    return summary.positive[:, given:], summary.positive_weight[:, given:]
