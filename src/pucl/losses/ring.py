"""InfoNCE over a band of ranks."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import Ring
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class RingLoss(ContrastiveLoss):
    """InfoNCE over a band of ranks; see `pucl.corrections.Ring`.

    Args:
        lower: Share of the hardest samples that is left out, 0 <= lower < upper.
        upper: Share of samples, from the hardest, at which the band ends, <= 1.
        rescale: Multiply the mean over the band by the number of all samples, not by the number in the band.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.
    """

    def __init__(
        self,
        lower: float = 0.01,
        upper: float = 0.1,
        *,
        rescale: bool = False,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            Ring(lower=lower, upper=upper, rescale=rescale),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )
