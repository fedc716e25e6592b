"""The loss with positive-unlabelled correction."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import PUCL, Debiased
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class PUCLLoss(ContrastiveLoss):
    r"""Contrastive loss with positive-unlabelled correction (PUCL): samples that are not positive are only unlabelled.

    Some unlabelled samples belong to the anchor's own class. They are hidden positives, and a plain contrastive loss
    pushes them away. This loss estimates the mean over true negatives instead. For one anchor with the positive logit
    :math:`p` and the unlabelled logits :math:`u_1, ..., u_N` (cosine / temperature),

    .. math::
        L = -\log \frac{e^p}{e^p + N \mu}, \quad
        \mu = \max\Big((1 + \omega) \sum_i w_i e^{u_i} - \omega\, e^p,\ \text{floor}\Big), \quad
        \omega = \frac{\alpha (1 - c)}{1 - \alpha}, \quad w_i \propto e^{\beta u_i}.

    With several positives, :math:`e^p` in :math:`\mu` is their mean, and :math:`L` is averaged over them.

    Args:
        alpha: Share of positives in the data, 0 <= alpha < 1: about 1 / (number of classes) if classes are balanced.
        c: Share of the positives that is labelled, by augmentation, 0 <= c <= 1.
        beta: Concentration on hard samples, >= 0; 0 gives all samples the same weight, as in the paper.
        stop_gradient: Whether the subtracted positives are a constant for the gradient; see `pucl.corrections.PUCL`.
            Off by default, as in the paper.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`.

    Caution:
        An estimate with too large an alpha falls below the floor, and the anchor no longer learns from its negatives
        as intended. After a call, ``loss.last.floored`` is the share of such anchors. Above one half there is a
        `FlooredWarning`. Then lower alpha or raise the temperature.

    Note:
        The loss depends on alpha and c only through tau' = alpha (1 - c) / (1 - alpha c), the share of hidden positives
        among the unlabelled samples: ``loss.tau_plus``. If you know tau', use `PUCLLoss.from_tau_plus`. alpha = 0 or
        c = 1 is `NTXentLoss`; beta = 0 is `DebiasedLoss` at tau'.

    Reference:
        Wang et al., "Contrastive Learning with Negative Sampling Correction", arXiv 2401.08690.

    Example:
        >>> import torch
        >>> loss = PUCLLoss(alpha=0.12, c=0.1)
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16))
        >>> round(loss.tau_plus, 4)
        0.1093
        >>> 0 <= float(loss.last.floored) <= 1
        True
    """

    def __init__(
        self,
        alpha: float = 0.12,
        c: float = 0.1,
        beta: float = 0.0,
        *,
        stop_gradient: bool = False,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            PUCL(alpha=alpha, c=c, beta=beta, stop_gradient=stop_gradient),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )

    @classmethod
    def from_tau_plus(
        cls,
        tau_plus: float,
        beta: float = 0.0,
        *,
        stop_gradient: bool = False,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> "PUCLLoss":
        """The loss for a known share of hidden positives among the unlabelled samples, 0 <= tau_plus < 1.

        It is ``PUCLLoss(alpha=tau_plus, c=0)``: without labelled positives, alpha and tau' are the same. The other
        arguments are those of `PUCLLoss`.

        Example:
            >>> PUCLLoss.from_tau_plus(0.1).tau_plus
            0.1
        """
        Debiased(tau_plus=tau_plus)  # Its error names tau_plus, the argument of this call.
        return cls(
            tau_plus,
            0.0,
            beta,
            stop_gradient=stop_gradient,
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )
