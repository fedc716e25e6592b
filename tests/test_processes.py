"""Many processes do what one does. Started as a program, this file is one of them."""

import itertools
import json
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from pucl import NTXentLoss, PUCLLoss, cli, doctor, processes
from pucl.doctor import worker
from pucl.doctor.worker import EQUAL, LOSSES, UNEQUAL, Agreement, Trial, agreements, every_trial, worst

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
    whole = UNEQUAL.batch()
    alone, together = PUCLLoss(temperature=0.2), PUCLLoss(temperature=0.2, gather_distributed=True)
    alone(*whole.views)
    together(*whole.of(UNEQUAL.own).views)
    assert alone.last is not None
    assert together.last is not None
    assert 0 < alone.last.floored < 0.5
    for name in ("floored", "positive_similarity", "unlabelled_similarity"):
        assert torch.allclose(getattr(alone.last, name), getattr(together.last, name)), name


def one_sample_in_each_process_is_enough() -> None:
    loss = NTXentLoss(gather_distributed=True)
    assert loss(torch.randn(1, 4), torch.randn(1, 4)).isfinite()


def compiled_is_the_same() -> None:
    if processes.world_size() > 2:
        return  # Compiling takes seconds; once is enough.
    whole, own = UNEQUAL.batch(), UNEQUAL.own
    expected = PUCLLoss()(*whole.views)
    loss = torch.compile(PUCLLoss(gather_distributed=True), backend="eager")
    views = [view.clone().requires_grad_() for view in whole.of(own).views]
    value = loss(*views)
    value.backward()
    assert float((value.detach() - expected).abs()) < 1e-12
    assert all(view.grad is not None for view in views)


SCENES: list[Callable[[], None]] = [
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


def faulty_trials(*, gathered: bool = True) -> list[dict[str, Any]]:
    """Whether each of a few uses of a loss seems well, to itself."""
    report = []
    for encoded, remembered in itertools.product((False, True), repeat=2):
        trial = Trial(loss="PUCLLoss", division=EQUAL, reduction="mean", encoded=encoded, remembered=remembered)
        found = worst(agreements([trial], gather_distributed=gathered))
        holds = {agreement.form: agreement.holds for agreement in found}
        report.append({"encoded": encoded, "remembered": remembered, "holds": holds})
    return report


def main(arguments: Sequence[str]) -> None:
    """Join a world, do in it what the first argument says, and print what came of it as JSON."""
    task, number, count, meeting, seconds = arguments
    with processes.gloo_world(
        Path(meeting), number=int(number), count=int(count), timeout=timedelta(seconds=float(seconds))
    ):
        report: dict[str, Any] = {"scenes": {}}
        for scene in SCENES:
            try:
                scene()
            except Exception:
                report["scenes"][scene.__name__] = traceback.format_exc()
        if task == "certify":
            report["agreements"] = [asdict(agreement) for agreement in worst(agreements(every_trial()))]
        else:
            report["faults"] = {"nothing is gathered": faulty_trials(gathered=False)}
            for fault, patch in FAULTS.items():
                with patch():
                    report["faults"][fault] = faulty_trials()
    json.dump(report, sys.stdout)


# The tests. Each world is started once, for all that is to be done in it.


@pytest.mark.slow
def test_two_processes_do_what_one_does_says_the_doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "find_half_precision", list)

    assert cli.main(["doctor", "--world-size", "2"]) == 0

    printed = capsys.readouterr().out
    assert "2 processes against one" in printed
    for loss in LOSSES:
        assert re.search(rf"ok +{loss} +dense +\d+ +\d\.\de-1\d +\d\.\de-1\d\n", printed), loss
        assert re.search(rf"ok +{loss} +streaming +\d+ +\d\.\de-1\d +\d\.\de-1\d\n", printed), loss
        assert (loss == "OracleLoss") != bool(re.search(rf"ok +{loss} +memory bank, dense ", printed)), loss
    assert "FAILED" not in printed


@pytest.mark.slow
def test_three_processes_do_what_one_does() -> None:
    reports = [json.loads(text) for text in doctor.run_together([__file__, "certify"], 3)]

    assert [report["scenes"] for report in reports] == [{}] * 3
    certificate = worst(Agreement(**record) for report in reports for record in report["agreements"])
    assert [agreement for agreement in certificate if not agreement.holds] == []
    # Every loss against the batch, dense and streaming, and all but the oracle against a memory bank.
    assert len(certificate) == 4 * len(LOSSES) - 2
    assert all(0 < agreement.gradient_difference < 1e-13 for agreement in certificate), "suspiciously good or bad"


@pytest.mark.slow
def test_the_comparison_sees_faults() -> None:
    reports = [json.loads(text) for text in doctor.run_together([__file__, "fail"], 2)]

    assert [report["scenes"] for report in reports] == [{}] * 2
    for fault, trials in reports[0]["faults"].items():
        for number, trial in enumerate(trials):
            seen = [not all(report["faults"][fault][number]["holds"].values()) for report in reports]
            assert any(seen) == _matters(fault, remembered=trial["remembered"]), (fault, trial)


def _matters(fault: str, *, remembered: bool) -> bool:
    """With a memory bank nothing that has a gradient is gathered; without, only ids and rows must go together."""
    return {
        "the backward pass keeps its own part": not remembered,
        "rows come in another order everywhere": remembered,
    }.get(fault, True)


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


def test_a_difference_that_is_no_number_is_not_overlooked() -> None:
    nan, one = torch.tensor([float("nan")]), torch.ones(1)

    for found, expected in ((nan, one), (one, nan), (one / 0, one)):
        assert worker._difference(found, expected) == float("inf")
    assert worker._difference(one * 3, one * 4) == 0.25
    assert worker._difference(one, one * 0) == 1


@pytest.mark.parametrize("field", ["loss_difference", "gradient_difference", "queue_difference", "floored"])
def test_an_agreement_is_as_good_as_its_worst_case(field: str) -> None:
    good = Agreement(loss="NTXentLoss", form="dense", cases=1, loss_difference=1e-16, gradient_difference=1e-16)
    bad = Agreement(**{**asdict(good), field: 0.6})
    other = Agreement(**{**asdict(good), "form": "streaming"})

    assert good.holds
    assert not bad.holds
    first, second = worst([good, other, bad, good])
    assert (first.cases, getattr(first, field), first.holds) == (3, 0.6, False)
    assert second == other


def test_a_process_that_fails_ends_the_others() -> None:
    begin = time.monotonic()
    program = "import sys, time; sys.exit('ValueError: out of luck') if sys.argv[1] == '1' else time.sleep(60)"

    with pytest.raises(doctor.ProcessesError, match=r"^process 1 of 2: ValueError: out of luck$"):
        doctor.run_together(["-c", program], 2)
    assert time.monotonic() - begin < 20


def test_a_process_that_dies_is_named() -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    with pytest.raises(doctor.ProcessesError, match=r"process 0 of 2: the process died of SIGKILL"):
        doctor.run_together(["-c", program], 2)


def test_processes_that_never_end_are_not_waited_for() -> None:
    with pytest.raises(doctor.ProcessesError, match=r"2 processes did not finish within 0.5 s"):
        doctor.run_together(["-c", "import time; time.sleep(60)"], 2, timeout=0.5)


if __name__ == "__main__":
    main(sys.argv[1:])
