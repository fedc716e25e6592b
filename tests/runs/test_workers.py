"""Workers of a grid: they stop when the grid is asked to, at any moment, and never outlive it."""

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found through /proc"),
]


@dataclass(frozen=True)
class Grid:
    """A grid of two long runs in two workers, in a session of its own."""

    driver: "subprocess.Popen[str]"
    mark: str
    out: Path

    def processes(self) -> dict[int, str]:
        """The command lines of all that are alive of it, by process id."""
        found = {}
        for place in Path("/proc").iterdir():
            with suppress(OSError):
                if place.name.isdigit() and self.mark in (place / "environ").read_text(errors="replace"):
                    found[int(place.name)] = (place / "cmdline").read_text()
        return found

    def workers(self) -> list[int]:
        return [number for number, command in self.processes().items() if "LokyProcess" in command]

    def checkpoints(self) -> list[Path]:
        return list(self.out.rglob("checkpoint.pt"))

    def held_locks(self) -> list[Path]:
        return [lock for lock in self.out.rglob(".lock") if is_held(lock)]


def is_held(lock: Path) -> bool:
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


Start = Callable[[], Grid]


@pytest.fixture
def start(few_graphs: Path, tmp_path: Path) -> Iterator[Start]:
    started: list[Grid] = []

    def begin() -> Grid:
        out, mark = tmp_path / str(len(started)), f"PUCL_TEST_MARK={uuid4().hex}"
        command = [sys.executable, "-m", "pucl", "compare", "infograph", str(few_graphs), "--corrections=plain,pucl"]
        command += ["--seeds=1", "--epochs=40000", "--batch-size=16", "--probes=knn", "--workers=2", "--out", str(out)]
        driver = subprocess.Popen(  # noqa: S603
            [*command, "--checkpoint-seconds=1"],
            env=os.environ | {"OMP_NUM_THREADS": "1"} | dict([mark.split("=")]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(Grid(driver, mark, out))
        return started[-1]

    yield begin
    for grid in started:
        for number in grid.processes():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        grid.driver.communicate()


@pytest.mark.parametrize("trial", range(int(os.environ.get("PUCL_KILLS", "3"))))
def test_nothing_outlives_a_killed_driver(start: Start, trial: int) -> None:
    """SIGKILL while workers start (the first trials) or at any moment (the others); PUCL_KILLS=20 tries harder."""
    grid = start()
    wait_until(lambda: len(grid.workers()) == 2 or grid.driver.poll() is not None)
    time.sleep((0.0, 1.0)[trial] if trial < 2 else 8 * random.random())  # noqa: S311
    assert grid.driver.poll() is None
    grid.driver.kill()
    wait_until(lambda: not grid.processes(), 20)  # On a busy machine an import takes its time.
    assert not grid.held_locks()


@pytest.mark.parametrize("delay", [0.0, 0.4, 1.5])
def test_ctrl_c_while_workers_start(start: Start, delay: float) -> None:
    """As a terminal does it: the signal reaches the driver and its workers."""
    grid = start()
    wait_until(lambda: len(grid.workers()) == 2 or grid.driver.poll() is not None)
    time.sleep(delay)
    os.killpg(grid.driver.pid, signal.SIGINT)
    _, errors = grid.driver.communicate(timeout=60)
    assert grid.driver.returncode == 130, errors
    assert errors == "\npucl compare: stopped, unfinished runs are saved; the same command resumes them\n"
    wait_until(lambda: not grid.processes(), 20)
    assert not grid.held_locks()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_for_the_driver_alone_saves_what_is_going_on(start: Start, number: int, code: int) -> None:
    """As a scheduler or `kill` does it. The workers are told by the driver."""
    grid = start()
    wait_until(lambda: len(grid.checkpoints()) == 2 or grid.driver.poll() is not None)
    asked = time.time() - 0.1  # The clock of a file system may be a little behind.
    grid.driver.send_signal(number)
    _, errors = grid.driver.communicate(timeout=60)
    assert grid.driver.returncode == code, errors
    assert errors == "\npucl compare: stopped, unfinished runs are saved; the same command resumes them\n"
    assert min(file.stat().st_mtime for file in grid.checkpoints()) >= asked
    wait_until(lambda: not grid.processes(), 20)
    assert not grid.held_locks()
