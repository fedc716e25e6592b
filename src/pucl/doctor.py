"""What this installation is, what this machine can do, and whether the losses do here what they should.

Every check returns `Finding` records and none prints; ``pucl doctor`` does. What could kill the process, half precision
on some virtual processors, is tried in a child. Many processes are compared with one by `certify`.
"""

import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch

import pucl
from pucl import devices, doctor_worker, processes
from pucl.doctor_worker import Agreement
from pucl.losses import ContrastiveLoss, DebiasedLoss, FlooredWarning, HardLoss, NTXentLoss, PUCLLoss, RingLoss
from pucl.shapes import Float, Tensor

Verdict = Literal["ok", "no", "FAILED"]
"""``no`` is something that this machine or installation does without; only ``FAILED`` is a fault."""

EXACT = 1e-10  # Relative difference of float64 numbers that should be equal.
PATIENCE = 180.0  # Seconds for many processes to finish; they take ten, or a minute where others are at work too.
ALWAYS_ALLOWED = 8  # So many processes any machine may be asked for; beyond it, four for each core.


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check came to.

    Args:
        name: What was looked at.
        value: What was found.
        verdict: Whether that is well, absent, or a fault.
        advice: What to do about it.
    """

    name: str
    value: str
    verdict: Verdict = "ok"
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """How many processes compare with one.

    Args:
        world_size: How many there were.
        agreements: For each loss and form, the largest differences over all cases and processes.
        seconds: How long it took.
        trouble: Why there are no agreements; empty if there are.
    """

    world_size: int
    agreements: list[Agreement] = field(default_factory=list)
    seconds: float = 0.0
    trouble: str = ""

    @property
    def holds(self) -> bool:
        """Whether everything was compared, and nothing differs."""
        return not self.trouble and bool(self.agreements) and all(agreement.holds for agreement in self.agreements)


class ProcessesError(RuntimeError):
    """Processes that were to work together did not come to an end, or to a bad one."""


def examine() -> dict[str, list[Finding]]:
    """All checks that need no other processes than a child for a moment, by topic."""
    return {
        "Installation": [*find_versions(), *find_extras()],
        "Machine": [*find_machine(), *find_devices(), find_gloo(), *find_half_precision()],
        "Losses": [
            _guarded("dense = streaming", check_dense_equals_streaming),
            _guarded("PUCL = DEB at tau'", check_pucl_equals_debiased),
            _guarded("alpha 0 = no correction", check_alpha_zero_equals_plain),
            _guarded("gradients at t = 0.01", check_gradients_are_finite),
        ],
    }


# Installation


def find_versions() -> list[Finding]:
    """Python, pucl, and what pucl cannot do without."""
    return [
        Finding(name="Python", value=f"{platform.python_version()} ({sys.executable})"),
        Finding(name="pucl", value=f"{pucl.__version__} ({Path(pucl.__file__).parent})"),
        *(_find_package(requirement) for requirement in _requirements() if not requirement.extra),
    ]


def find_extras() -> list[Finding]:
    """Which optional parts are installed, and how to have the others."""
    requirements = _requirements()
    extras = dict.fromkeys(requirement.extra for requirement in requirements if requirement.extra)
    return [_find_extra(extra, [one for one in requirements if one.extra == extra]) for extra in extras]


@dataclass(frozen=True)
class _Requirement:
    package: str
    least: str
    extra: str

    @property
    def installed(self) -> str | None:
        """The version that is installed."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None

    @property
    def fits(self) -> bool:
        """Whether it is installed, and new enough."""
        return self.installed is not None and _numbers(self.installed) >= _numbers(self.least)


def _requirements() -> list[_Requirement]:
    """What pucl asks for, as its package says; torch and numpy where it was not installed as a package."""
    try:
        lines = metadata.requires("pucl") or []
    except metadata.PackageNotFoundError:
        lines = ["torch", "numpy"]
    found = [re.match(r"([\w.-]+)(?:>=([\d.]+))?.*?(?:extra == ['\"](\w+)['\"])?$", line.strip()) for line in lines]
    parts = [match.groups(default="") for match in found if match]
    # "all" holds nothing that is not in another extra too.
    return [_Requirement(*part) for part in parts if part[0] != "pucl" and part[2] != "all"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])


def _find_package(requirement: _Requirement) -> Finding:
    advice = f"pip install --upgrade '{requirement.package}>={requirement.least}'"
    if requirement.fits:
        return Finding(name=requirement.package, value=str(requirement.installed))
    value = f"{requirement.installed or 'not installed'}; pucl needs {requirement.least} or later"
    return Finding(name=requirement.package, value=value, verdict="FAILED", advice=advice)


def _find_extra(extra: str, requirements: list[_Requirement]) -> Finding:
    there = ", ".join(f"{one.package} {one.installed}" for one in requirements if one.fits)
    missing = [one.package for one in requirements if not one.fits]
    if not missing:
        return Finding(name=f"extra {extra}", value=there)
    without = f"{there}; without {', '.join(missing)}" if there else "not installed"
    return Finding(name=f"extra {extra}", value=f"{without}: pip install 'pucl[{extra}]'", verdict="no")


# Machine


def find_machine() -> list[Finding]:
    """System, cores, threads and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = torch.get_num_threads()
    return [
        Finding(name="system", value=platform.platform()),
        Finding(name="cores", value=str(cores)),
        Finding(
            name="torch threads",
            value=str(threads) if threads <= cores else f"{threads}, more than cores: set OMP_NUM_THREADS={cores}",
        ),
        find_memory(),
    ]


def find_memory() -> Finding:
    """Total and available memory, where the system tells."""
    total, available = _read_meminfo() or _ask_sysconf() or (None, None)
    if total is None:
        return Finding(name="memory", value="unknown on this system", verdict="no")
    free = "" if available is None else f", {available / 2**30:.1f} GiB available"
    return Finding(name="memory", value=f"{total / 2**30:.1f} GiB{free}")


def _read_meminfo(path: Path = Path("/proc/meminfo")) -> tuple[int, int | None] | None:
    try:
        sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB", path.read_text(), flags=re.MULTILINE))
    except OSError:
        return None
    if "MemTotal" not in sizes:
        return None
    available = sizes.get("MemAvailable")
    return int(sizes["MemTotal"]) * 1024, None if available is None else int(available) * 1024


def _ask_sysconf() -> tuple[int, int | None] | None:
    names = getattr(os, "sysconf_names", {})
    if not {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(names):
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    available = os.sysconf("SC_AVPHYS_PAGES") * page if "SC_AVPHYS_PAGES" in names else None
    return os.sysconf("SC_PHYS_PAGES") * page, available


def find_devices() -> list[Finding]:
    """Accelerators, if there are any."""
    cuda = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    mps = torch.backends.mps.is_available()
    return [
        Finding(name="CUDA", value=", ".join(cuda) or "no device: the CPU is used", verdict="ok" if cuda else "no"),
        Finding(name="MPS", value="yes" if mps else "no device", verdict="ok" if mps else "no"),
    ]


def find_gloo() -> Finding:
    """Whether many processes can train together on this machine."""
    if processes.gloo_is_available():
        return Finding(name="torch.distributed", value="yes, with gloo; --world-size 2 checks the losses in it")
    return Finding(name="torch.distributed", value="this build of torch has no gloo", verdict="no")


def find_half_precision() -> list[Finding]:
    """Whether bfloat16 and float16 work under autocast, tried in a child each: it may die of it."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    children = {kind: devices.start_half_precision(kind, device) for kind in ("bfloat16", "float16")}
    return [_judge_half_precision(kind, device, child) for kind, child in children.items()]


def _judge_half_precision(kind: str, device: str, child: subprocess.Popen[str]) -> Finding:
    fate = devices.await_half_precision(child)
    if not fate:
        return Finding(name=kind, value=f"yes (autocast on {device})")
    value = f"no ({fate})"
    if device == "cpu" and not devices.await_half_precision(
        devices.start_half_precision(kind, device, devices.WITHOUT_AMX)
    ):
        value += (
            "; with " + ", ".join(f"{name}={setting}" for name, setting in devices.WITHOUT_AMX.items()) + " it works"
        )
    return Finding(name=kind, value=value, verdict="no")


# Losses


def check_dense_equals_streaming() -> Finding:
    """The two ways to compute a loss give one result, over several tiles."""
    views = _two_views(300)
    makers: tuple[Callable[..., ContrastiveLoss], ...] = (NTXentLoss, HardLoss, RingLoss, PUCLLoss)
    differences = [_difference(make(streaming=True), make(streaming=False), views) for make in makers]
    return _equal("dense = streaming", max(differences))


def check_pucl_equals_debiased() -> Finding:
    """PUCL is DEB at tau', and with a tilt it is Hard at tau'."""
    views, pucl_loss, tilted = _two_views(40), PUCLLoss(alpha=0.12, c=0.1), PUCLLoss(alpha=0.12, c=0.1, beta=0.5)
    tau = pucl_loss.tau_plus
    differences = [
        _difference(pucl_loss, DebiasedLoss(tau_plus=tau), views),
        _difference(tilted, HardLoss(tau_plus=tau, beta=0.5), views),
    ]
    return _equal("PUCL = DEB at tau'", max(differences))


def check_alpha_zero_equals_plain() -> Finding:
    """Without positives in the data there is nothing to correct."""
    return _equal("alpha 0 = no correction", _difference(PUCLLoss(alpha=0.0), NTXentLoss(), _two_views(40)))


def check_gradients_are_finite() -> Finding:
    """At a temperature at which plain exponentials overflow, every gradient is a number."""
    name, views = "gradients at t = 0.01", [view.float() for view in _two_views(40)]
    wrong = []
    for loss in (NTXentLoss, DebiasedLoss, HardLoss, RingLoss, PUCLLoss):
        for streaming in (False, True):
            value, gradient = _value_and_gradient(loss(temperature=0.01, streaming=streaming), views)
            if not (value.isfinite().all() and gradient.isfinite().all()):
                wrong.append(loss.__name__)
    if wrong:
        return _fault(name, f"not finite for {', '.join(dict.fromkeys(wrong))}")
    return Finding(name=name, value="finite for every loss")


def _two_views(batch: int) -> list[Float[Tensor, "batch dim"]]:
    generator = torch.Generator().manual_seed(0)
    sample, *noise = (torch.randn(batch, 16, dtype=torch.float64, generator=generator) for _ in range(3))
    return [sample + part for part in noise]


def _value_and_gradient(
    loss: ContrastiveLoss, views: Sequence[Float[Tensor, "batch dim"]]
) -> tuple[Float[Tensor, ""], Float[Tensor, "view batch dim"]]:
    leaves = [view.clone().requires_grad_() for view in views]
    with warnings.catch_warnings():  # At low temperatures most anchors are floored, and are meant to be.
        warnings.simplefilter("ignore", FlooredWarning)
        value: Tensor = loss(*leaves)
    return value.detach(), torch.stack(torch.autograd.grad(value, leaves))


def _difference(one: ContrastiveLoss, other: ContrastiveLoss, views: Sequence[Float[Tensor, "batch dim"]]) -> float:
    """The largest difference of loss or gradient, relative to its size; infinite if the correction was not at work."""
    (value, gradient), (other_value, other_gradient) = (_value_and_gradient(loss, views) for loss in (one, other))
    if one.last is None or one.last.floored > 0.5:
        return float("inf")
    of_value = (value - other_value).abs() / other_value.abs()
    of_gradient = (gradient - other_gradient).abs().max() / other_gradient.abs().max()
    difference = float(torch.maximum(of_value, of_gradient))
    return difference if difference < float("inf") else float("inf")


def _equal(name: str, difference: float) -> Finding:
    if difference <= EXACT:
        return Finding(name=name, value=f"relative difference {difference:.0e}")
    return _fault(name, f"relative difference {difference:.1e}, more than {EXACT:.0e}")


def _fault(name: str, value: str) -> Finding:
    advice = "do not trust results of this installation: reinstall torch and pucl, and report it if that does not help"
    return Finding(name=name, value=value, verdict="FAILED", advice=advice)


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    """The check, or what kept it from coming to an end: a doctor goes on to the next complaint."""
    try:
        return check()
    except Exception as error:
        return _fault(name, f"{type(error).__name__}: {error}")


# Many processes


def certify(world_size: int, *, timeout: float = PATIENCE) -> Certificate:
    """Start processes that work together by gloo, and compare them with one that has the whole batch.

    Args:
        world_size: How many.
        timeout: Seconds to wait for them all.
    """
    check_world_size(world_size)
    begin = time.perf_counter()
    try:
        printed = run_together(["-m", doctor_worker.__name__], world_size, timeout=timeout)
    except ProcessesError as error:
        return Certificate(world_size=world_size, seconds=time.perf_counter() - begin, trouble=str(error))
    everywhere = [Agreement(**record) for text in printed for record in json.loads(text)]
    return Certificate(
        world_size=world_size, agreements=doctor_worker.worst(everywhere), seconds=time.perf_counter() - begin
    )


def check_world_size(world_size: int) -> None:
    """Refuse numbers of processes that prove nothing or bring the machine down."""
    most = max(ALWAYS_ALLOWED, 4 * (os.cpu_count() or 1))
    if not 2 <= world_size <= most:
        reason = "; one process has nobody to agree with" if world_size == 1 else ""
        raise ValueError(
            f"world size is how many processes are compared with a single one: "
            f"expected 2 to {most} on this machine, got {world_size}{reason}"
        )


def run_together(program: Sequence[str], world_size: int, *, timeout: float = PATIENCE) -> list[str]:
    """Run one Python program in several processes, and return what each of them prints.

    They are given four further arguments: number of the process, how many there are, a file to meet at, and seconds to
    wait for each other, all for `pucl.processes.gloo_world`.

    Args:
        program: Arguments of the Python interpreter.
        world_size: How many processes.
        timeout: Seconds to wait for all of them. They are ended then, and as soon as one of them fails.
    """
    if not processes.gloo_is_available():
        raise ProcessesError("this build of torch has no gloo, by which processes could work together")
    with tempfile.TemporaryDirectory(prefix="pucl-") as directory:
        place = Path(directory)
        children: list[subprocess.Popen[bytes]] = []
        try:
            # One by one, so that those already started are known and ended if the next cannot be.
            children.extend(_start(program, number, world_size, place, timeout) for number in range(world_size))
            codes = _wait(children, timeout)
        finally:
            for child in children:
                child.kill()
                child.wait()
        failures = [
            f"process {number} of {world_size}: "
            + devices.ending(code, (place / f"{number}.err").read_text(errors="replace"))
            for number, code in enumerate(codes)
            if code
        ]
        if failures:
            raise ProcessesError("; ".join(failures))
        if None in codes:
            raise ProcessesError(
                f"{world_size} processes did not finish within {timeout:g} s: the machine is busy (allow more time), "
                f"or something keeps them from reaching each other, such as a firewall on the loopback device"
            )
        return [(place / f"{number}.out").read_text() for number in range(world_size)]


def _start(program: Sequence[str], number: int, count: int, place: Path, timeout: float) -> subprocess.Popen[bytes]:
    """One of the processes, writing to files: a pipe that nobody reads in time would stop it."""
    with (place / f"{number}.out").open("wb") as out, (place / f"{number}.err").open("wb") as err:
        return subprocess.Popen(  # noqa: S603
            # Warnings are the business of the process that asks; here they must not become errors.
            [
                *(sys.executable, "-W", "ignore", *program),
                *(str(number), str(count), str(place / "meeting"), str(timeout)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=devices.child_environment() | _loopback(),
        )


def _wait(children: Sequence[subprocess.Popen[bytes]], timeout: float) -> list[int | None]:
    """The exit codes when all are done, when one has failed, or when time is up; None for those still running."""
    end = time.monotonic() + timeout
    while True:
        codes = [child.poll() for child in children]
        if any(codes):
            # The first to go need not be the one at fault: let the others say what they have to say.
            time.sleep(0.5)
            return [child.poll() for child in children]
        if None not in codes or time.monotonic() > end:
            return codes
        time.sleep(0.02)


def _loopback() -> dict[str, str]:
    """Let gloo talk over the loopback device: the machine's own name may lead elsewhere or nowhere."""
    if "GLOO_SOCKET_IFNAME" in os.environ or not hasattr(socket, "if_nameindex"):
        return {}
    names = {name for _, name in socket.if_nameindex()}
    return next(({"GLOO_SOCKET_IFNAME": name} for name in ("lo", "lo0") if name in names), {})
