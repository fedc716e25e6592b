"""Whether many processes come to what one does."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pucl import devices, processes
from pucl.doctor import worker
from pucl.doctor.worker import Agreement

PATIENCE = 180.0  # Seconds for many processes to finish; they take ten, or a minute where others are at work too.
ALWAYS_ALLOWED = 8  # So many processes any machine may be asked for; beyond it, four for each core.


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


def certify(world_size: int, *, timeout: float = PATIENCE) -> Certificate:
    """Start processes that work together by gloo, and compare them with one that has the whole batch.

    Args:
        world_size: How many.
        timeout: Seconds to wait for them all.
    """
    check_world_size(world_size)
    begin = time.perf_counter()
    try:
        printed = run_together(["-m", worker.__name__], world_size, timeout=timeout)
    except ProcessesError as error:
        return Certificate(world_size=world_size, seconds=time.perf_counter() - begin, trouble=str(error))
    everywhere = [Agreement(**record) for text in printed for record in json.loads(text)]
    return Certificate(world_size=world_size, agreements=worker.worst(everywhere), seconds=time.perf_counter() - begin)


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
