"""What this machine can do. Half precision, which kills processes on some virtual machines, is tried in a child."""

import os
import platform
import re
import subprocess
from pathlib import Path

import torch

from pucl import devices, processes
from pucl.doctor.finding import Finding


def find_machine() -> list[Finding]:
    """System, cores, threads and memory."""
    cores = devices.usable_cores()
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
