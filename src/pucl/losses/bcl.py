"""The loss with Bayesian weights."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import BCL
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class BCLLoss(ContrastiveLoss):
    """Contrastive loss with Bayesian weights of the unlabelled samples (BCL); see `pucl.corrections.BCL`.

    Args:
        tau_plus: Share of hidden positives among the unlabelled samples, 0 <= tau_plus < 1.
        auc: Probability that the encoder ranks a positive above a negative, 0.5 <= auc <= 1.
        hardness: How far weights move to the most similar true negatives, 0.5 <= hardness < 1.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.
    """

    def __init__(
        self,
        tau_plus: float = 0.1,
        auc: float = 0.9,
        hardness: float = 0.9,
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
            BCL(tau_plus=tau_plus, auc=auc, hardness=hardness),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )
