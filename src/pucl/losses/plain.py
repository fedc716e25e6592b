"""InfoNCE without a correction."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import Plain
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class NTXentLoss(ContrastiveLoss):
    """InfoNCE without a correction: every other sample is treated as a negative (NT-Xent, SimCLR's loss).

    Args:
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.

    Example:
        >>> import torch
        >>> loss = NTXentLoss(temperature=0.5)(torch.randn(8, 16), torch.randn(8, 16))
    """

    def __init__(
        self,
        temperature: float = 0.5,
        *,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            Plain(),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )
