"""One of many processes that compare themselves with a single one; ``pucl doctor --world-size`` starts them.

Every process knows the whole batch, takes its own rows of it, and computes the loss together with the others. It then
computes the loss of the whole batch alone and compares: the loss must be the same, and the gradients averaged over the
processes must be the gradient. Hence the gradient of a process's own embeddings is the world size times that of one.
"""

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pucl import processes
from pucl.contrast.objectives import Reduction
from pucl.losses import (
    ContrastiveLoss,
    DebiasedLoss,
    HardLoss,
    NTXentLoss,
    OracleLoss,
    PUCLLoss,
    RingLoss,
)
from pucl.shapes import Float, Int, Tensor

TOLERANCE = 1e-10  # Relative to the largest number; float64 sums in another order differ by 1e-15 or so.
STEPS = 3  # With a memory bank: the first meets it empty, the second half full, the third wrapped around.
DIM = 8
ENCODED_DIM = 6

LOSSES: dict[str, Callable[..., ContrastiveLoss]] = {
    "NTXentLoss": NTXentLoss,
    "DebiasedLoss": DebiasedLoss,
    "HardLoss": HardLoss,
    "RingLoss": partial(RingLoss, lower=0.1, upper=0.6),
    "PUCLLoss": PUCLLoss,
    "PUCLLoss, beta 0.5": partial(PUCLLoss, beta=0.5),
    "OracleLoss": OracleLoss,
}


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far many processes are from one, at worst, over all cases of one loss in one form.

    Args:
        loss: The loss.
        form: Dense or streaming, against the batch or against a memory bank.
        cases: How many comparisons were made.
        loss_difference: Largest difference of loss values, relative to the value.
        gradient_difference: Largest difference of gradients, relative to the largest entry of the gradient.
        queue_difference: Largest difference in what memory banks hold; infinite if it is not the same everywhere.
        floored: Largest share of floored anchors. With most of them there, agreement would say little of a correction.
    """

    loss: str
    form: str
    cases: int
    loss_difference: float
    gradient_difference: float
    queue_difference: float = 0.0
    floored: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether many processes do what one does, in cases where there was something to do."""
        worst = max(self.loss_difference, self.gradient_difference, self.queue_difference)
        return worst <= TOLERANCE and self.floored <= 0.5


def worst(agreements: Iterable[Agreement]) -> list[Agreement]:
    """One agreement for each loss and form: the largest differences of all that are of it."""
    groups: dict[tuple[str, str], Agreement] = {}
    for new in agreements:
        old = groups.get((new.loss, new.form))
        groups[new.loss, new.form] = new if old is None else _worse(old, new)
    return list(groups.values())


def _worse(one: Agreement, other: Agreement) -> Agreement:
    return replace(
        one,
        cases=one.cases + other.cases,
        loss_difference=max(one.loss_difference, other.loss_difference),
        gradient_difference=max(one.gradient_difference, other.gradient_difference),
        queue_difference=max(one.queue_difference, other.queue_difference),
        floored=max(one.floored, other.floored),
    )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The samples of some processes: all of them, or this one alone."""

    views: list[Float[Tensor, "batch dim"]]
    labels: Int[Tensor, " batch"]
    ids: Int[Tensor, " batch"] | None

    def of(self, rows: slice) -> "Batch":
        """These rows of it."""
        ids = None if self.ids is None else self.ids[rows]
        return Batch(views=[view[rows] for view in self.views], labels=self.labels[rows], ids=ids)


@dataclass(frozen=True, kw_only=True)
class Division:
    """How samples are spread over the processes, and what there is to know of them.

    Args:
        sizes: Samples of each process; taken again from the start if there are more processes.
        views: Views of each sample.
        named: Give ids, with samples that come twice, in one process and in two, and again in later steps.
    """

    sizes: tuple[int, ...]
    views: int = 2
    named: bool = False

    @property
    def by_rank(self) -> list[int]:
        """Samples of every process."""
        return list(itertools.islice(itertools.cycle(self.sizes), processes.world_size()))

    @property
    def own(self) -> slice:
        """The rows of this process."""
        start = sum(self.by_rank[: processes.rank()])
        return slice(start, start + self.by_rank[processes.rank()])

    def batch(self, step: int = 0) -> Batch:
        """The whole batch of a training step, the same in all processes."""
        total = sum(self.by_rank)
        generator = torch.Generator().manual_seed(step)
        sample = torch.randn(total, DIM, dtype=torch.float64, generator=generator)
        noise = torch.randn(self.views, total, DIM, dtype=torch.float64, generator=generator)
        ids = (torch.arange(total) + 2 * step) % (total - 3)
        labels = torch.arange(total) % 3
        return Batch(views=list(sample + noise), labels=labels, ids=ids if self.named else None)


EQUAL = Division(sizes=(6,))
UNEQUAL = Division(sizes=(7, 1, 4))
TWINS = Division(sizes=(7, 1, 4), named=True)
THREE_VIEWS = Division(sizes=(3, 5), views=3)
SEVERAL_TILES = Division(sizes=(270, 20))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One way to use a loss.

    Args:
        loss: Its name in `LOSSES`.
        division: How the samples are spread over the processes.
        reduction: Of the losses of the anchors.
        encoded: Take gradients of the parameters of an encoder under DistributedDataParallel, not of the embeddings.
        remembered: Compare with a memory bank instead of the batch, for some steps.
    """

    loss: str
    division: Division
    reduction: Reduction
    encoded: bool = False
    remembered: bool = False

    def make(self, **settings: bool) -> ContrastiveLoss:
        """The loss, in double precision and with an empty memory bank if it is to have one."""
        make = partial(LOSSES[self.loss], reduction=self.reduction, **settings)
        if not self.remembered:
            return make()
        # No multiple of the batch, so that a batch is cut in two where the queue wraps around.
        size = 3 * sum(self.division.by_rank) // 2 + 1
        return make(memory_bank_size=(size, ENCODED_DIM if self.encoded else DIM)).double()


def trials(loss: str) -> Iterator[Trial]:
    """Every use of a loss that can go wrong in a way of its own."""
    of = partial(Trial, loss=loss)
    for division, encoded in itertools.product((EQUAL, UNEQUAL), (False, True)):
        yield of(division=division, reduction="mean", encoded=encoded)
        yield of(division=division, reduction="sum", encoded=encoded)
    yield of(division=UNEQUAL, reduction="none")
    for division in (TWINS, THREE_VIEWS, SEVERAL_TILES):
        yield of(division=division, reduction="mean")
    if loss == "OracleLoss":  # It knows no labels of what it remembers.
        return
    for division in (EQUAL, UNEQUAL, TWINS):
        yield of(division=division, reduction="mean", remembered=True)
    yield of(division=UNEQUAL, reduction="sum", remembered=True)
    yield of(division=TWINS, reduction="mean", remembered=True, encoded=True)


def every_trial() -> Iterator[Trial]:
    """All uses of all losses."""
    return itertools.chain.from_iterable(map(trials, LOSSES))


def agreements(over: Iterable[Trial], *, gather_distributed: bool = True) -> Iterator[Agreement]:
    """Compare with one process, in the world that this process has joined.

    Args:
        over: What to compare.
        gather_distributed: Off, the losses do not know of each other, which the comparison must find out.
    """
    encoder = _encoder()
    parallel = DistributedDataParallel(encoder)
    for trial in over:
        yield from _try(trial, encoder, parallel, gather_distributed)


def _try(trial: Trial, encoder: nn.Module, parallel: nn.Module, gather_distributed: bool) -> Iterator[Agreement]:
    # The dense form in one process is what both forms are measured by.
    alone = trial.make(streaming=False)
    together = {
        form: trial.make(streaming=form == "streaming", gather_distributed=gather_distributed)
        for form in ("dense", "streaming")
    }
    own = trial.division.own
    for step in range(STEPS if trial.remembered else 1):
        whole = trial.division.batch(step)
        one = _result(alone, whole, encoder if trial.encoded else None)
        expected = _expected(one, trial, own)
        for form, loss in together.items():
            many = _result(loss, whole.of(own), parallel if trial.encoded else None)
            yield Agreement(
                loss=trial.loss,
                form=f"memory bank, {form}" if trial.remembered else form,
                cases=1,
                loss_difference=_difference(many.loss, expected.loss),
                gradient_difference=_difference(many.gradient, expected.gradient),
                queue_difference=_queue_difference(loss, alone) if trial.remembered else 0.0,
                floored=0.0 if alone.last is None else float(alone.last.floored),
            )


@dataclass(frozen=True)
class Result:
    """A loss and its gradients: of the views, or of the parameters of an encoder."""

    loss: Float[Tensor, "*reduced"]
    gradient: Float[Tensor, "*shape"]


def _result(loss: ContrastiveLoss, batch: Batch, encoder: nn.Module | None) -> Result:
    """The loss of a batch, of its views themselves or as an encoder sees them."""
    if encoder is None:
        wanted = views = [view.clone().requires_grad_() for view in batch.views]
    else:
        encoder.zero_grad()
        wanted = list(encoder.parameters())
        # All views in one pass: DistributedDataParallel expects one for each backward pass.
        views = list(encoder(torch.cat(batch.views)).chunk(len(batch.views)))
    known = {"labels": batch.labels} if isinstance(loss, OracleLoss) else {}
    value: Tensor = loss(*views, ids=batch.ids, **known)
    # Not autograd.grad: DistributedDataParallel averages what backward() leaves in the parameters.
    value.sum().backward()
    gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.clone() for leaf in wanted]
    return Result(
        value.detach(),
        torch.stack(gradients) if encoder is None else torch.cat([gradient.flatten() for gradient in gradients]),
    )


def _expected(one: Result, trial: Trial, own: slice) -> Result:
    """What this process should find, given what one process finds for the whole batch."""
    if trial.encoded:  # Already averaged.
        return one
    if trial.reduction == "none":  # The losses of its own anchors; their sum over the processes is the whole sum.
        return Result(one.loss.view(trial.division.views, -1)[:, own].flatten(), one.gradient[:, own])
    return Result(one.loss, one.gradient[:, own] * processes.world_size())


def _difference(found: Float[Tensor, "*shape"], expected: Float[Tensor, "*shape"]) -> float:
    """The largest difference relative to the largest number that was expected; infinite where there is no number."""
    if found.shape != expected.shape:
        return math.inf
    difference, scale = (found - expected).abs().max(), expected.abs().max()
    relative = float(difference / scale if scale > 0 else difference)
    return relative if relative < math.inf else math.inf


def _queue_difference(loss: ContrastiveLoss, alone: ContrastiveLoss) -> float:
    state, expected = (torch.cat([buffer.flatten().double() for buffer in one.buffers()]) for one in (loss, alone))
    everywhere = processes.gather(state[None], [1] * processes.world_size())
    return float((state - expected).abs().max()) if bool((everywhere == state).all()) else math.inf


def _encoder() -> nn.Linear:
    """The same small encoder in every process."""
    encoder = nn.Linear(DIM, ENCODED_DIM, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(generator=generator)
    return encoder


def main(arguments: Sequence[str]) -> None:
    """Join the world (number of this process, how many there are, file, seconds to wait) and print what was found."""
    number, count, meeting, seconds = arguments
    with processes.gloo_world(
        Path(meeting), number=int(number), count=int(count), timeout=timedelta(seconds=float(seconds))
    ):
        found = worst(agreements(every_trial()))
    json.dump([asdict(agreement) for agreement in found], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
