"""Averages of any correction, a block of rows at a time: Ring's ranks, or a set of samples for each anchor."""

from dataclasses import replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pucl.contrast.correction import Correction
from pucl.contrast.objectives import Objective, summarise
from pucl.contrast.pairs import Pairs
from pucl.precision import full_precision
from pucl.shapes import Float, Tensor

BLOCK = 1 << 21  # Logits in a block of rows: 8 MiB of float32.


def average(
    pairs: Pairs, correction: Correction, objective: Objective
) -> tuple[Float[Tensor, " anchor"], Float[Tensor, " anchor"], Float[Tensor, ""]]:
    """The averages, the N of the loss for each anchor, and the mean similarity. Blocks are made again to go back."""
    # The averages of any correction are too varied to be one operator: a compiled step is interrupted here.
    apply = torch.compiler.disable(_RowAverages.apply)
    averages, count, similarity = apply(pairs.query, pairs.key, pairs, correction, objective)
    return averages, count, similarity


class _RowAverages(torch.autograd.Function):
    """Averages over the unlabelled, by blocks of rows.

    Nothing allocated for a block outlives it, apart from what was set aside before the first: otherwise the
    allocator of the C library would find no room between the remains and ask for ever more.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, pairs: Pairs, correction: Correction, objective: Objective
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(query, key)
        ctx.settings = pairs, correction, objective
        average, count, met = query.new_empty(len(query)), query.new_empty(len(query)), query.new_zeros(2)
        for rows in _blocks(pairs):
            comparison = pairs.rows(rows).comparison()
            summary = summarise(comparison, correction, objective)
            average[rows], count[rows] = summary.unlabelled, summary.count
            samples = comparison.count.sum()
            met += torch.stack([samples, summary.unlabelled_similarity * samples])
        similarity = met[1] / met[0].clamp_min(1)
        ctx.mark_non_differentiable(count, similarity)
        return average, count, similarity

    @staticmethod
    @once_differentiable  # A second derivative would miss what happens inside: better none.
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (query, key), (pairs, correction, objective) = ctx.saved_tensors, ctx.settings
        of_query, of_key = ctx.needs_input_grad[:2]
        query_gradient, key_gradient = torch.zeros_like(query), torch.zeros_like(key)
        for rows in _blocks(pairs):
            block = pairs.rows(rows)
            leaves = block.query.detach().requires_grad_(), block.key.detach().requires_grad_()
            with torch.enable_grad(), full_precision(query.device):
                comparison = replace(block, query=leaves[0], key=leaves[1]).comparison()
                average = summarise(comparison, correction, objective).unlabelled
            of_block = torch.autograd.grad(average, leaves, gradients[0][rows])
            query_gradient[rows] = of_block[0]
            (key_gradient if pairs.shared else key_gradient[rows]).add_(of_block[1])
        return query_gradient if of_query else None, key_gradient if of_key else None, None, None, None


def _blocks(pairs: Pairs) -> list[slice]:
    anchors, unlabelled = pairs.shape
    height = max(1, BLOCK // unlabelled)
    return [slice(start, min(start + height, anchors)) for start in range(0, anchors, height)]
