"""The losses as modules, called like lightly's: ``loss(z0, z1)``."""

from dataclasses import replace

import torch
from torch import nn

from pucl import processes
from pucl.contrast.compare import ObjectiveName, check_correction, check_objective, compare
from pucl.contrast.correction import Correction
from pucl.contrast.objectives import Floor, Outcome, Reduction, check_floor, reduce
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import check_ids, check_temperature, pair_up, pair_views, stack_views
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Debiased, Hard, Plain, Ring
from pucl.floored import FlooredWarning, FloorWatch
from pucl.memory import Queue
from pucl.shapes import Float, Int, Tensor
from pucl.together import learn, pair_views_together, settle_together

__all__ = [
    "ContrastiveLoss",
    "DebiasedLoss",
    "FlooredWarning",
    "HardLoss",
    "NTXentLoss",
    "OracleLoss",
    "PUCLLoss",
    "RingLoss",
]

MemoryBankSize = int | tuple[int, int]


class ContrastiveLoss(nn.Module):
    r"""A corrected contrastive loss of two or more views of a batch.

    Every view of every sample is an anchor. Its positives are the other views of its sample, its unlabelled samples all
    views of the others; with a memory bank, ``z0`` are the anchors, ``z1`` the positives and the queue is unlabelled.

    Args:
        correction: How unlabelled samples are read; see `pucl.corrections`.
        temperature: What cosines are divided by, > 0.
        memory_bank_size: Compare with a queue of this many recent ``z1`` instead of the batch; ``(size, dim)`` fixes
            the dimension beforehand. The queue is part of ``state_dict``, moves in training mode only (and not under
            ``no_grad``), and is empty at first: the first call then compares with nothing and returns zero.
        gather_distributed: Compare with the samples of all processes. The loss of every process is then that of the
            whole batch, and the processes' gradients *averaged* (as DistributedDataParallel does) are its gradient.
        reduction: ``"mean"`` or ``"sum"`` over the anchors, or ``"none"``: one value for each anchor of this process,
            view after view.
        floor: Below what the estimate over negatives cannot fall: ``"temperature"`` (exp(-1/t)), ``"paper"`` (exp(-1)),
            or a number between 0 and 1, that share of the unlabelled mean. ``"auto"`` is ``"temperature"``, but for
            InfoNCE below a temperature of 0.25 it is 0.1, since exp(-1/t) would stop the training there.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        streaming: Never hold the anchors x unlabelled matrix. None: where that is faster.
        samples: How many samples the data have, for corrections that remember each. Pass ``ids`` from 0 to samples - 1
            then.

    A correction that learns has its state in ``learnt``. It is part of ``state_dict``, and moves as the queue does: in
    training mode only, not under ``no_grad``, and after the comparison.

    Shapes:
        - ``z0``, ``z1``, ...: [batch, dim], any length of vectors; they are normalised inside. A zero vector has
          similarity 0 to everything.
        - ``ids`` [batch]: which sample each row is of. Pairs of the same sample are left out, be they twins in the
          batch or a key that the queue remembers from before. Integers, not negative.

    After a call, ``last`` holds its `Outcome`: the share of floored anchors, tau', mean similarities. The first call
    with more than half of the anchors at the floor raises a `FlooredWarning`.
    """

    def __init__(
        self,
        correction: Correction,
        *,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
        samples: int | None = None,
    ) -> None:
        super().__init__()
        check_correction(correction)
        check_temperature(temperature)
        check_objective(objective)
        check_floor(floor, objective)
        reduce(torch.zeros(1), reduction)
        self.correction = correction
        self.learnt = correction.start(samples)
        self.temperature = temperature
        self.gather_distributed = gather_distributed
        self.reduction = reduction
        self.floor = floor
        self.objective = objective
        self.streaming = streaming
        self.last: Outcome | None = None
        self.queue = _queue(memory_bank_size)
        self._floor_watch = FloorWatch(once=True)

    @property
    def tau_plus(self) -> float:
        """tau', the share of hidden positives that is assumed among the unlabelled."""
        return float(self.correction.tau_plus)

    def forward(
        self, *views: Float[Tensor, "batch dim"], ids: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "*reduced"]:
        """The loss of these views of a batch."""
        if self.queue is None:
            pairs = self.pair_batch(views, ids)
            loss = self.settle(self.compare(pairs))
            self.learn(pairs)
            return loss
        anchors, positives = self._two_views(views)
        pairs_with_queue = self._pair_with(self.queue, anchors, positives, ids)
        if pairs_with_queue is None:
            loss = self.settle(self._nothing_to_compare(anchors, positives))
        else:
            loss = self.settle(self.compare(pairs_with_queue, expected=self.queue.size))
            self.learn(pairs_with_queue)
        # After the comparison, so that no anchor meets the key that is its positive.
        if self.training and torch.is_grad_enabled():
            self._remember(self.queue, positives.detach(), ids)
        return loss

    def pair_batch(self, views: tuple[Float[Tensor, "batch dim"], ...], ids: Int[Tensor, " batch"] | None) -> Pairs:
        """All views against all views, of this process or of all."""
        pair = pair_views_together if self.together else pair_views
        return pair(views, temperature=self.temperature, ids=ids)

    def _pair_with(
        self,
        queue: Queue,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        ids: Int[Tensor, " batch"] | None,
    ) -> Pairs | None:
        """Anchors with what the queue holds; None while it is empty."""
        check_ids("ids", ids, len(anchors), anchors.device)
        if ids is not None and ids.device.type == "cpu" and len(ids) and int(ids.min()) < 0:
            raise ValueError(f"ids name samples in the memory bank: expected none below 0, got {int(ids.min())}")
        keys, key_ids = queue.contents()
        if len(keys) == 0:
            return None
        return pair_up(
            anchors,
            positives,
            keys,
            temperature=self.temperature,
            query_ids=ids,
            unlabelled_ids=None if ids is None else key_ids,
            normalize=False,
        )

    def _nothing_to_compare(
        self, anchors: Float[Tensor, "batch dim"], positives: Float[Tensor, "batch dim"]
    ) -> Outcome:
        """The outcome of anchors without unlabelled samples."""
        similarity = (anchors * positives).sum(dim=1)
        nothing = similarity.new_zeros(())
        return Outcome(
            loss=similarity * 0.0,  # Zero, but with a graph, so that a training step runs through.
            floored=nothing,
            tau_plus=self.tau_plus,
            positive_similarity=similarity.detach().mean(),
            unlabelled_similarity=nothing,
            floor=self.floor,
        )

    def _remember(self, queue: Queue, keys: Float[Tensor, "batch dim"], ids: Int[Tensor, " batch"] | None) -> None:
        """Put the keys of all processes into the queue, in the same order everywhere."""
        if self.together:
            alike = {"the dimension of keys": keys.shape[1], "whether ids are given": int(ids is not None)}
            sizes = processes.gather_sizes(len(keys), keys.device, alike=alike)
            keys = processes.gather(keys, sizes)
            ids = None if ids is None else processes.gather(ids.to(torch.int64), sizes)
        queue.push(keys, ids)

    def compare(self, pairs: Pairs, *, expected: int | None = None) -> Outcome:
        """The outcome of these pairs under the settings of this loss; see `pucl.contrast.compare`."""
        return compare(
            pairs,
            self.correction if self.learnt is None else self.learnt.read(pairs),
            objective=self.objective,
            floor=self.floor,
            streaming=self.streaming,
            expected=expected,
        )

    def learn(self, *comparisons: Pairs) -> None:
        """Let a correction that learns do so from these pairs, after they were compared; see `CorrectionState`."""
        if self.learnt is not None and self.training and torch.is_grad_enabled():
            learn(self.learnt, comparisons, together=self.together)

    def settle(self, outcome: Outcome) -> Float[Tensor, "*reduced"]:
        """Reduce the losses, keep the outcome, and warn if most anchors are at the floor."""
        if self.together:
            loss, outcome = settle_together(outcome, self.reduction)
        else:
            loss = reduce(outcome.loss, self.reduction)
        self.last = replace(outcome, loss=outcome.loss.detach())
        self._floor_watch.look(self.last)
        return loss

    @property
    def together(self) -> bool:
        """Whether several processes share this loss."""
        return self.gather_distributed and processes.world_size() > 1

    def _two_views(
        self, views: tuple[Float[Tensor, "batch dim"], ...]
    ) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch dim"]]:
        if len(views) != 2:
            raise ValueError(
                f"with a memory bank z0 are the anchors and z1 their positives: expected two views, got {len(views)}"
            )
        anchors, positives = stack_views(views)
        return anchors, positives

    def extra_repr(self) -> str:
        """The settings, with tau'."""
        return (
            f"{self.correction}, tau'={self.tau_plus:.4g}, temperature={float(self.temperature):g}, "
            f"floor={self.floor!r}, objective={self.objective!r}, reduction={self.reduction!r}"
        )


class NTXentLoss(ContrastiveLoss):
    """InfoNCE without a correction: every other sample is taken for a negative.

    Args:
        temperature: What cosines are divided by, > 0.
        memory_bank_size, gather_distributed, reduction, floor, objective, streaming: See `ContrastiveLoss`.

    Example:
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


class DebiasedLoss(ContrastiveLoss):
    """Debiased contrastive loss (DEB); see `pucl.corrections.Debiased`.

    Args:
        tau_plus: Share of hidden positives among the unlabelled, 0 <= tau_plus < 1.
        temperature: What cosines are divided by, > 0.
        memory_bank_size, gather_distributed, reduction, floor, objective, streaming: See `ContrastiveLoss`.
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
    """Debiased contrastive loss with hard samples counting for more (HCL); see `pucl.corrections.Hard`.

    Args:
        tau_plus: Share of hidden positives among the unlabelled, 0 <= tau_plus < 1.
        beta: Concentration on hard samples, >= 0.
        temperature: What cosines are divided by, > 0.
        memory_bank_size, gather_distributed, reduction, floor, objective, streaming: See `ContrastiveLoss`.
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


class RingLoss(ContrastiveLoss):
    """InfoNCE over a band of ranks; see `pucl.corrections.Ring`.

    Args:
        lower: Share of the hardest samples that is left out.
        upper: Share of samples, from the hardest, at which the band ends.
        rescale: Let the band speak for all samples.
        temperature: What cosines are divided by, > 0.
        memory_bank_size, gather_distributed, reduction, floor, objective, streaming: See `ContrastiveLoss`.
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


class PUCLLoss(ContrastiveLoss):
    """Contrastive loss with positive-unlabelled correction; see `pucl.corrections.PUCL`.

    Args:
        alpha: Share of positives in the data, 0 <= alpha < 1.
        c: Share of the positives that is labelled, 0 <= c <= 1.
        beta: Hard's concentration on hard samples, >= 0.
        temperature: What cosines are divided by, > 0.
        memory_bank_size, gather_distributed, reduction, floor, objective, streaming: See `ContrastiveLoss`.

    If you know tau', the share of hidden positives among the unlabelled, use `PUCLLoss.from_tau_plus`.

    Example:
        >>> loss = PUCLLoss(alpha=0.12, c=0.1)
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16))
        >>> round(loss.tau_plus, 4)
        0.1093
    """

    def __init__(
        self,
        alpha: float = 0.12,
        c: float = 0.1,
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
        super().__init__(
            PUCL(alpha=alpha, c=c, beta=beta),
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
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> "PUCLLoss":
        """The loss that assumes this share of hidden positives among the unlabelled, as `DebiasedLoss` does.

        It is ``PUCLLoss(alpha=tau_plus, c=0)``: without labelled positives alpha and tau' are the same. The other
        arguments are those of `PUCLLoss`.

        Example:
            >>> PUCLLoss.from_tau_plus(0.1).tau_plus
            0.1
        """
        Debiased(tau_plus=tau_plus)  # Refuses a wrong value by the name that the caller knows.
        return cls(
            tau_plus,
            0.0,
            beta,
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
        )


class OracleLoss(ContrastiveLoss):
    """The loss that knows the labels, and so which samples are true negatives: what every correction aims at.

    Args:
        beta: Hard's concentration on hard samples, >= 0.
        temperature: What cosines are divided by, > 0.
        memory_bank_size, gather_distributed, reduction, floor, objective, streaming: See `ContrastiveLoss`. The oracle
            refuses a memory bank, whose labels it does not know.

    Example:
        >>> labels = torch.tensor([0, 1, 2, 0])
        >>> loss = OracleLoss()(torch.randn(4, 16), torch.randn(4, 16), labels=labels)
    """

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
                "the oracle compares with samples of known labels: expected no memory bank, whose labels are unknown"
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
    ) -> Float[Tensor, "*reduced"]:
        """The loss of these views of a batch with these labels."""
        pairs = self.pair_batch(views, ids)
        check_ids("labels", labels, len(views[0]), pairs.query.device)
        if labels.device.type == "cpu" and not torch.compiler.is_compiling() and int(labels.min()) < 0:
            raise ValueError(
                f"the oracle knows all labels: expected none below 0, as unknown ones are, got {int(labels.min())}"
            )
        anchor_labels = labels.repeat(len(views))
        sizes = processes.gather_sizes(len(labels), labels.device) if self.together else [len(labels)]
        key_labels = processes.gather(labels, sizes).repeat(len(views)) if self.together else anchor_labels
        return self.settle(self.compare(without_false_negatives(pairs, anchor_labels, key_labels)))


def _queue(memory_bank_size: MemoryBankSize) -> Queue | None:
    """The queue that a memory bank of this size is; None for a size of 0."""
    pair = list(memory_bank_size) if isinstance(memory_bank_size, tuple | list) else [memory_bank_size]
    if len(pair) > 2 or not pair or any(type(number) is not int or number < 0 for number in pair):
        raise ValueError(
            f"memory_bank_size is how many embeddings the queue holds: expected an integer of at least 0, or two as "
            f"(size, dim), got {memory_bank_size!r}"
        )
    return Queue(*pair) if pair[0] else None
