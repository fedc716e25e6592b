"""InfoNCE with weights from histograms of similarities."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import Ratio
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class RatioLoss(ContrastiveLoss):
    """InfoNCE with the weights 1 - r(s) from running histograms; see `pucl.corrections.Ratio`.

    Use it where positives are real pairs: different samples of one class. For two augmentations of one sample it does
    nearly nothing unless you give `tau_plus`. The histograms are part of ``state_dict``.

    Args:
        tau_plus: Share of hidden positives among the unlabelled samples, 0 <= tau_plus < 1. None (default): estimated.
        warm_up: Positives to count before anything is corrected. Until then the loss is `NTXentLoss`, bit by bit.
        half_life: Positives after which an older count weighs half.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.

    Example:
        >>> import torch
        >>> loss = RatioLoss(tau_plus=0.1, warm_up=16)
        >>> values = [loss(torch.randn(8, 16), torch.randn(8, 16)) for _ in range(2)]
        >>> report = loss.end_epoch()  # report.sentence says how much was removed.
    """

    def __init__(
        self,
        tau_plus: float | None = None,
        *,
        warm_up: int = 1000,
        half_life: int = 5000,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            Ratio(tau_plus=tau_plus, warm_up=warm_up, half_life=half_life),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )
