"""The loss with a learnt threshold for each sample."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import GloFND
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class GloFNDLoss(ContrastiveLoss):
    """Contrastive loss that leaves out samples above a learnt threshold (GloFND); see `pucl.corrections.GloFND`.

    Pass ``ids`` in each call, and call ``loss.end_epoch()`` after each epoch.

    Args:
        samples: Number of samples in the data; ids are 0 to samples - 1.
        dropped: Share of an anchor's samples to leave out, 0 <= dropped < 1.
        threshold_rate: Learning rate of the thresholds, > 0.
        wait: Epochs in which nothing is left out, >= 0.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.

    Example:
        >>> import torch
        >>> loss = GloFNDLoss(1000, dropped=0.1)
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16), ids=torch.arange(8))
    """

    def __init__(
        self,
        samples: int,
        dropped: float = 0.1,
        *,
        threshold_rate: float = 0.05,
        wait: int = 4,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            GloFND(dropped=dropped, threshold_rate=threshold_rate, wait=wait),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
            samples=samples,
        )
