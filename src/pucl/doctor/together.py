"""Compare the losses of several processes with those of one.

Every process makes the whole batch, encodes its own rows, and computes the loss together with the others. It then
computes the loss of the whole batch alone and compares. The losses must be equal, and the mean of the encoder's
gradients over the processes, which DistributedDataParallel computes, must be the gradient of one process.
"""

import itertools
import math
import os
import pickle
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn
from torch.nn.parallel import DistributedDataParallel

from pucl import processes
from pucl.contrast.loss import Reduction
from pucl.doctor.checks import Finding, relative_difference
from pucl.losses import (
    BCLLoss,
    ContrastiveLoss,
    DebiasedLoss,
    HardLoss,
    NTXentLoss,
    OracleLoss,
    PUCLLoss,
    RingLoss,
    SupConLoss,
)
from pucl.shapes import Float, Int, Tensor

PATIENCE = 180.0  # Seconds to wait for all processes; they take ten, or a minute on a busy machine.
ALWAYS_ALLOWED = 8  # Processes that any machine may be asked for; more than that, up to four for each core.
TOLERANCE = 1e-10  # Relative to the largest number; float64 sums in another order differ by about 1e-15.
STEPS = 3  # With a memory bank: it is empty in the first, half full in the second, and wraps around in the third.
DIM = 8
ENCODED_DIM = 6
ADVICE = (
    "do not train on several devices with this installation; reinstall torch and pucl, and report it if that does not "
    "help"
)

LOSSES: dict[str, Callable[..., ContrastiveLoss]] = {
    "NTXentLoss": NTXentLoss,
    "DebiasedLoss": DebiasedLoss,
    "HardLoss": HardLoss,
    "RingLoss": partial(RingLoss, lower=0.1, upper=0.6),
    "PUCLLoss": PUCLLoss,
    "PUCLLoss, beta 0.5": partial(PUCLLoss, beta=0.5),
    "BCLLoss": partial(BCLLoss, auc=0.8, hardness=0.7),
    "OracleLoss": OracleLoss,
    "SupConLoss": SupConLoss,
}

Differences = dict[str, list[float]]
"""By loss and form, the relative difference of each comparison; infinite if most anchors were floored."""

_Result = TypeVar("_Result")


class ProcessesError(RuntimeError):
    """Processes that should work together failed, or did not finish in time."""


def check_world_size(world_size: int) -> None:
    """Refuse numbers of processes that prove nothing or that overload the machine."""
    most = max(ALWAYS_ALLOWED, 4 * (os.cpu_count() or 1))
    if not 2 <= world_size <= most:
        reason = "; one process has nothing to be compared with" if world_size == 1 else ""
        raise ValueError(
            f"world size is the number of processes to compare with a single one: "
            f"expected 2 to {most} on this machine, got {world_size}{reason}"
        )


def certify(world_size: int, *, timeout: float = PATIENCE) -> list[Finding]:
    """Start processes that compute each loss together, and compare them with one process that has the whole batch."""
    check_world_size(world_size)
    try:
        reports = run_together(compare_losses, world_size, timeout=timeout)
    except ProcessesError as error:
        return [Finding(name=f"{world_size} processes", value=str(error), verdict="FAILED")]
    return [_find_agreement(name, [report[name] for report in reports]) for name in reports[0]]


def _find_agreement(name: str, by_process: list[list[float]]) -> Finding:
    worst = max(max(differences) for differences in by_process)
    cases = f"{sum(map(len, by_process))} comparisons"
    if worst <= TOLERANCE:
        return Finding(name=name, value=f"differs by {worst:.0e} in {cases}: rounding")
    return Finding(name=name, value=f"differs by {worst:.0e} in {cases}", verdict="FAILED", advice=ADVICE)


def run_together(work: Callable[[], _Result], world_size: int, *, timeout: float = PATIENCE) -> list[_Result]:
    """Call a function in several processes that work together, and return the results by rank.

    Args:
        work: A function that the new processes can import.
        world_size: Number of processes.
        timeout: Seconds to wait for all of them. All are killed after that, or when one of them fails.

    Raises:
        ProcessesError: If a process fails, or if they do not finish in time.
    """
    if not processes.gloo_is_available():
        raise ProcessesError("this build of torch has no gloo, which processes need to work together")
    with tempfile.TemporaryDirectory(prefix="pucl-") as directory:
        end = time.monotonic() + timeout
        context = spawn(
            _join_and_work, args=(work, world_size, Path(directory), timeout), nprocs=world_size, join=False
        )
        try:
            while not context.join(timeout=max(0.0, end - time.monotonic())):
                if time.monotonic() >= end:
                    raise ProcessesError(
                        f"{world_size} processes did not finish within {timeout:g} s: the machine is busy (allow more "
                        f"time), or something keeps them from reaching each other, such as a firewall on the loopback "
                        f"device"
                    )
        except ProcessRaisedException as error:
            last = str(error).strip().splitlines()[-1]
            raise ProcessesError(f"process {error.error_index} of {world_size}: {last}") from error
        except ProcessExitedException as error:
            reason = f"died of {error.signal_name}" if error.signal_name else f"ended with exit code {error.exit_code}"
            printed = (Path(directory) / f"{error.error_index}.log").read_text(errors="replace").strip().splitlines()
            last = f"; it printed: {printed[-1]}" if printed else ""
            raise ProcessesError(f"process {error.error_index} of {world_size}: the process {reason}{last}") from error
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        return [pickle.loads((Path(directory) / str(rank)).read_bytes()) for rank in range(world_size)]  # noqa: S301


def _join_and_work(rank: int, work: Callable[[], object], world_size: int, directory: Path, timeout: float) -> None:
    """The work of one process. Its result goes to a file, and so does what gloo prints."""
    torch.set_num_threads(1)  # Several processes run side by side.
    with (directory / f"{rank}.log").open("wb") as log:
        os.dup2(log.fileno(), 2)
    if "GLOO_SOCKET_IFNAME" not in os.environ and hasattr(socket, "if_nameindex"):
        # The loopback device: the machine's own name may not resolve to this machine.
        for name in {name for _, name in socket.if_nameindex()} & {"lo", "lo0"}:
            os.environ["GLOO_SOCKET_IFNAME"] = name
    patience = timedelta(seconds=timeout)
    with processes.gloo_world(directory / "store", number=rank, count=world_size, timeout=patience):
        result = work()
    (directory / str(rank)).write_bytes(pickle.dumps(result))


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to use a loss.

    Args:
        sizes: Samples of each process, repeated if there are more processes.
        views: Views of each sample.
        named: Whether samples have ids. Some ids then occur twice, in one process, in two, and in later steps.
        grouped: Whether samples have known groups. Groups then reach over processes and into later steps.
        reduction: How the losses of the anchors are reduced.
        remembered: Use a memory bank instead of the batch, for several steps.
    """

    sizes: tuple[int, ...]
    views: int = 2
    named: bool = False
    grouped: bool = False
    reduction: Reduction = "mean"
    remembered: bool = False

    @property
    def by_rank(self) -> list[int]:
        """Number of samples of every process."""
        return list(itertools.islice(itertools.cycle(self.sizes), processes.world_size()))

    @property
    def own(self) -> slice:
        """The rows of this process."""
        start = sum(self.by_rank[: processes.rank()])
        return slice(start, start + self.by_rank[processes.rank()])

    def batch(self, step: int = 0) -> tuple[Float[Tensor, "view batch dim"], dict[str, Int[Tensor, " batch"]]]:
        """The whole batch of a training step, the same in all processes: its views; and labels, ids and groups.

        These are labels, ids and groups, if it has some.
        """
        total = sum(self.by_rank)
        generator = torch.Generator().manual_seed(step)
        sample = torch.randn(total, DIM, dtype=torch.float64, generator=generator)
        noise = torch.randn(self.views, total, DIM, dtype=torch.float64, generator=generator)
        numbers = torch.arange(total)
        known = {"labels": numbers % 3}
        if self.named:
            numbers = known["ids"] = (numbers + 2 * step) % (total - 3)
        if self.grouped:  # Groups of six lie within classes of three. Every fifth sample is in none.
            known["groups"] = torch.where(numbers % 5 == 4, -1, numbers % 6)
        return sample + noise, known

    def make_loss(self, name: str, **settings: bool) -> ContrastiveLoss:
        """Make a loss, in double precision, with an empty memory bank if the case has one."""
        make = partial(LOSSES[name], reduction=self.reduction, **settings)
        # Not a multiple of the batch size, so that a batch is split where the queue wraps around.
        size = 3 * sum(self.by_rank) // 2 + 1
        return make(memory_bank_size=(size, ENCODED_DIM)).double() if self.remembered else make()


EQUAL, UNEQUAL = (6,), (7, 1, 4)
CASES = (
    Case(sizes=EQUAL),
    Case(sizes=UNEQUAL),
    Case(sizes=UNEQUAL, reduction="sum"),
    Case(sizes=UNEQUAL, reduction="none"),
    Case(sizes=UNEQUAL, named=True),
    Case(sizes=UNEQUAL, grouped=True),
    Case(sizes=(3, 5), views=3),
    Case(sizes=(270, 20)),  # Several tiles of the streaming form.
    Case(sizes=EQUAL, remembered=True),
    Case(sizes=UNEQUAL, remembered=True, reduction="sum"),
    Case(sizes=UNEQUAL, remembered=True, named=True),
    Case(sizes=UNEQUAL, remembered=True, named=True, grouped=True),
)
"""The uses of a loss that can each fail in a different way."""


def compare_losses() -> Differences:
    """Compare all losses in all cases; a memory bank holds no labels, so losses that need them have no such case."""
    found: Differences = {}
    for name, make in LOSSES.items():
        labelled = "labels" in make().accepts  # These losses have no memory bank.
        found |= compare_loss(name, [case for case in CASES if not (case.remembered and labelled)])
    return found


def compare_loss(name: str, cases: Iterable[Case], *, gather_distributed: bool = True) -> Differences:
    """Compare one of the `LOSSES`, computed by all processes together, with the same loss in one process.

    Without `gather_distributed`, each process computes its loss alone, and the comparison must notice it.
    """
    encoder = _make_encoder()
    parallel = DistributedDataParallel(encoder)
    found: Differences = {}
    for case, form in itertools.product(cases, ("dense", "streaming")):
        alone = case.make_loss(name, streaming=False)
        together = case.make_loss(name, streaming=form == "streaming", gather_distributed=gather_distributed)
        for step in range(STEPS if case.remembered else 1):
            views, known = case.batch(step)
            loss, gradient = _loss_and_gradient(alone, encoder, views, known)
            if case.reduction == "none":  # Each process has its own anchors; the gradient of their sum is averaged.
                loss = loss.view(case.views, -1)[:, case.own].flatten()
                gradient = gradient / processes.world_size()
            known = {each: values[case.own] for each, values in known.items()}
            own_loss, own_gradient = _loss_and_gradient(together, parallel, views[:, case.own], known)
            differences = [relative_difference(own_loss, loss), relative_difference(own_gradient, gradient)]
            if case.remembered:
                differences.append(_memory_difference(together, alone))
            if alone.last is not None and alone.last.floored > 0.5:
                differences.append(math.inf)  # Equal losses would prove little about a correction.
            title = f"{name}, {'memory bank, ' if case.remembered else ''}{form}"
            found.setdefault(title, []).append(max(differences))
    return found


def _loss_and_gradient(
    loss: ContrastiveLoss, encoder: nn.Module, views: Tensor, known: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """The loss of encoded views, and its gradient by the parameters of the encoder."""
    encoder.zero_grad()
    # All views in one pass: DistributedDataParallel expects one forward pass for each backward pass.
    encoded = encoder(views.flatten(0, 1)).chunk(len(views))
    value: Tensor = loss(*encoded, **{name: values for name, values in known.items() if name in loss.accepts})
    # Not autograd.grad: DistributedDataParallel averages the gradients that backward() stores in the parameters.
    value.sum().backward()
    gradients = [leaf.grad.flatten() for leaf in encoder.parameters() if leaf.grad is not None]
    return value.detach(), torch.cat(gradients)


def _memory_difference(loss: ContrastiveLoss, alone: ContrastiveLoss) -> float:
    """The largest difference between memory banks; infinite if processes hold different ones."""
    state, expected = (torch.cat([buffer.flatten().double() for buffer in one.buffers()]) for one in (loss, alone))
    everywhere = processes.gather(state[None], [1] * processes.world_size())
    return float((state - expected).abs().max()) if bool((everywhere == state).all()) else math.inf


def _make_encoder() -> nn.Linear:
    """The same small encoder in every process."""
    encoder = nn.Linear(DIM, ENCODED_DIM, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(generator=generator)
    return encoder
