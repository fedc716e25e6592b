"""Averages of any correction, block by block: weights of any form, or a set of samples for each anchor."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pucl.contrast.averages import Averages
from pucl.contrast.correction import Correction
from pucl.contrast.objective import Objective, average_unlabelled
from pucl.contrast.pairs import Pairs
from pucl.precision import full_precision
from pucl.shapes import Float, Tensor

BlockResults = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]
"""Tensors with one row per anchor: those with a gradient, and those without."""


def average(pairs: Pairs, correction: Correction, objective: Objective) -> Averages:
    """The averages of all anchors. Mates are left to `streaming.mates`."""
    pairs = replace(pairs, groups=None)

    def average_block(block: Pairs) -> BlockResults:
        comparison = block.comparison()
        averages = average_unlabelled(comparison, correction, objective)
        weight = () if averages.positive_weight is None else (averages.positive_weight,)
        similarity = averages.unlabelled_similarity.expand_as(comparison.count)
        return (averages.unlabelled, averages.positive), (averages.count, similarity, comparison.count, *weight)

    average, positive, count, similarity, met, *weight = in_blocks(pairs, average_block)
    return Averages(
        positive=positive,
        positive_weight=weight[0] if weight else None,
        unlabelled=average,
        count=count,
        lowest=pairs.lowest,
        temperature=pairs.temperature,
        unlabelled_similarity=(similarity * met).sum() / met.sum().clamp_min(1),
    )


def in_blocks(
    pairs: Pairs, compute: Callable[..., BlockResults], *rows: Float[Tensor, " anchor"]
) -> tuple[Tensor, ...]:
    """The results of all anchors, one block after the other. The backward pass computes each block again.

    Args:
        pairs: The pairs of all anchors.
        compute: Returns the results of a block, from its pairs and its part of each of the `rows`.
        rows: More numbers of each anchor. They may need a gradient.
    """
    # Any correction can run here, so this is no operator: compiled code is interrupted. Without compilation the
    # compiler is not imported, which takes a second.
    apply = torch.compiler.disable(_InBlocks.apply) if torch.compiler.is_compiling() else _InBlocks.apply
    results: tuple[Tensor, ...] = apply(pairs, compute, pairs.query, pairs.key, pairs.positive, *rows)
    return results


class _InBlocks(torch.autograd.Function):
    """See `in_blocks`.

    The results of all blocks share a few tensors. Otherwise results between the blocks' temporary memory would fragment
    it, and the process would grow.
    """

    @staticmethod
    def forward(
        ctx: Any,
        pairs: Pairs,
        compute: Callable[..., BlockResults],
        query: Tensor,
        key: Tensor,
        positive: Tensor,
        *numbers: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(query, key, positive, *numbers)
        ctx.settings = pairs, compute
        results: list[Tensor] = []
        for rows in pairs.blocks():
            with_gradient, without = compute(pairs.rows(rows), *(each[rows] for each in numbers))
            of_block = (*with_gradient, *without)
            results = results or [each.new_empty(len(query), *each.shape[1:]) for each in of_block]
            for result, each in zip(results, of_block, strict=True):
                result[rows] = each
        ctx.mark_non_differentiable(*results[len(with_gradient) :])
        return tuple(results)

    @staticmethod
    @once_differentiable  # A second derivative would be wrong without an error.
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (query, _, _, *numbers), (pairs, compute) = ctx.saved_tensors, ctx.settings
        of_query, of_key, of_positive, *of_numbers = (torch.zeros_like(each) for each in ctx.saved_tensors)
        for rows in pairs.blocks():
            block = pairs.rows(rows)
            given = block.query, block.key, block.positive, *(each[rows] for each in numbers)
            leaves = [each.detach().requires_grad_() for each in given]
            with torch.enable_grad(), full_precision(query.device):
                block = replace(block, query=leaves[0], key=leaves[1], positive=leaves[2])
                results, _ = compute(block, *leaves[3:])
            outer = [gradient[rows] for gradient in gradients[: len(results)]]
            parts = torch.autograd.grad(results, leaves, outer, allow_unused=True, materialize_grads=True)
            (of_key if pairs.shared else of_key[rows]).add_(parts[1])
            for whole, part in zip((of_query, of_positive, *of_numbers), (parts[0], *parts[2:]), strict=True):
                whole[rows] = part
        needed = zip(ctx.needs_input_grad[2:], (of_query, of_key, of_positive, *of_numbers), strict=True)
        return None, None, *(gradient if wanted else None for wanted, gradient in needed)
