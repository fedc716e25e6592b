"""The debiased losses, DEB and HCL."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import Debiased, Hard
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class DebiasedLoss(ContrastiveLoss):
    """Debiased contrastive loss (DEB); see `pucl.corrections.Debiased`.

    Args:
        tau_plus: Share of hidden positives among the unlabelled samples, 0 <= tau_plus < 1.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.
    """

    def __init__(
        self,
        tau_plus: float = 0.1,
        *,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            Debiased(tau_plus=tau_plus),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )


class HardLoss(ContrastiveLoss):
    """Debiased contrastive loss with more weight on hard samples (HCL); see `pucl.corrections.Hard`.

    Args:
        tau_plus: Share of hidden positives among the unlabelled samples, 0 <= tau_plus < 1.
        beta: Concentration on hard samples, >= 0.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.
    """

    def __init__(
        self,
        tau_plus: float = 0.1,
        beta: float = 1.0,
        *,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            Hard(tau_plus=tau_plus, beta=beta),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )
