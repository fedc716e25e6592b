"""Many processes do what one does."""

import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pucl import NTXentLoss, PUCLLoss, cli, doctor, processes
from pucl.doctor import Finding, checks, together
from pucl.doctor.together import EQUAL, LOSSES, UNEQUAL, Case, compare_loss
from worlds import results_together

CPU = torch.device("cpu")
SIZES = (3, 1, 2)


# In a world of many processes, each of them runs all of these.


def own_rows() -> tuple[Tensor, Tensor, list[int]]:
    """Rows of this process, rows of all, and how many each process has: one of them a single one."""
    sizes = list(SIZES[: processes.world_size()])
    whole = torch.arange(sum(sizes) * 2, dtype=torch.float64).view(-1, 2)
    start = sum(sizes[: processes.rank()])
    return whole[start : start + sizes[processes.rank()]].clone(), whole, sizes


def raised(function: Callable[[], object]) -> str:
    """The error of a function that should have one."""
    try:
        function()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""


def gathers_unequal_sizes() -> None:
    own, whole, sizes = own_rows()
    assert processes.gather_sizes(len(own), CPU) == sizes
    assert torch.equal(processes.gather(own, sizes), whole)


def gathers_equal_sizes() -> None:
    gathered = processes.gather(torch.full((2, 3), processes.rank()), [2] * processes.world_size())
    assert gathered[:, 0].tolist() == [rank for rank in range(processes.world_size()) for _ in range(2)]


def gathers_nothing_from_one_process() -> None:
    sizes = [0, *[2] * (processes.world_size() - 1)]
    gathered = processes.gather(torch.full((sizes[processes.rank()],), processes.rank()), sizes)
    assert gathered.tolist() == [rank for rank in range(1, processes.world_size()) for _ in range(2)]


def gathers_any_type() -> None:
    own, whole, sizes = own_rows()
    for dtype in (torch.int64, torch.int32, torch.float32, torch.float16, torch.bfloat16, torch.bool):
        gathered = processes.gather(own.to(dtype), sizes)
        assert gathered.dtype == dtype
        assert torch.equal(gathered, whole.to(dtype))
        assert not gathered.requires_grad


def releases_the_process_group() -> None:
    """A reference that is left would keep the group's threads, which abort a process that ends while they work."""
    held = sys.getrefcount(dist.group.WORLD)
    own, _, sizes = own_rows()
    processes.gather_sizes(len(own), CPU)
    processes.gather(own, sizes)
    processes.sum_over_processes(own.sum())
    DistributedDataParallel(torch.nn.Linear(2, 2, dtype=torch.float64))(own).sum().backward()
    assert sys.getrefcount(dist.group.WORLD) == held


def gathers_any_strides() -> None:
    own, whole, sizes = own_rows()
    assert torch.equal(processes.gather(own.T.contiguous().T, sizes), whole)
    equal = torch.arange(6.0).view(2, 3).T
    assert torch.equal(processes.gather(equal, [3] * processes.world_size())[:3], equal)


def gradient_is_what_all_processes_found_out() -> None:
    own, whole, sizes = own_rows()
    own.requires_grad_()
    # Process r weighs row i by (r + 1) * (i + 1), so by hand row i has the gradient (1 + 2 + ...) * (i + 1).
    row = torch.arange(1.0, len(whole) + 1, dtype=torch.float64)[:, None]
    ((processes.rank() + 1) * row * processes.gather(own, sizes)).sum().backward()
    start = sum(sizes[: processes.rank()])
    everybody = sum(range(1, processes.world_size() + 1))
    expected = (everybody * row).expand(-1, 2)[start : start + len(own)]
    assert own.grad is not None
    assert torch.equal(own.grad, expected)


def gradient_may_have_any_strides() -> None:
    own, _, sizes = own_rows()
    own.requires_grad_()
    # The gradient of a sum is one number, expanded.
    (gradient,) = torch.autograd.grad(processes.gather(own, sizes).sum(), own)
    assert torch.equal(gradient, torch.full_like(own, processes.world_size()))
    gathered = processes.gather(own, sizes)
    column = torch.arange(2.0, dtype=torch.float64)[:, None]
    (gradient,) = torch.autograd.grad((gathered.T.contiguous() * column).sum(), own)
    assert torch.equal(gradient, (processes.world_size() * column).T.expand_as(own))


def evaluation_needs_no_gradient() -> None:
    own, whole, sizes = own_rows()
    own.requires_grad_()
    with torch.no_grad():
        assert not processes.gather(own, sizes).requires_grad
    with torch.inference_mode():
        assert torch.equal(processes.gather(own, sizes), whole)
        assert processes.gather_sizes(len(own), CPU) == sizes
        loss = PUCLLoss(gather_distributed=True)(own, own + 1)
    whole_loss = PUCLLoss()(whole, whole + 1)
    assert float((loss - whole_loss).abs()) < 1e-12


def autocast_changes_nothing() -> None:
    # On the CPU autocast is left to float16 here: bfloat16 kills some machines.
    torch.manual_seed(0)
    views = [torch.randn(6, 4).requires_grad_() for _ in range(2)]
    losses = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
            losses.append(PUCLLoss(gather_distributed=True)(*views, ids=torch.arange(6) + 6 * processes.rank()))
    assert torch.equal(*losses)
    losses[1].backward()
    assert all(view.grad is not None and view.grad.dtype == torch.float32 for view in views)


def second_derivative_is_refused() -> None:
    own, _, sizes = own_rows()
    own.requires_grad_()
    (gradient,) = torch.autograd.grad(processes.gather(own, sizes).square().sum(), own, create_graph=True)
    assert "once_differentiable" in raised(lambda: torch.autograd.backward(gradient.sum()))


def sums_over_processes() -> None:
    total = processes.sum_over_processes(torch.tensor([1.0, processes.rank()]).requires_grad_())
    assert total.tolist() == [processes.world_size(), sum(range(processes.world_size()))]
    assert not total.requires_grad


def unlike_processes_are_told_so() -> None:
    alike = {"views": 2, "dim": 8 + processes.rank()}
    message = raised(lambda: processes.gather_sizes(4, CPU, alike=alike))
    assert message.startswith("dim goes for all processes")
    assert "8 in process 0, 9 in process 1" in message
    assert processes.gather_sizes(4, CPU, alike={"dim": 8}) == [4] * processes.world_size()


def wrong_sizes_are_refused() -> None:
    own, _, sizes = own_rows()
    assert "how many rows each process has" in raised(lambda: processes.gather(own, [size + 1 for size in sizes]))
    assert "how many rows each process has" in raised(lambda: processes.gather(own, sizes[:1]))


def what_is_reported_speaks_for_all() -> None:
    case = Case(sizes=UNEQUAL)
    whole, _ = case.batch()
    alone, gathered = PUCLLoss(temperature=0.2), PUCLLoss(temperature=0.2, gather_distributed=True)
    alone(*whole)
    gathered(*whole[:, case.own])
    assert alone.last is not None
    assert gathered.last is not None
    assert 0 < alone.last.floored < 0.5
    for name in ("floored", "positive_similarity", "unlabelled_similarity"):
        assert torch.allclose(getattr(alone.last, name), getattr(gathered.last, name)), name


def one_sample_in_each_process_is_enough() -> None:
    loss = NTXentLoss(gather_distributed=True)
    assert loss(torch.randn(1, 4), torch.randn(1, 4)).isfinite()


def compiled_is_the_same() -> None:
    if processes.world_size() > 2:
        return  # Compiling takes seconds; once is enough.
    case = Case(sizes=UNEQUAL)
    whole, _ = case.batch()
    expected = PUCLLoss()(*whole)
    loss = torch.compile(PUCLLoss(gather_distributed=True), backend="eager")
    views = [view.clone().requires_grad_() for view in whole[:, case.own]]
    value = loss(*views)
    value.backward()
    assert float((value.detach() - expected).abs()) < 1e-12
    assert all(view.grad is not None for view in views)


SCENES: list[Callable[[], None]] = [
    releases_the_process_group,  # First: the others may have imported the compiler.
    gathers_unequal_sizes,
    gathers_equal_sizes,
    gathers_nothing_from_one_process,
    gathers_any_type,
    gathers_any_strides,
    gradient_is_what_all_processes_found_out,
    gradient_may_have_any_strides,
    evaluation_needs_no_gradient,
    autocast_changes_nothing,
    second_derivative_is_refused,
    sums_over_processes,
    unlike_processes_are_told_so,
    wrong_sizes_are_refused,
    what_is_reported_speaks_for_all,
    one_sample_in_each_process_is_enough,
    compiled_is_the_same,
]


# Faults that peers have had. The certificate must see each of them.


def _without_the_sum(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
    start = sum(ctx.sizes[: processes.rank()])
    return gradients[0][start : start + ctx.sizes[processes.rank()]], None


def _without_order(tensor: Tensor, sizes: list[int]) -> Tensor:
    """The rows of this process first, whatever its rank."""
    parts = list(torch.split(GATHER(tensor, sizes), sizes))
    return torch.cat([parts.pop(processes.rank()), *parts])


GATHER = processes.gather

FAULTS: dict[str, Callable[[], Any]] = {
    "the backward pass keeps its own part": lambda: mock.patch.object(
        processes._Gather, "backward", staticmethod(_without_the_sum)
    ),
    "the loss is of the own anchors": lambda: mock.patch.object(
        processes, "sum_over_processes", lambda tensor: tensor.detach() * processes.world_size()
    ),
    "rows come in another order everywhere": lambda: mock.patch.object(processes, "gather", _without_order),
}


def failed_scenes() -> dict[str, str]:
    """The traceback of each scene that fails."""
    failed = {}
    for scene in SCENES:
        try:
            scene()
        except Exception:
            failed[scene.__name__] = traceback.format_exc()
    return failed


def scenes_and_comparison() -> tuple[dict[str, str], dict[str, list[float]]]:
    return failed_scenes(), together.compare_losses()


def scenes_and_faults() -> tuple[dict[str, str], dict[str, list[bool]]]:
    """By fault: whether this process notices it, against the batch and against a memory bank."""

    def notices(*, gathered: bool = True) -> list[bool]:
        cases = (Case(sizes=EQUAL), Case(sizes=EQUAL, remembered=True))
        found = [compare_loss("PUCLLoss", [case], gather_distributed=gathered) for case in cases]
        return [max(map(max, each.values())) > together.TOLERANCE for each in found]

    noticed = {"nothing is gathered": notices(gathered=False)}
    for fault, patch in FAULTS.items():
        with patch():
            noticed[fault] = notices()
    return failed_scenes(), noticed


# The tests. Each world is started once, for all that is to be done in it.


@pytest.mark.slow
def test_two_processes_do_what_one_does_says_the_doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "find_half_precision", list)

    assert cli.main(["doctor", "--world-size", "2"]) == 0

    printed = capsys.readouterr().out
    assert "2 processes against one" in printed
    for loss in LOSSES:
        for form in ("dense", "streaming"):
            assert re.search(rf"ok +{loss}, {form} +differs by \de-1\d in \d+ comparisons: rounding\n", printed), loss
            remembered = re.search(rf"ok +{loss}, memory bank, {form} +differs by ", printed)
            assert (loss in ("OracleLoss", "SupConLoss")) != bool(remembered), loss
    assert "FAILED" not in printed


@pytest.mark.slow
def test_three_processes_do_what_one_does() -> None:
    reports = results_together(__file__, "scenes_and_comparison", 3)

    assert [failed for failed, _ in reports] == [{}] * 3
    for _, differences in reports:
        # Every loss against the batch, dense and streaming, and all but the two oracles against a memory bank.
        assert len(differences) == 4 * len(LOSSES) - 2 * 2
        assert all(0 < max(each) < 1e-13 for each in differences.values()), "suspiciously good or bad"


@pytest.mark.slow
def test_the_comparison_sees_faults() -> None:
    reports = results_together(__file__, "scenes_and_faults", 2)

    assert [failed for failed, _ in reports] == [{}] * 2
    for fault in reports[0][1]:
        in_batch, in_memory = (any(noticed[fault][number] for _, noticed in reports) for number in (0, 1))
        assert (in_batch, in_memory) == NOTICED.get(fault, (True, True)), fault


NOTICED = {
    # With a memory bank, nothing that has a gradient is gathered.
    "the backward pass keeps its own part": (True, False),
    # Against the batch, only ids and rows must go together.
    "rows come in another order everywhere": (False, True),
}


def test_one_process_is_a_world_of_its_own() -> None:
    rows = torch.randn(4, 3, requires_grad=True)

    assert (processes.world_size(), processes.rank()) == (1, 0)
    assert processes.gather_sizes(4, CPU, alike={"dim": 3}) == [4]
    assert processes.gather(rows, [4]) is rows
    assert torch.equal(processes.sum_over_processes(rows), rows)
    assert not processes.sum_over_processes(rows).requires_grad


def test_a_world_of_one_process_is_no_other(tmp_path: Path) -> None:
    rows = torch.randn(4, 3, requires_grad=True)
    views = torch.randn(2, 6, 3)
    expected = PUCLLoss()(*views)

    with processes.gloo_world(tmp_path / "meeting", number=0, count=1, timeout=timedelta(seconds=20)):
        assert (processes.world_size(), processes.rank()) == (1, 0)
        assert processes.gather_sizes(4, CPU) == [4]
        assert processes.gather(rows, [4]) is rows
        assert torch.equal(processes.sum_over_processes(rows), rows)
        assert torch.equal(PUCLLoss(gather_distributed=True)(*views), expected)
    assert torch.equal(PUCLLoss(gather_distributed=True)(*views), expected)


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 1 numbers, 4 for this process \(0\), got \[3\]"):
        processes.gather(torch.randn(4, 3), [3])


def test_a_difference_between_processes_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [{"NTXentLoss, dense": [0.0, 2e-16], "RingLoss, dense": [0.0, 0.0]}]
    reports.append({"NTXentLoss, dense": [1e-16, 0.0], "RingLoss, dense": [0.5, 0.0]})
    monkeypatch.setattr(together, "run_together", lambda *_, **__: reports)

    assert doctor.certify(2) == [
        Finding(name="NTXentLoss, dense", value="differs by 2e-16 in 4 comparisons: rounding"),
        Finding(
            name="RingLoss, dense", value="differs by 5e-01 in 4 comparisons", verdict="FAILED", advice=together.ADVICE
        ),
    ]


def fail_in_one() -> None:
    if processes.rank() == 1:
        raise ValueError("out of luck")
    time.sleep(60)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep() -> None:
    time.sleep(60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("fail_in_one", r"^process 1 of 2: ValueError: out of luck$"),
        ("die", r"process \d of 2: the process died of SIGKILL"),
    ],
)
def test_a_process_that_fails_ends_the_others(work: str, message: str) -> None:
    begin = time.monotonic()
    with pytest.raises(doctor.ProcessesError, match=message):
        results_together(__file__, work, 2)
    assert time.monotonic() - begin < 40


def test_processes_that_never_end_are_not_waited_for() -> None:
    with pytest.raises(doctor.ProcessesError, match=r"2 processes did not finish within 0.5 s"):
        doctor.run_together(time.time, 2, timeout=0.5)
