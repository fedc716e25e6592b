"""Checks of this process alone: installed packages, the machine, and the losses."""

import math
import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch

import pucl
from pucl import devices, processes
from pucl.losses import ContrastiveLoss, DebiasedLoss, FlooredWarning, HardLoss, NTXentLoss, PUCLLoss, RingLoss
from pucl.shapes import Float, Tensor
from pucl.texts import install

EXACT = 1e-10  # Relative difference of float64 numbers that should be equal.
REINSTALL = "do not trust results of this installation: reinstall torch and pucl, and report it if that does not help"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Args:
        name: What was checked.
        value: What was found.
        verdict: ``"no"``: this machine or installation does not have it, which is no fault. ``"FAILED"``: a fault.
        advice: How to repair a fault.
    """

    name: str
    value: str
    verdict: Literal["ok", "no", "FAILED"] = "ok"
    advice: str = ""


def examine() -> dict[str, list[Finding]]:
    """Run all checks of this process, and return their findings by topic."""
    return {
        "Installation": [*find_packages(), *find_extras()],
        "Machine": [*find_machine(), *find_devices(), *find_half_precision()],
        "Losses": find_losses(),
    }


def find_packages() -> list[Finding]:
    """Python, pucl, and the packages that pucl needs."""
    found = [
        Finding(name="Python", value=f"{platform.python_version()} ({sys.executable})"),
        Finding(name="pucl", value=f"{pucl.__version__} ({Path(pucl.__file__).parent})"),
    ]
    for package, least, version in _requirements().get("", []):
        if _is_enough(version, least):
            found.append(Finding(name=package, value=version))
        else:
            value = f"{version or 'not installed'}; pucl needs {least} or later"
            advice = f"pip install --upgrade '{package}>={least}'"
            found.append(Finding(name=package, value=value, verdict="FAILED", advice=advice))
    return found


def find_extras() -> list[Finding]:
    """The extras of pucl: which are installed, and how to install the others."""
    found = []
    for extra, requirements in _requirements().items():
        there = ", ".join(
            f"{package} {version}" for package, least, version in requirements if _is_enough(version, least)
        )
        missing = ", ".join(package for package, least, version in requirements if not _is_enough(version, least))
        if extra and missing:
            value = f"{f'{there}; without {missing}' if there else 'not installed'}: {install(extra)}"
            found.append(Finding(name=f"extra {extra}", value=value, verdict="no"))
        elif extra:
            found.append(Finding(name=f"extra {extra}", value=there))
    return found


def _requirements() -> dict[str, list[tuple[str, str, str]]]:
    """By extra (empty: always needed), the requirements of pucl: package, least version, installed version or empty."""
    try:
        lines = metadata.requires("pucl") or []
    except metadata.PackageNotFoundError:  # Not installed as a package.
        lines = ["torch", "numpy"]
    found: dict[str, list[tuple[str, str, str]]] = {}
    for line in lines:
        match = re.match(r"([\w.-]+)(?:>=([\d.]+))?.*?(?:extra == ['\"](\w+)['\"])?$", line.strip())
        package, least, extra = match.groups(default="") if match else ("pucl", "", "")
        if package != "pucl" and extra != "all":  # "all" only repeats the other extras.
            try:
                version = metadata.version(package)
            except metadata.PackageNotFoundError:
                version = ""
            found.setdefault(extra, []).append((package, least, version))
    return found


def _is_enough(version: str, least: str) -> bool:
    numbers, wanted = (
        [int(number) for number in re.findall(r"\d+", each.partition("+")[0])] for each in (version, least)
    )
    return bool(numbers) and numbers[:3] >= wanted[:3]


def find_machine() -> list[Finding]:
    """System, cores, threads, speed and memory."""
    cores, threads = devices.usable_cores(), torch.get_num_threads()
    advice = "" if threads <= cores else f", more than cores: set OMP_NUM_THREADS={cores}"
    return [
        Finding(name="system", value=platform.platform()),
        Finding(name="cores", value=str(cores)),
        Finding(name="torch threads", value=f"{threads}{advice}"),
        Finding(name="speed", value=f"{_speed() / 1e9:.0f} GFLOP/s of the CPU, in matrix products of float32"),
        find_memory(),
    ]


def _speed() -> float:
    """Operations per second in a product of two matrices, in the best of five repeats."""
    side = 1024
    matrix, seconds = torch.ones(side, side), []
    for _ in range(5):
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - began)
    return 2 * side**3 / min(seconds)


def find_memory(meminfo: Path = Path("/proc/meminfo")) -> Finding:
    """Total memory, and the available part of it where the system says."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return Finding(name="memory", value="unknown on this system", verdict="no")
    text = meminfo.read_text() if meminfo.exists() else ""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, flags=re.MULTILINE)
    available = f", {int(found[1]) / 2**20:.1f} GiB available" if found else ""
    return Finding(name="memory", value=f"{total / 2**30:.1f} GiB{available}")


def find_devices() -> list[Finding]:
    """Accelerators, and whether several processes can train together."""
    cuda = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    mps, gloo = torch.backends.mps.is_available(), processes.gloo_is_available()
    together = "yes, with gloo; --world-size 2 checks the losses in it" if gloo else "this build of torch has no gloo"
    return [
        Finding(name="CUDA", value=", ".join(cuda) or "no device: the CPU is used", verdict="ok" if cuda else "no"),
        Finding(name="MPS", value="yes" if mps else "no device", verdict="ok" if mps else "no"),
        Finding(name="torch.distributed", value=together, verdict="ok" if gloo else "no"),
    ]


def find_half_precision() -> list[Finding]:
    """Whether bfloat16 and float16 work under autocast, each tried in a child process: it can kill the process."""
    with ThreadPoolExecutor() as pool:  # The children run side by side.
        return list(pool.map(_find_precision, ("bfloat16", "float16")))


def _find_precision(precision: str) -> Finding:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    problem = devices.try_half_precision(precision, device)
    if not problem:
        return Finding(name=precision, value=f"yes (autocast on {device})")
    value = f"no ({problem})"
    if device == "cpu" and not devices.try_half_precision(precision, device, devices.WITHOUT_AMX):
        variables = ", ".join(f"{name}={setting}" for name, setting in devices.WITHOUT_AMX.items())
        value = f"{value}; with {variables} it works"
    return Finding(name=precision, value=value, verdict="no")


def find_losses() -> list[Finding]:
    """Equal forms of the losses give equal numbers, and gradients are finite."""
    return [_find_loss(name, check) for name, check in LOSS_CHECKS.items()]


def _find_loss(name: str, check: Callable[[], tuple[bool, str]]) -> Finding:
    """Run one check of the losses. An exception is a failed check, so that the next ones still run."""
    try:
        holds, value = check()
    except Exception as error:
        holds, value = False, f"{type(error).__name__}: {error}"
    return (
        Finding(name=name, value=value)
        if holds
        else Finding(name=name, value=value, verdict="FAILED", advice=REINSTALL)
    )


def _dense_equals_streaming() -> tuple[bool, str]:
    makers: tuple[Callable[..., ContrastiveLoss], ...] = (NTXentLoss, HardLoss, RingLoss, PUCLLoss)
    return _all_equal((make(streaming=True), make(streaming=False)) for make in makers)


def _pucl_equals_debiased() -> tuple[bool, str]:
    """PUCL equals DEB at tau'; with a beta it equals Hard at tau'."""
    plain, tilted = PUCLLoss(alpha=0.12, c=0.1), PUCLLoss(alpha=0.12, c=0.1, beta=0.5)
    tau = plain.tau_plus
    return _all_equal([(plain, DebiasedLoss(tau_plus=tau)), (tilted, HardLoss(tau_plus=tau, beta=0.5))])


def _alpha_zero_equals_plain() -> tuple[bool, str]:
    return _all_equal([(PUCLLoss(alpha=0.0), NTXentLoss())])


def _gradients_are_finite() -> tuple[bool, str]:
    """Gradients are finite at a temperature at which plain exponentials overflow."""
    views, wrong = [view.float() for view in _two_views()], []
    for make in (NTXentLoss, DebiasedLoss, HardLoss, RingLoss, PUCLLoss):
        for streaming in (False, True):
            loss = make(temperature=0.01, streaming=streaming)
            if not all(bool(each.isfinite().all()) for each in _value_and_gradient(loss, views)):
                wrong.append(make.__name__)
    return not wrong, f"not finite for {', '.join(dict.fromkeys(wrong))}" if wrong else "finite for every loss"


LOSS_CHECKS = {
    "dense = streaming": _dense_equals_streaming,
    "PUCL = DEB at tau'": _pucl_equals_debiased,
    "alpha 0 = no correction": _alpha_zero_equals_plain,
    "gradients at t = 0.01": _gradients_are_finite,
}


def _all_equal(pairs: Iterable[tuple[ContrastiveLoss, ContrastiveLoss]]) -> tuple[bool, str]:
    """Whether the losses of each pair agree, and by how much they differ at most."""
    difference = max(_difference(one, other, _two_views()) for one, other in pairs)
    if difference <= EXACT:
        return True, f"relative difference {difference:.0e}"
    return False, f"relative difference {difference:.1e}, more than {EXACT:.0e}"


def _two_views() -> list[Float[Tensor, "batch dim"]]:
    """Random embeddings, enough for several tiles of the streaming form."""
    generator = torch.Generator().manual_seed(0)
    sample, *noise = (torch.randn(300, 16, dtype=torch.float64, generator=generator) for _ in range(3))
    return [sample + part for part in noise]


def _value_and_gradient(loss: ContrastiveLoss, views: Sequence[Float[Tensor, "batch dim"]]) -> tuple[Tensor, Tensor]:
    leaves = [view.clone().requires_grad_() for view in views]
    with warnings.catch_warnings():  # At low temperatures most anchors are floored, as they should be.
        warnings.simplefilter("ignore", FlooredWarning)
        value: Tensor = loss(*leaves)
    return value.detach(), torch.stack(torch.autograd.grad(value, leaves))


def _difference(one: ContrastiveLoss, other: ContrastiveLoss, views: Sequence[Float[Tensor, "batch dim"]]) -> float:
    """The largest relative difference of loss or gradient; infinite if most anchors are floored."""
    (value, gradient), (other_value, other_gradient) = (_value_and_gradient(loss, views) for loss in (one, other))
    if one.last is None or one.last.floored > 0.5:
        return math.inf
    return max(relative_difference(value, other_value), relative_difference(gradient, other_gradient))


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest expected number; infinite for NaN or another shape."""
    if found.shape != expected.shape:
        return math.inf
    difference, scale = (found - expected).abs().max(), expected.abs().max()
    relative = float(difference / scale if scale > 0 else difference)
    return relative if relative < math.inf else math.inf
