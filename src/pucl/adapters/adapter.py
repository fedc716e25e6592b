"""The base class of the adapters."""

import torch
from torch import nn

from pucl.contrast.correction import StateReport
from pucl.contrast.loss import Outcome
from pucl.losses import ContrastiveLoss


class Adapter(nn.Module):
    """A loss of pucl behind another call.

    Args:
        loss: Any loss of pucl without a memory bank, except the oracle.
    """

    loss: ContrastiveLoss

    def __init__(self, loss: ContrastiveLoss) -> None:
        super().__init__()
        if loss.queue is not None:
            raise ValueError(
                "the other samples of the batch are unlabelled here: expected a loss without a memory bank, got one "
                "with memory_bank_size"
            )
        if "labels" in loss.accepts:
            raise ValueError(
                "the oracle needs class labels, which this call does not take: expected a loss without labels"
            )
        self.loss = loss

    def end_epoch(self) -> StateReport | None:
        """Mark the end of an epoch, for a loss that learns; see `pucl.ContrastiveLoss.end_epoch`."""
        return self.loss.end_epoch()

    @property
    def last(self) -> Outcome | None:
        """The outcome of the last call: share of floored anchors, tau', mean similarities; None before the first."""
        return self.loss.last


def joined(outcomes: list[Outcome]) -> Outcome:
    """The anchors of all directions together. Each direction has as many."""
    count = len(outcomes)
    return Outcome(
        loss=torch.cat([outcome.loss for outcome in outcomes]),
        floored=sum((outcome.floored for outcome in outcomes[1:]), outcomes[0].floored) / count,
        tau_plus=sum((outcome.tau_plus for outcome in outcomes[1:]), outcomes[0].tau_plus) / count,
        positive_similarity=torch.stack([outcome.positive_similarity for outcome in outcomes]).mean(),
        unlabelled_similarity=torch.stack([outcome.unlabelled_similarity for outcome in outcomes]).mean(),
        floor=outcomes[0].floor,
    )


def check_rows_are_not_remembered(loss: ContrastiveLoss, advice: str) -> None:
    """Raise for a loss that would name samples by their rows: some calls compare rows of several kinds."""
    if loss.learnt is not None and loss.learnt.name_samples(1) is not None:
        raise ValueError(f"{type(loss).__name__} remembers samples, and rows do not name them here: {advice}")
