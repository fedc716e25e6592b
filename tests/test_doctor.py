"""The doctor tells what is there, what is not, and what is wrong."""

import re
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import pucl
from pucl import devices, doctor, processes
from pucl.cli import main
from pucl.doctor import Certificate, Finding, installation, losses, machine
from pucl.doctor.worker import Agreement

SELF_CHECKS = [
    "check_dense_equals_streaming",
    "check_pucl_equals_debiased",
    "check_alpha_zero_equals_plain",
    "check_gradients_are_finite",
]


@pytest.fixture
def no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half precision is not tried out: a child takes seconds to import torch."""
    monkeypatch.setattr(doctor, "find_half_precision", lambda: [Finding(name="bfloat16", value="not tried")])


@pytest.mark.slow
def test_the_command_finds_all_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0

    printed = capsys.readouterr().out
    for version in (sys.version.split()[0], pucl.__version__, torch.__version__):
        assert version in printed
    assert re.search(r"(ok|no) +bfloat16 +(yes|no) \(", printed)
    assert re.search(r"(ok|no) +float16 +(yes|no) \(", printed)
    assert printed.endswith("All checks passed.\n")


@pytest.mark.parametrize("check", SELF_CHECKS)
def test_the_losses_are_well(check: str) -> None:
    assert getattr(doctor, check)().verdict == "ok"


@pytest.mark.parametrize("check", SELF_CHECKS)
def test_a_check_that_fails_is_an_exit_code(
    check: str, no_children: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = Finding(name="the sky", value="it is green", verdict="FAILED", advice="look again")
    monkeypatch.setattr(doctor, check, lambda: finding)

    assert main(["doctor"]) == 1

    printed = capsys.readouterr().out
    assert re.search(r"FAILED +the sky +it is green\n", printed)
    assert printed.endswith("1 of the checks failed:\n- the sky: it is green. look again\n")


def test_a_check_that_breaks_has_failed(
    no_children: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Finding:
        raise RuntimeError("no tensor today")

    monkeypatch.setattr(doctor, "check_pucl_equals_debiased", broken)

    assert main(["doctor"]) == 1
    assert "PUCL = DEB at tau': RuntimeError: no tensor today" in capsys.readouterr().out


def test_a_loss_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    taus = iter([0.1, 0.1 + 1e-6])
    monkeypatch.setattr(losses, "HardLoss", lambda **settings: pucl.HardLoss(tau_plus=next(taus), **settings))
    monkeypatch.setattr(losses, "DebiasedLoss", lambda tau_plus: pucl.DebiasedLoss(tau_plus=tau_plus + 1e-6))
    monkeypatch.setattr(losses, "NTXentLoss", lambda **settings: pucl.NTXentLoss(temperature=0.500001, **settings))

    findings = [
        losses.check_dense_equals_streaming(),
        losses.check_alpha_zero_equals_plain(),
    ]
    monkeypatch.setattr(losses, "HardLoss", pucl.HardLoss)
    findings.append(losses.check_pucl_equals_debiased())

    for finding in findings:
        assert finding.verdict == "FAILED"
        assert "more than 1e-10" in finding.value


def test_a_gradient_that_is_no_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = torch.tensor(float("nan"))
    monkeypatch.setattr(losses, "_value_and_gradient", lambda _loss, _views: (torch.zeros(()), nothing))

    finding = losses.check_gradients_are_finite()

    assert finding.verdict == "FAILED"
    assert finding.value == "not finite for NTXentLoss, DebiasedLoss, HardLoss, RingLoss, PUCLLoss"


def test_floored_anchors_prove_nothing() -> None:
    views = [torch.eye(4, dtype=torch.float64)] * 2

    assert losses._difference(pucl.PUCLLoss(alpha=0.5), pucl.PUCLLoss(alpha=0.5), views) == float("inf")


def test_a_processor_that_cannot_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "HALF_PRECISION", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")

    for finding in machine.find_half_precision():
        assert finding.verdict == "no"
        assert finding.value == "no (the process died of SIGILL)"


def test_a_processor_that_can_with_a_setting_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    program = "import os, signal; 'ONEDNN_MAX_CPU_ISA' in os.environ or os.kill(os.getpid(), signal.SIGILL)"
    monkeypatch.setattr(devices, "HALF_PRECISION", program)

    finding, _ = machine.find_half_precision()

    assert finding.value.endswith("SIGILL); with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 it works")


@pytest.mark.parametrize(
    ("program", "fate"),
    [
        ("raise NotImplementedError('no such product')", "no (NotImplementedError: no such product)"),
        ("import sys; sys.exit(3)", "no (exit code 3)"),
        ("import time; time.sleep(60)", "no (no answer in 0 s)"),
    ],
)
def test_half_precision_that_fails_is_explained(program: str, fate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "HALF_PRECISION", program)
    if "sleep" in program:
        monkeypatch.setattr(devices, "PATIENCE", 0.2)

    assert machine.find_half_precision()[1].value == fate


def test_missing_extras_come_with_the_command_that_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def without_matplotlib(package: str) -> str:
        if package == "matplotlib":
            raise metadata.PackageNotFoundError
        return version(package)

    monkeypatch.setattr(metadata, "version", without_matplotlib)
    plot = next(finding for finding in installation.find_extras() if finding.name == "extra plot")

    assert (plot.verdict, plot.value) == ("no", "not installed: pip install '.[plot]' where pucl's sources are")


def test_extras_are_those_of_the_package() -> None:
    names = {finding.name for finding in installation.find_extras()}

    assert {"extra plot", "extra peers", "extra dev"} <= names
    assert "extra all" not in names


def test_an_old_torch_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "1.9.1+cpu")
    torch_finding = next(finding for finding in installation.find_versions() if finding.name == "torch")

    assert torch_finding.verdict == "FAILED"
    assert torch_finding.advice.startswith("pip install --upgrade 'torch>=")


def test_without_a_package_the_essentials_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", unknown)

    assert [finding.name for finding in installation.find_versions()] == ["Python", "pucl", "torch", "numpy"]
    assert installation.find_extras() == []


def test_memory_is_read_where_the_system_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:       2097152 kB\nMemFree: 1 kB\nMemAvailable:    1048576 kB\n")

    assert machine._read_meminfo(told) == (2**31, 2**30)
    assert machine._read_meminfo(tmp_path / "none") is None
    monkeypatch.setattr(machine, "_read_meminfo", lambda: None)
    assert "GiB" in machine.find_memory().value or machine.find_memory().value == "unknown on this system"
    monkeypatch.setattr(machine, "_ask_sysconf", lambda: None)
    assert (machine.find_memory().verdict, machine.find_memory().value) == ("no", "unknown on this system")


@pytest.mark.parametrize("world_size", [-3, 0, 1, 100_000])
def test_world_sizes_that_make_no_sense_are_refused(world_size: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", f"--world-size={world_size}"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(rf"world size is how many processes .*: expected 2 to \d+ .*, got {world_size}", printed.err)
    assert ("nobody to agree with" in printed.err) == (world_size == 1)


def test_no_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--world-size=2", "--timeout=0"]) == 2
    assert "expected seconds > 0, got 0" in capsys.readouterr().err


def test_a_difference_between_processes_is_an_exit_code(
    no_children: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Agreement(loss="NTXentLoss", form="dense", cases=3, loss_difference=1e-16, gradient_difference=2e-16)
    bad = Agreement(loss="RingLoss", form="memory bank, dense", cases=3, loss_difference=0.5, gradient_difference=0.25)
    certificate = Certificate(world_size=3, agreements=[good, bad], seconds=7.0)
    monkeypatch.setattr(doctor, "certify", lambda _, **__: certificate)

    assert main(["doctor", "--world-size", "3"]) == 1

    printed = capsys.readouterr().out
    assert re.search(r"ok +NTXentLoss +dense +3 +1.0e-16 +2.0e-16\n", printed)
    assert re.search(r"FAILED +RingLoss +memory bank, dense +3 +5.0e-01 +2.5e-01 +0.0e\+00\n", printed)
    assert "- 3 processes differ from one: RingLoss (memory bank, dense). Do not train" in printed


def test_processes_that_cannot_start_are_an_exit_code(
    no_children: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "gloo_is_available", lambda: False)

    assert main(["doctor", "--world-size", "2"]) == 1

    printed = capsys.readouterr().out
    assert re.search(r"no +torch.distributed +this build of torch has no gloo", printed)
    assert "- 2 processes: this build of torch has no gloo" in printed


def test_a_certificate_without_agreements_holds_nothing() -> None:
    assert not Certificate(world_size=2).holds
    assert not Certificate(world_size=2, trouble="none came").holds


def test_accelerators_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"card {index}")
    monkeypatch.setattr(torch.backends, "mps", SimpleNamespace(is_available=lambda: True))

    assert [finding.value for finding in machine.find_devices()] == ["card 0, card 1", "yes"]
