"""The base class of the losses."""

import warnings
from dataclasses import replace

import torch
from torch import nn

from pucl import processes
from pucl.contrast.correction import Correction, StateReport
from pucl.contrast.knowledge import check_some_differ
from pucl.contrast.loss import ObjectiveName, Outcome, Reduction, check_settings, outcome_of, reduce
from pucl.contrast.objective import Floor
from pucl.contrast.pairing import GROUPS_MEAN, check_ids, check_temperature, pair_up, pair_views, stack_views
from pucl.contrast.pairs import Pairs
from pucl.floored import FloorWatch, user_level
from pucl.memory import Queue
from pucl.precision import full_precision
from pucl.shapes import Float, Int, Tensor
from pucl.together import end_epoch, learn, pair_views_together, settle_together

MemoryBankSize = int | tuple[int, int]

STEPS_WITHOUT_END = 1000  # Steps after which an epoch has probably ended, if the number of samples is not known.


class ContrastiveLoss(nn.Module):
    r"""A corrected contrastive loss of two or more views of a batch.

    Every view of every sample is an anchor. Its positives are the other views of its sample. Its unlabelled samples are
    all views of the other samples. With a memory bank, ``z0`` are the anchors, ``z1`` their positives, and the queue is
    unlabelled.

    Args:
        correction: How to treat the unlabelled samples; see `pucl.corrections`.
        temperature: Cosines are divided by it, > 0. Default: 0.5.
        memory_bank_size: Compare with a queue of this many recent ``z1`` instead of the batch; 0 (default): no queue.
            ``(size, dim)`` sets the dimension in advance. The queue is part of ``state_dict``. It is updated after the
            comparison, in training mode only, and not under ``no_grad``. It is empty at first: the first call has
            nothing to compare with and returns zero.
        gather_distributed: Compare with the samples of all processes. Default: False. The loss of every process is then
            that of the whole batch, and the *average* of the processes' gradients, which DistributedDataParallel
            computes, is its gradient.
        reduction: ``"mean"`` (default) or ``"sum"`` over the anchors, or ``"none"``: one value for each anchor of this
            process, view after view.
        floor: Lower limit of the estimate over negatives: ``"temperature"`` (exp(-1/t)), ``"paper"`` (exp(-1)), or a
            number between 0 and 1, that share of the unlabelled mean. ``"auto"`` (default) is ``"temperature"``, but
            0.1 for InfoNCE below a temperature of 0.25, where exp(-1/t) would stop the training.
        objective: ``"infonce"`` (default) or ``"jensen_shannon"``.
        streaming: Whether to compute without holding the anchors x unlabelled matrix. None (default): where that is
            faster.
        samples: Number of samples in the data, for corrections that remember every sample. Then pass ``ids`` from 0 to
            samples - 1.

    A correction that learns has its state in ``learnt``. The state is part of ``state_dict`` and is updated like the
    queue. Call `end_epoch` after the last step of each epoch.

    Shapes:
        - ``z0``, ``z1``, ...: [batch, dim]. They are normalised inside. A zero vector has similarity 0 to everything.
        - ``ids``: [batch], integers >= 0, the sample of each row. Pairs of the same sample are left out: twins in the
          batch, and older keys of the sample in the queue. Optional.
        - ``groups``: [batch], integers, the known group of each row, -1 for none. Samples of one group are positives of
          each other, and never each other's negatives: in the batch, in the queue and over processes. Optional.
        - result: a scalar, or [anchor] with ``reduction="none"``.

    After a call, ``last`` holds its `Outcome`: the share of floored anchors, tau', mean similarities. The first call
    with more than half of the anchors at the floor gives a `FlooredWarning`.
    """

    accepts: tuple[str, ...] = ("ids", "groups")
    """The keywords that a call takes beside the views."""

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
        check_settings(correction, objective, floor)
        check_temperature(temperature)
        reduce(torch.zeros(1), reduction)
        self.correction = correction
        self.learnt = correction.start(samples)
        self.temperature = temperature
        self.gather_distributed = gather_distributed
        self.reduction = reduction
        self.floor = floor
        self.objective = objective
        self.streaming = streaming
        self.samples = samples
        self.last: Outcome | None = None
        self.queue = _queue(memory_bank_size)
        if self.queue is not None and self.learnt is not None and self.learnt.name_samples(1) is not None:
            raise ValueError(
                f"{type(correction).__name__} remembers samples, and keys of a memory bank are older than the batch: "
                f"expected their number, got none; pass samples=, and ids= in the call"
            )
        self._floor_watch = FloorWatch(once=True)
        self._report: StateReport | None = None
        self._steps_learnt = 0
        self._samples_learnt = 0

    @property
    def tau_plus(self) -> float:
        """tau', the assumed share of hidden positives among the unlabelled samples.

        If the correction learns, this is the share of the last call, and 0 before the first call.
        """
        if self.learnt is not None:
            return 0.0 if self.last is None else float(self.last.tau_plus)
        return float(self.correction.tau_plus)

    @property
    def together(self) -> bool:
        """Whether several processes share this loss."""
        return self.gather_distributed and processes.world_size() > 1

    def forward(
        self,
        *views: Float[Tensor, "batch dim"],
        ids: Int[Tensor, " batch"] | None = None,
        groups: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "*reduced"]:
        """The loss of these views of a batch."""
        if self.queue is not None:
            return self._compare_with_queue(self.queue, views, ids, groups)
        pairs = self.pair_batch(views, ids, groups)
        loss = self.settle(self.outcome(pairs))
        self.learn(pairs)
        return loss

    def pair_batch(
        self,
        views: tuple[Float[Tensor, "batch dim"], ...],
        ids: Int[Tensor, " batch"] | None,
        groups: Int[Tensor, " batch"] | None = None,
    ) -> Pairs:
        """All views against all views, of this process or of all processes."""
        pair = pair_views_together if self.together else pair_views
        samples = None if self.learnt is None or not views else self._names(views[0])
        pairs = pair(views, temperature=self.temperature, ids=ids, samples=samples, groups=groups)
        self._check_known(ids)
        return pairs

    def outcome(self, pairs: Pairs, *, expected: int | None = None) -> Outcome:
        """The outcome of these pairs under the settings of this loss; see `pucl.contrast.loss.outcome_of`."""
        with full_precision(pairs.query.device):
            correction = self.correction if self.learnt is None else self.learnt.read(pairs)
        return outcome_of(
            pairs,
            correction,
            objective=self.objective,
            floor=self.floor,
            streaming=self.streaming,
            expected=expected,
        )

    def settle(self, outcome: Outcome) -> Float[Tensor, "*reduced"]:
        """Reduce the losses, store the outcome in ``last``, and warn if most anchors are at the floor."""
        if self.together:
            loss, outcome = settle_together(outcome, self.reduction)
        else:
            loss = reduce(outcome.loss, self.reduction)
        self.last = replace(outcome, loss=outcome.loss.detach(), report=self._report)
        self._floor_watch.look(self.last)
        return loss

    def learn(self, *pairs_of_step: Pairs) -> None:
        """Update the state of a correction that learns, after the loss of these pairs was computed."""
        if self.learnt is None or not self.training or not torch.is_grad_enabled():
            return
        learn(self.learnt, pairs_of_step, together=self.together)
        if self._report is None:
            self._warn_without_end_epoch(pairs_of_step[0])

    def end_epoch(self) -> StateReport | None:
        """Mark the end of an epoch, for a correction that learns. Call this after the last step of each epoch.

        The correction updates what changes once an epoch, such as clusters. Its report is returned, and is in
        ``loss.last.report`` from then on. Corrections that do not learn do nothing and return None.
        """
        if self.learnt is None:
            return None
        self._report = end_epoch(self.learnt, together=self.together)
        if self.last is not None:
            self.last = replace(self.last, report=self._report)
        return self._report

    def extra_repr(self) -> str:
        """The settings, with tau'."""
        return (
            f"{self.correction}, tau'={self.tau_plus:.4g}, temperature={float(self.temperature):g}, "
            f"floor={self.floor!r}, objective={self.objective!r}, reduction={self.reduction!r}"
        )

    def _compare_with_queue(
        self,
        queue: Queue,
        views: tuple[Float[Tensor, "batch dim"], ...],
        ids: Int[Tensor, " batch"] | None,
        groups: Int[Tensor, " batch"] | None,
    ) -> Float[Tensor, "*reduced"]:
        """The loss of the first view against the keys in the queue, which then takes in the second view."""
        if len(views) != 2:
            raise ValueError(
                f"with a memory bank z0 are the anchors and z1 their positives: expected two views, got {len(views)}"
            )
        anchors, positives = stack_views(views)
        check_ids("ids", ids, len(anchors), anchors.device)
        check_ids("groups", groups, len(anchors), anchors.device, GROUPS_MEAN)
        if ids is not None and ids.device.type == "cpu" and len(ids) and int(ids.min()) < 0:
            raise ValueError(f"ids name samples in the memory bank: expected none below 0, got {int(ids.min())}")
        self._check_known(ids)
        keys, key_ids, key_groups = queue.contents()
        if len(keys) == queue.size:
            check_some_differ(key_groups)
        if len(keys) == 0:
            loss = self.settle(self.nothing_to_compare(anchors, positives))
        else:
            pairs = pair_up(
                anchors,
                positives,
                keys,
                temperature=self.temperature,
                query_ids=ids,
                unlabelled_ids=None if ids is None else key_ids,
                query_groups=groups,
                unlabelled_groups=None if groups is None else key_groups,
                normalize=False,
            )
            loss = self.settle(self.outcome(pairs, expected=queue.size))
            self.learn(pairs)
        # After the comparison, so that no anchor is compared with the key that is its positive.
        if self.training and torch.is_grad_enabled():
            new_keys = positives.detach()
            if self.together:  # The keys of all processes, in the same order everywhere.
                alike = {
                    "the dimension of keys": new_keys.shape[1],
                    "whether ids are given": int(ids is not None),
                    "whether groups are given": int(groups is not None),
                }
                sizes = processes.gather_sizes(len(new_keys), new_keys.device, alike=alike)
                new_keys = processes.gather(new_keys, sizes)
                ids = None if ids is None else processes.gather(ids.to(torch.int64), sizes)
                groups = None if groups is None else processes.gather(groups.to(torch.int64), sizes)
            queue.push(new_keys, ids, groups)
        return loss

    def nothing_to_compare(self, anchors: Float[Tensor, "batch dim"], positives: Float[Tensor, "batch dim"]) -> Outcome:
        """The outcome of anchors without unlabelled samples."""
        similarity = (anchors * positives).sum(dim=1)
        nothing = similarity.new_zeros(())
        return Outcome(
            loss=similarity * 0.0,  # Zero, but with a gradient, so that a training step works.
            floored=nothing,
            tau_plus=self.tau_plus,
            positive_similarity=similarity.detach().mean(),
            unlabelled_similarity=nothing,
            floor=self.floor,
        )

    def _check_known(self, ids: Int[Tensor, " batch"] | None) -> None:
        """Raise for ids of samples that the correction does not remember. On accelerators they are not read."""
        if ids is None or self.learnt is None or self.samples is None or ids.device.type != "cpu" or not len(ids):
            return
        least, most = (int(end) for end in ids.aminmax())
        if least < 0 or most >= self.samples:
            raise ValueError(f"ids name samples: expected 0 to {self.samples - 1}, got {least} to {most}")

    def _names(self, view: Float[Tensor, "batch dim"]) -> Int[Tensor, " batch"] | None:
        """Names for the samples of this process, if the state of the correction gives them; otherwise the ids are."""
        if self.learnt is None:
            return None
        sizes = processes.gather_sizes(len(view), view.device) if self.together else [len(view)]
        names, first = self.learnt.name_samples(sum(sizes)), sum(sizes[: processes.rank()]) if self.together else 0
        return None if names is None else names[first : first + len(view)].to(view.device)

    def _warn_without_end_epoch(self, pairs: Pairs) -> None:
        """Warn once if `end_epoch` is never called, and the correction would stay plain for ever.

        That is so when each sample was seen twice and the third pass begins, or after many steps if the number of
        samples is not known.
        """
        self._steps_learnt += 1
        overdue = self._steps_learnt == STEPS_WITHOUT_END
        if self.samples is not None and pairs.query_samples is not None:
            before = self._samples_learnt
            self._samples_learnt += len(pairs.query_samples.unique()) * (processes.world_size() if self.together else 1)
            overdue = before <= 2 * self.samples < self._samples_learnt
        if overdue and self.learnt is not None and not self.learnt.sees and processes.rank() == 0:
            warnings.warn(
                f"{type(self).__name__} has taken {self._steps_learnt:,} steps without end_epoch(). Until it is called "
                f"nothing is corrected, and this is plain InfoNCE: call loss.end_epoch() after the last step of each "
                f"epoch",
                UserWarning,
                stacklevel=user_level(),
            )


def _queue(memory_bank_size: MemoryBankSize) -> Queue | None:
    """A queue of this size; None for a size of 0."""
    pair = list(memory_bank_size) if isinstance(memory_bank_size, tuple | list) else [memory_bank_size]
    if len(pair) > 2 or not pair or any(type(number) is not int or number < 0 for number in pair):
        raise ValueError(
            f"memory_bank_size is how many embeddings the queue holds: expected an integer of at least 0, or two as "
            f"(size, dim), got {memory_bank_size!r}"
        )
    return Queue(*pair) if pair[0] else None
