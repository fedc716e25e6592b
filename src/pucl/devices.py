"""Where numbers are computed, and in which precision: what this machine has, found out without risking the process."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

import torch

from pucl import processes
from pucl.precision import full_precision

Precision = Literal["float32", "bfloat16", "float16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "float16")

STATUS = Path("/proc/self/status")  # Where Linux tells what a process uses.
PATIENCE = 60.0  # Seconds for a trial of half precision.


def choose_device(name: str = "auto") -> torch.device:
    """The device of this process.

    Args:
        name: As torch names it (``cpu``, ``cuda``, ``cuda:1``, ``mps``). ``auto`` is this process's share of NVIDIA's
            accelerators where there are any, otherwise the CPU.
    """
    cuda = torch.cuda.is_available()
    if name == "auto":
        name = "cuda" if cuda else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is where to compute: expected auto, cpu, cuda, cuda:N or mps, got {name}") from None
    if device.type == "cuda" and not cuda:
        raise ValueError(f"device is where to compute: expected one that this machine has, got {name} and no CUDA")
    try:
        torch.zeros(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        words = str(error).splitlines()[0]
        raise ValueError(
            f"device is where to compute: expected one that this machine has, got {name}: {words}"
        ) from error
    if name == "cuda":
        return torch.device("cuda", processes.local_rank() % torch.cuda.device_count())
    return device


def usable_cores() -> int:
    """Cores that this process may run on, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Let torch compute in half precision where that is safe, for the span of a `with`; in float32 nowhere."""
    if precision == "float32":
        return full_precision(device)
    return torch.autocast(device.type, dtype=getattr(torch, precision))


def seed_draws(device: torch.device, seed: int) -> None:
    """Begin torch's random numbers on the CPU and on this kind of device anew.

    torch.manual_seed does it for every kind there is. For those that are absent it notes who called, and that takes a
    fifth of a millisecond, which is much for a step on small graphs.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        module = torch.get_device_module(device)
        getattr(module, "manual_seed_all", module.manual_seed)(seed)


def check_precision(device: torch.device, precision: Precision) -> None:
    """Refuse a precision that kills or misleads a process on this machine, by trying it in a child."""
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision is how exactly to compute: expected one of {', '.join(PRECISIONS)}, got {precision}"
        )
    if precision != "float32" and (fate := await_half_precision(start_half_precision(precision, device.type))):
        raise ValueError(f"precision {precision} does not work on {device.type} here ({fate}): take float32")


HALF_PRECISION = """
import sys, torch
kind, device = getattr(torch, sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
layer, rows = torch.nn.Linear(256, 256, device=device), torch.randn(256, 256, device=device, requires_grad=True)
expected = layer(rows)
with torch.autocast(device, dtype=kind):
    product = layer(rows) @ torch.eye(256, device=device)
product.float().square().mean().backward()
difference = (product.float() - expected).abs().max().item()
assert product.dtype == kind, f"autocast gave {product.dtype}"
assert difference < 0.1 and rows.grad.isfinite().all(), f"the result is off by {difference:.2g}"
"""
"""A layer, a product and their gradients under autocast, large enough that a processor's matrix unit is used."""

WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""Keeps torch from matrix instructions that some virtual processors claim to have and do not have."""


def start_half_precision(kind: str, device: str, settings: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Try half precision in a child, which may die of it."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", HALF_PRECISION, kind, device],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment() | (settings or {}),
    )


def await_half_precision(child: subprocess.Popen[str]) -> str:
    """How the child of a trial ended, if not well."""
    try:
        _, errors = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return f"no answer in {PATIENCE:.0f} s"
    return ending(child.returncode, errors)


def ending(code: int | None, errors: str) -> str:
    """What an exit code and the last words mean; nothing for a good end."""
    if code == 0:
        return ""
    if code is not None and code < 0:
        try:
            return f"the process died of {signal.Signals(-code).name}"
        except ValueError:
            return f"the process died of signal {-code}"
    lines = errors.strip().splitlines()
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt): ", line)]
    return (named or lines or [f"exit code {code}"])[-1]


def child_environment() -> dict[str, str]:
    """One thread for each child: they are small, and several run side by side."""
    return os.environ | {"OMP_NUM_THREADS": "1"}


def reset_peak_memory(device: torch.device) -> None:
    """Forget the peak of what this process did before."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif STATUS.exists():
        with contextlib.suppress(OSError):  # In some containers it is not allowed; then the peak is the process's.
            Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: torch.device) -> float:
    """The most memory that was in use since `reset_peak_memory`, in MiB: of the accelerator, or of this process.

    Where the system cannot forget an earlier peak (any but Linux), since the process began.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if STATUS.exists():
        fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) / 2**10
    # macOS counts in bytes, others in kibibytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


@contextlib.contextmanager
def denormals_flushed() -> Iterator[None]:
    """Take numbers too small for full precision (below 1e-38 in float32) as zero for a while, on CPUs that can.

    Where scores saturate, gradients are full of them, and a matrix product with such numbers is several times as slow.
    Only for a while, since numpy's own tests of the floating point would find them gone.
    """
    flushed = torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if flushed:
            torch.set_flush_denormal(False)
