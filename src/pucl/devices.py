"""The device and the number format of a training, and what this machine supports of them."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import torch

from pucl import processes

Precision = Literal["float32", "bfloat16", "float16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "float16")

STATUS = Path("/proc/self/status")  # Linux reports the memory of this process here.
PATIENCE = 60.0  # Seconds to wait for a test of half precision.


def choose_device(name: str = "auto") -> torch.device:
    """The device of this process.

    Args:
        name: A device name of torch (``cpu``, ``cuda``, ``cuda:1``, ``mps``). ``auto`` is a CUDA device if the machine
            has one, otherwise the CPU. With several processes, each takes a CUDA device of its own.
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
    """Number of cores that this process may use. The machine may have more."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seed_draws(device: torch.device, seed: int) -> None:
    """Seed torch's random numbers on the CPU and on this device.

    torch.manual_seed seeds all kinds of devices. That takes 0.2 ms, which is much for a step on small graphs.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        module = torch.get_device_module(device)
        getattr(module, "manual_seed_all", module.manual_seed)(seed)


def check_precision(device: torch.device, precision: Precision) -> None:
    """Refuse a precision that does not work on this machine."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision is the number format: expected one of {', '.join(PRECISIONS)}, got {precision}")
    if precision != "float32" and (problem := try_half_precision(precision, device.type)):
        raise ValueError(f"precision {precision} does not work on {device.type} here ({problem}): take float32")


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
"""A layer, a matrix product and their gradients under autocast, large enough to use a processor's matrix unit."""

WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""Forbids torch the matrix instructions (AMX) that some virtual processors claim to have and do not have."""


def try_half_precision(precision: str, device: str, settings: dict[str, str] | None = None) -> str:
    """Try half precision in a child process, since it kills the process on some machines.

    Args:
        precision: ``"bfloat16"`` or ``"float16"``.
        device: The type of device.
        settings: Environment variables of the child.

    Returns:
        The problem, in words; empty if half precision works.
    """
    command = [sys.executable, "-W", "ignore", "-c", HALF_PRECISION, precision, device]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | (settings or {})
    try:
        child = subprocess.run(  # noqa: S603
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {PATIENCE:.0f} s"
    if child.returncode < 0:
        return f"the process died of {signal.Signals(-child.returncode).name}"
    lines = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
    return lines[-1] if child.returncode else ""


def reset_peak_memory(device: torch.device) -> None:
    """Let `peak_memory` start again from the memory that is in use now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif STATUS.exists():
        with contextlib.suppress(OSError):  # Some containers do not allow it.
            Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: torch.device) -> float:
    """The highest memory use since `reset_peak_memory`, in MiB: of the CUDA device, or of this process.

    Only Linux can reset the peak of a process. Elsewhere it is the peak since the process began.
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
    """Round denormal numbers (below 1e-38 in float32) to zero within this context, on CPUs that can.

    Saturated scores have many denormal gradients, which make matrix products several times as slow. The setting ends
    with the context, because numpy checks its floating point numbers and would miss the denormal ones.
    """
    flushed = torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if flushed:
            torch.set_flush_denormal(False)
