"""Record what a training does in a step, and repeat its loss alone."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pucl.contrast.loss import outcome_of
from pucl.contrast.pairs import Pairs
from pucl.shapes import Tensor
from pucl.training.framework import Batch
from pucl.training.loop import Training


@dataclass
class Seen:
    """The batch and the comparisons of the last step."""

    batch: Batch[Any] = field(init=False)
    comparisons: list[Pairs] = field(init=False)


def watch(training: Training[Any]) -> Seen:
    """Record every step that the training takes from now on."""
    seen, make_pairs = Seen(), training.framework.pairs

    def pairs(batch: Batch[Any]) -> list[Pairs]:
        seen.batch, seen.comparisons = batch, make_pairs(batch)
        return seen.comparisons

    training.framework.pairs = pairs  # type: ignore[method-assign]
    return seen


def repeat_loss(comparisons: list[Pairs], training: Training[Any]) -> list[Pairs]:
    """Forward and backward of the loss of a step, from embeddings to their gradients.

    Returns:
        The comparisons with embeddings that hold gradients.
    """
    leaves = [with_leaves(pairs) for pairs in comparisons]
    losses = []
    for pairs in leaves:
        correction = training.correction if training.learnt is None else training.learnt.read(pairs)
        outcome = outcome_of(pairs, correction, objective=training.plan.objective, floor=training.plan.floor)
        losses.append(outcome.loss.mean())
    torch.stack(losses).sum().backward()
    return leaves


def with_leaves(pairs: Pairs) -> Pairs:
    """The same pairs, with embeddings that hold gradients of their own."""
    return replace(pairs, query=_leaf(pairs.query), key=_leaf(pairs.key), positive=_leaf(pairs.positive))


def _leaf(tensor: Tensor) -> Tensor:
    """The same numbers, detached from the network; with a gradient of their own if the tensor has one."""
    return tensor.detach().requires_grad_(tensor.requires_grad)
