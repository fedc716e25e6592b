"""Peak memory of one step, in this process or in a fresh one, and the memory that is available.

Run as a module, this is the child process of `peak_in_child`: it takes one step and prints its peak.
"""

import ctypes
import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Step = Callable[[], object]
"""Something to measure: called without arguments, many times."""

PATIENCE = 600.0  # Seconds after which a child process is stopped, unless a benchmark allows more.
STATUS = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class Peak:
    """By how many bytes memory rose at most; None and the reason if that could not be measured."""

    bytes: int | None
    missing: str | None = None


def peak_memory(step: Step) -> Peak:
    """By how much the resident memory of this process rises at most while a step runs.

    Memory that was in use before does not count. This needs Linux, which can reset the mark of the highest use.

    Note:
        A step can reuse memory that was freed earlier and that the allocator still holds; this use is not seen. Where
        small peaks matter, measure in a fresh process with `peak_in_child`.
    """
    gc.collect()
    _return_free_memory()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Sets the highest mark to the present size.
        before = _field_bytes(STATUS, "VmRSS")
    except OSError as error:
        return Peak(bytes=None, missing=f"the peak of resident memory cannot be reset on this system: {error}")
    step()
    return Peak(bytes=max(0, _field_bytes(STATUS, "VmHWM") - before))


def peak_in_child(target: str, settings: Mapping[str, object], *, patience: float = PATIENCE) -> Peak:
    """The peak memory of a step in a new process, free of the traces of earlier steps.

    Args:
        target: ``"module:function"`` of a function that prepares everything and returns the step.
        settings: Its keyword arguments, of types that JSON can hold.
        patience: Seconds after which the new process is stopped.
    """
    # The child finds the modules that this process finds, and no others from the current directory.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
    command = [sys.executable, "-P", "-m", "benchmarks.memory", target, json.dumps(dict(settings))]
    try:
        child = subprocess.run(  # noqa: S603 (this interpreter, and arguments of our own)
            command, env=environment, capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return Peak(bytes=None, missing=f"the process that should measure it took more than {patience:g} seconds")
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or ["it printed no error"]
        return Peak(bytes=None, missing=f"the process that should measure it ended with {child.returncode}: {last[0]}")
    answer: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return Peak(**answer)


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, within the limit of the container; None if unknown."""
    try:
        available = _field_bytes(Path("/proc/meminfo"), "MemAvailable")
    except OSError:
        return None
    control_group = Path("/sys/fs/cgroup")
    try:
        limit = (control_group / "memory.max").read_text().strip()
        used = int((control_group / "memory.current").read_text())
    except (OSError, ValueError):
        return available
    return available if limit == "max" else max(0, min(available, int(limit) - used))


def _return_free_memory() -> None:
    """Return memory that the allocator keeps for reuse to the system; only glibc offers this."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def _field_bytes(path: Path, field: str) -> int:
    """The number behind ``field:`` in a file of /proc that counts in kB."""
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise OSError(f"{path} has no {field}")


def _measure_for_parent(target: str, settings: str) -> None:
    module, _, function = target.partition(":")
    step: Step = getattr(importlib.import_module(module), function)(**json.loads(settings))
    print(json.dumps(asdict(peak_memory(step))))


if __name__ == "__main__":
    _measure_for_parent(*sys.argv[1:])
