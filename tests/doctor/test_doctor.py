"""The doctor reports what is installed, what is missing, and what is wrong."""

import os
import re
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import pucl
from pucl import devices, processes
from pucl.cli import main
from pucl.doctor import Finding, checks


@pytest.fixture
def no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not try half precision: the child process takes seconds to import torch."""
    monkeypatch.setattr(checks, "find_half_precision", lambda: [Finding(name="bfloat16", value="not tried")])


@pytest.mark.slow
def test_the_command_finds_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0

    printed = capsys.readouterr().out
    for version in (sys.version.split()[0], pucl.__version__, torch.__version__):
        assert version in printed
    assert re.search(r"ok +speed +\d+ GFLOP/s", printed)
    assert re.search(r"(ok|no) +bfloat16 +(yes|no) \(", printed)
    assert re.search(r"(ok|no) +float16 +(yes|no) \(", printed)
    assert printed.endswith("All checks passed.\n")


def test_the_losses_are_right() -> None:
    assert [finding.verdict for finding in checks.find_losses()] == ["ok"] * 4


@pytest.mark.parametrize(
    ("result", "value"),
    [((False, "it is green"), "it is green"), (RuntimeError("no tensor today"), "RuntimeError: no tensor today")],
)
def test_a_check_that_fails_or_breaks_is_an_exit_code(
    result: tuple[bool, str] | Exception,
    value: str,
    no_children: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def check() -> tuple[bool, str]:
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setitem(checks.LOSS_CHECKS, "PUCL = DEB at tau'", check)

    assert main(["doctor"]) == 1

    printed = capsys.readouterr().out
    assert re.search(rf"FAILED +PUCL = DEB at tau' +{value}\n", printed)
    assert f"1 of the checks failed:\n- PUCL = DEB at tau': {value}. do not trust results" in printed


def test_a_loss_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    taus = iter([0.1, 0.1 + 1e-6, 0.1])
    monkeypatch.setattr(checks, "HardLoss", lambda **settings: pucl.HardLoss(**{"tau_plus": next(taus), **settings}))
    monkeypatch.setattr(checks, "DebiasedLoss", lambda tau_plus=0.1, **_: pucl.DebiasedLoss(tau_plus=tau_plus + 1e-6))
    monkeypatch.setattr(checks, "NTXentLoss", lambda **_: pucl.NTXentLoss(temperature=0.500001))

    for check in list(checks.LOSS_CHECKS.values())[:3]:
        holds, value = check()
        assert not holds
        assert "more than 1e-10" in value


def test_a_gradient_that_is_no_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = torch.tensor(float("nan"))
    monkeypatch.setattr(checks, "_value_and_gradient", lambda _loss, _views: (torch.zeros(()), nothing))

    finding = checks.find_losses()[3]

    assert finding.verdict == "FAILED"
    assert finding.value == "not finite for NTXentLoss, DebiasedLoss, HardLoss, RingLoss, PUCLLoss"


def test_floored_anchors_prove_nothing() -> None:
    views = [torch.eye(4, dtype=torch.float64)] * 2

    assert checks._difference(pucl.PUCLLoss(alpha=0.5), pucl.PUCLLoss(alpha=0.5), views) == float("inf")


def test_a_difference_that_is_no_number_is_not_overlooked() -> None:
    nan, one = torch.tensor([float("nan")]), torch.ones(1)

    for found, expected in ((nan, one), (one, nan), (one / 0, one), (one, torch.ones(2))):
        assert checks.relative_difference(found, expected) == float("inf")
    assert checks.relative_difference(one * 3, one * 4) == 0.25
    assert checks.relative_difference(one, one * 0) == 1


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "no (the process died of SIGILL)"),
        (
            "import os, signal; 'ONEDNN_MAX_CPU_ISA' in os.environ or os.kill(os.getpid(), signal.SIGILL)",
            "no (the process died of SIGILL); with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 it works",
        ),
        ("raise NotImplementedError('no such product')", "no (NotImplementedError: no such product)"),
        ("import sys; sys.exit(3)", "no (exit code 3)"),
        ("import time; time.sleep(60)", "no (no answer in 0 s)"),
    ],
)
def test_half_precision_that_fails_is_explained_and_no_fault(
    program: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(devices, "HALF_PRECISION", program)
    if "sleep" in program:
        monkeypatch.setattr(devices, "PATIENCE", 0.2)

    assert [(finding.verdict, finding.value) for finding in checks.find_half_precision()] == [("no", value)] * 2


def test_missing_extras_come_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def without_matplotlib(package: str) -> str:
        if package == "matplotlib":
            raise metadata.PackageNotFoundError
        return version(package)

    monkeypatch.setattr(metadata, "version", without_matplotlib)
    found = {finding.name: finding for finding in checks.find_extras()}

    plot = found["extra plot"]
    assert (plot.verdict, plot.value) == ("no", "not installed: pip install '.[plot]' where pucl's sources are")
    assert {"extra peers", "extra dev"} <= found.keys()
    assert "extra all" not in found


def test_an_old_torch_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "1.9.1+cpu")
    torch_finding = next(finding for finding in checks.find_packages() if finding.name == "torch")

    assert torch_finding.verdict == "FAILED"
    assert torch_finding.advice.startswith("pip install --upgrade 'torch>=")


def test_without_a_package_the_essentials_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", unknown)

    assert [finding.name for finding in checks.find_packages()] == ["Python", "pucl", "torch", "numpy"]
    assert checks.find_extras() == []


def test_memory_is_read_where_the_system_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       2097152 kB\nMemFree: 1 kB\nMemAvailable:    1048576 kB\n")
    assert checks.find_memory(tmp_path / "meminfo").value.endswith(" GiB, 1.0 GiB available")
    assert "available" not in checks.find_memory(tmp_path / "none").value
    monkeypatch.delattr(os, "sysconf")
    assert (checks.find_memory().verdict, checks.find_memory().value) == ("no", "unknown on this system")


def test_accelerators_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"card {index}")
    monkeypatch.setattr(torch.backends, "mps", SimpleNamespace(is_available=lambda: True))

    assert [finding.value for finding in checks.find_devices()][:2] == ["card 0, card 1", "yes"]


@pytest.mark.parametrize("world_size", [-3, 0, 1, 100_000])
def test_world_sizes_that_make_no_sense_are_refused(world_size: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", f"--world-size={world_size}"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(rf"world size is the number of processes .*: expected 2 to \d+ .*, got {world_size}", printed.err)
    assert ("nothing to be compared with" in printed.err) == (world_size == 1)


def test_no_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--world-size=2", "--timeout=0"]) == 2
    assert "expected seconds > 0, got 0" in capsys.readouterr().err


def test_processes_that_cannot_start_are_an_exit_code(
    no_children: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "gloo_is_available", lambda: False)

    assert main(["doctor", "--world-size", "2"]) == 1

    printed = capsys.readouterr().out
    assert re.search(r"no +torch.distributed +this build of torch has no gloo", printed)
    assert "- 2 processes: this build of torch has no gloo" in printed
