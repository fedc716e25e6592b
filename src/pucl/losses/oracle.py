"""The losses that know the labels."""

from dataclasses import replace

import torch

from pucl import processes
from pucl.contrast.knowledge import check_form, with_false_negatives_attracted, without_false_negatives
from pucl.contrast.loss import ObjectiveName, Outcome, Reduction
from pucl.contrast.objective import Floor
from pucl.contrast.pairing import check_ids, check_temperature
from pucl.contrast.pairs import AttractingForm, Pairs
from pucl.corrections import Hard
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize
from pucl.shapes import Float, Int, Tensor


class OracleLoss(ContrastiveLoss):
    """The loss that knows the labels, and so the true negatives: what every correction estimates.

    Args:
        beta: Hard's concentration on hard samples, >= 0.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`. A memory bank is refused: the
            labels of its keys are unknown.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 1, 2, 0])
        >>> loss = OracleLoss()(torch.randn(4, 16), torch.randn(4, 16), labels=labels)
    """

    accepts: tuple[str, ...] = ("ids", "groups", "labels")

    def __init__(
        self,
        beta: float = 0.0,
        *,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        if memory_bank_size:
            raise ValueError(
                "the oracle needs the label of every sample: expected no memory bank, since its labels are unknown"
            )
        super().__init__(
            Hard(tau_plus=0.0, beta=beta),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )

    def forward(  # type: ignore[override]
        self,
        *views: Float[Tensor, "batch dim"],
        labels: Int[Tensor, " batch"],
        ids: Int[Tensor, " batch"] | None = None,
        groups: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "*reduced"]:
        """The loss of these views of a batch with these labels."""
        pairs = self.pair_batch(views, ids, groups)
        check_ids("labels", labels, len(views[0]), pairs.query.device, "are the class of each row")
        if labels.device.type == "cpu" and not torch.compiler.is_compiling() and int(labels.min()) < 0:
            raise ValueError(
                f"the oracle needs the label of every sample: expected labels of at least 0, got {int(labels.min())}"
            )
        anchor_labels = labels.repeat(len(views))
        sizes = processes.gather_sizes(len(labels), labels.device) if self.together else [len(labels)]
        key_labels = processes.gather(labels, sizes).repeat(len(views)) if self.together else anchor_labels
        return self.settle(self.outcome(self.use_labels(pairs, anchor_labels, key_labels)))

    def use_labels(
        self, pairs: Pairs, anchor_labels: Int[Tensor, " anchor"], key_labels: Int[Tensor, " unlabelled"]
    ) -> Pairs:
        """Leave out the pairs of one class."""
        return without_false_negatives(pairs, anchor_labels, key_labels)


class SupConLoss(OracleLoss):
    r"""Supervised contrastive loss: samples of one class are positives of each other.

    `OracleLoss` leaves false negatives out; this loss attracts them. For one anchor let P be the logits of its
    positives, its other views and all views of the samples of its class, and :math:`u_k` those of other classes. Then

    .. math:: \text{sincere:}\ L = \mathrm{mean}_{p \in P} -\log \frac{e^p}{e^p + \sum_k e^{u_k}}, \qquad
              \text{supcon:}\ L = \mathrm{mean}_{p \in P} -\log \frac{e^p}{\sum_{q \in P} e^q + \sum_k e^{u_k}}.

    In the form ``"supcon"`` the positives of an anchor push each other away, in ``"sincere"`` they do not. If all
    labels differ, both are `NTXentLoss` for two views.

    Args:
        form: ``"sincere"`` (default) or ``"supcon"``.
        base_temperature: Multiply the loss by temperature / base_temperature, as SupCon's program does with 0.07. None
            (default): do not.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`. A memory bank is refused, as by
            `OracleLoss`. The form ``"supcon"`` is for InfoNCE alone.

    Reference:
        Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020; Feeney and Hughes, "SINCERE: Supervised
        Information Noise-Contrastive Estimation REvisited", 2023.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 1, 2, 0])
        >>> loss = SupConLoss()(torch.randn(4, 16), torch.randn(4, 16), labels=labels)
    """

    accepts: tuple[str, ...] = ("ids", "labels")  # No groups: a class is one.

    def __init__(
        self,
        form: AttractingForm = "sincere",
        *,
        temperature: float = 0.5,
        base_temperature: float | None = None,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )
        check_form(form, objective)
        if base_temperature is not None:
            check_temperature(base_temperature)
        self.form = form
        self.base_temperature = base_temperature

    def use_labels(
        self, pairs: Pairs, anchor_labels: Int[Tensor, " anchor"], key_labels: Int[Tensor, " unlabelled"]
    ) -> Pairs:
        """Make positives of the pairs of one class."""
        return with_false_negatives_attracted(pairs, anchor_labels, key_labels, self.form)

    def outcome(self, pairs: Pairs, *, expected: int | None = None) -> Outcome:
        """The outcome of these pairs, multiplied by temperature / base_temperature if that is set."""
        outcome = super().outcome(pairs, expected=expected)
        if self.base_temperature is None:
            return outcome
        return replace(outcome, loss=outcome.loss * (self.temperature / self.base_temperature))

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"form={self.form!r}, temperature={float(self.temperature):g}, objective={self.objective!r}, "
            f"reduction={self.reduction!r}"
        )
