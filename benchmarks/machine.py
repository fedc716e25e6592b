"""What figures depend on: the machine and the versions of libraries."""

import os
import platform
from pathlib import Path

import torch

import pucl
from benchmarks.memory import available_memory
from pucl.devices import usable_cores


def machine_facts() -> dict[str, object]:
    """Processor, cores, memory, and the load average before the benchmark."""
    return {
        "cpu": _processor_name(),
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "available_memory_bytes": available_memory(),
        "load_average_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def library_versions() -> dict[str, str]:
    """Versions of pucl, torch and Python."""
    return {"pucl": pucl.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
