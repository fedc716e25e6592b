"""SIGKILL at any moment, or a full disk, then the same command again: the result must not show it."""

import fcntl
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pucl.cli
from faults.attempt import Child, Ending, attempt, marked, stayed
from faults.trial import Kind, Outcome, Trial, fault_of
from faults.victims import GRAPHS, TIMES, TRAININGS, differences, finished_run, leftovers, train

WRITTEN = ("metrics.jsonl", "checkpoint.pt", "checkpoint.pt", "encoder.safetensors", "embeddings.npz", "result.json")
AT_MOST = 1.0  # Seconds to wait for one of them to be written.
MOST_KILLS = 24  # In one chain.
SEEDS = 2  # Of the trainings: so many are run undisturbed, to compare with.


def kill_training(framework: str, trial: Trial) -> Outcome:
    """One training, killed again and again."""
    seed = int(trial.rng.integers(SEEDS))
    whole, out = finished_run(trial.workspace, framework, seed), trial.directory / "run"
    seconds = trial.one_of((0.0, 0.0, 0.02, 0.1))
    work = partial(pucl.cli.main, train(framework, out, seed=seed, checkpoint_seconds=seconds))
    wanted, kills, held = int(trial.rng.integers(4, MOST_KILLS)), 0, 0
    while True:
        child = Child(work, bounded=False)
        if kills < wanted:
            _wait_for_a_moment(trial, child, out)
            if not child.finished():
                ending = child.kill()
                kills += 1
                held += ending.orphans or lock_is_held(out)
                if "Traceback" in ending.errors:
                    return Outcome("failed", f"a traceback before it was killed: {ending.errors[-500:]}", kills)
                continue
        ending = child.wait()
        break
    problems = _problems(ending, whole, out) + [f"{held} times a lock or a process outlived a kill"] * (held > 0)
    words = f"{kills} kills, checkpoints every {seconds:g} s"
    return _came_to(words, problems, kills)


def _came_to(words: str, problems: list[str], kills: int) -> Outcome:
    if problems:
        return Outcome("failed", f"{words}: {'; '.join(problems)}", kills)
    return Outcome("recovered", words, kills)


def _wait_for_a_moment(trial: Trial, child: Child, out: Path) -> None:
    """Until some time has passed, or a file is being written, or was just written."""
    style = trial.one_of(("time", "time", "writing", "written"))
    if style == "time":
        child.finished(float(trial.rng.exponential(0.25)))
        return
    name, end = trial.one_of(WRITTEN), time.monotonic() + AT_MOST
    before = _changed(out / name)
    while not child.finished() and time.monotonic() < end:
        if any(out.glob(f".{name}.*{child.pid}*")) if style == "writing" else _changed(out / name) != before:
            break
        time.sleep(0.0005)
    time.sleep(float(trial.rng.exponential(0.002)))


def _changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def lock_is_held(out: Path) -> bool:
    """Whether somebody holds the lock of a run's directory."""
    with suppress(FileNotFoundError), (out / ".lock").open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _problems(ending: Ending, whole: Path, out: Path) -> list[str]:
    """What is wrong with a run that was killed and then finished."""
    if ending.how != "returned" or ending.value != 0:
        return [f"the last call {ending.how} {ending.value or ending.words}: {ending.errors[-500:]}"]
    problems = [f"{name} differs" for name in differences(whole, out)]
    problems += [f"{name} was left" for name in leftovers(out)]
    problems += ["the lock is still held"] * lock_is_held(out)
    return problems + ["processes were left"] * ending.orphans


@dataclass
class Command:
    """A command in an interpreter of its own, whose processes are found by a mark in their environment."""

    process: "subprocess.Popen[bytes]"
    mark: str
    errors: Any

    def text(self) -> str:
        """What it wrote to standard error."""
        self.errors.seek(0)
        return str(self.errors.read().decode(errors="replace"))

    def others(self, word: str = "") -> list[int]:
        """Its processes other than the first, with this word in their command line."""
        found = []
        for pid in marked(self.mark):
            with suppress(OSError):
                if pid != self.process.pid and word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether something comes to be before the command ends."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return False


@contextmanager
def command(arguments: list[str]) -> Iterator[Command]:
    """Start a command; at the end nothing of it is left."""
    mark = f"PUCL_FAULTS={os.getpid()}-{time.monotonic_ns()}"
    name, _, value = mark.partition("=")
    environment = os.environ | {name: value, "OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled"}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            yield Command(process, mark, errors)
        finally:
            process.kill()
            process.wait()
            stayed(lambda: marked(mark), 0)


def kill_grid(trial: Trial, *, on: tuple[str, ...] = (), worker: str = "LokyProcess") -> Outcome:
    """A comparison in two workers: its driver killed, one of its workers, or all of them at once."""
    whole, out = (
        trial.workspace.made("whole-grid", lambda directory: _undisturbed(_compare_command(directory))),
        trial.directory / "grid",
    )
    done, kills = [], 0
    for turn in range(3):
        with command([*_compare_command(out), *on]) as grid:
            victim = trial.one_of(("driver", "worker", "worker", "all"))
            moment = 2.0 * float(trial.rng.random())
            if turn < 2 and grid.wait(lambda: any(out.rglob("checkpoint.pt")), 120):
                grid.wait(lambda: False, moment)
                workers = grid.others(worker)
                if grid.process.poll() is None and (victim != "worker" or workers):
                    victims = {"driver": [grid.process.pid], "all": [grid.process.pid, *workers]}
                    for pid in victims.get(victim, workers[:1]):
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                            kills += 1
                    done.append(victim)
                    if victim != "worker":
                        grid.process.wait()
                        if left := stayed(lambda: grid.others(worker if on else ""), 60):
                            return Outcome("failed", f"after kills ({', '.join(done)}) these stayed: {left}", kills)
                        continue
            if grid.wait(lambda: False, 240) or grid.process.poll() != 0:
                return Outcome("failed", f"after kills ({', '.join(done)}) it ended so: {grid.text()[-1500:]}", kills)
            break
    runs = sorted(path.parent.relative_to(whole) for path in whole.rglob("result.json"))
    problems = [f"{run}/{name} differs" for run in runs for name in differences(whole / run, out / run)]
    problems += [f"{run}/{name} was left" for run in runs if (out / run).is_dir() for name in leftovers(out / run)]
    if _lines(whole) != _lines(out):
        problems.append("comparison.json differs")
    words = f"kills: {', '.join(done) or 'none in time'}"
    return _came_to(words, problems, kills)


kill_on_ray = partial(kill_grid, on=("--ray=local",), worker="ray::")


def _compare_command(out: Path) -> list[str]:
    arguments = ["-m", "pucl", "compare", "infograph", "shapes", *GRAPHS, "--epochs=60", "--monitor=0", "--no-page"]
    return [
        *arguments,
        "--corrections=plain,pucl",
        "--seeds=2",
        "--workers=2",
        "--checkpoint-seconds=0.02",
        f"--out={out}",
    ]


def _lines(out: Path) -> list[dict[str, Any]]:
    lines = json.loads((out / "comparison.json").read_text())["lines"]
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]


def limit_files(trial: Trial) -> Outcome:
    """Files may not grow beyond a few kilobytes; the run stops with a sentence, and resumes when they may."""
    framework, most = trial.one_of(sorted(TRAININGS)), int(trial.rng.integers(100, 600_000))
    whole, out = finished_run(trial.workspace, framework), trial.directory / "run"
    arguments = train(framework, out, checkpoint_seconds=trial.one_of((0.0, 0.05)))

    def work() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        return pucl.cli.main(arguments)

    words, first = f"{framework}, files of {most} bytes at most", attempt(work)
    if fault := fault_of(first):
        return Outcome("failed", f"{words}: {fault}")
    if first.value != 0 and "cannot be saved because" not in first.errors:
        return Outcome("failed", f"{words}: exit {first.value} and no word of a full disk: {first.errors[-300:]}")
    problems = [f"{path.name} takes up room" for path in out.glob(".*.part")]
    second = attempt(lambda: pucl.cli.main(arguments))
    if second.value != 0 or fault_of(second):
        return Outcome("failed", f"{words}: with room again, {fault_of(second)} {second.errors[-500:]}")
    return _came_to(words, problems + [f"{name} is wrong" for name in differences(whole, out) + leftovers(out)], 0)


def _undisturbed(arguments: list[str]) -> None:
    with command(arguments) as process:
        if process.process.wait(300) != 0:
            raise RuntimeError(process.text())


def _no_ray() -> str:
    return "" if importlib.util.find_spec("ray") else "ray is not installed"


KINDS = (
    *(
        Kind(
            f"kill-{framework}",
            "kills",
            f"`pucl train {framework}` killed at random moments and while it writes, again and again",
            partial(kill_training, framework),
            11,
        )
        for framework in TRAININGS
    ),
    Kind("kill-grid", "kills", "`pucl compare --workers 2`: driver, worker or all killed", kill_grid, 6, slow=True),
    Kind("disk-limit", "full disks", "a training whose files may not grow, until it has stopped", limit_files, 3),
    Kind("kill-ray", "kills", "`pucl compare --ray local`: the same", kill_on_ray, 3, slow=True, missing=_no_ray),
)
