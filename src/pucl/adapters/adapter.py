"""The base class of the adapters."""

from torch import nn

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

    @property
    def last(self) -> Outcome | None:
        """The outcome of the last call: share of floored anchors, tau', mean similarities; None before the first."""
        return self.loss.last
