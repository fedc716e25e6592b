"""What an attack gets, what it returns, and how its result is judged."""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from faults.attempt import Child, Ending

VICTIM = "victim"  # What a damaged run is called, so that it is seen whether a message names it.
PATIENCE = 20.0  # Seconds after which a command on a small file counts as hanging.

Verdict = Literal["recovered", "same", "accepted", "refused", "undetectable", "failed"]
VERDICTS: dict[Verdict, str] = {
    "recovered": "the same command continued to the result of an uninterrupted run, bit by bit",
    "same": "the damage changed nothing: the result is that of the undamaged file",
    "accepted": "the file was read: it is still valid",
    "refused": "a sentence named the file and said what is wrong",
    "undetectable": "still a valid record of JSON, with another value or name in it, and no digest that could show it",
    "failed": "something lost, silently different, a traceback, a crash, a hang, or memory without bound",
}
"""Possible results of an attack. Only the last is a fault of pucl."""


@dataclass(frozen=True)
class Outcome:
    """The result of an attack.

    Args:
        verdict: See `VERDICTS`.
        words: What was done and what happened.
        kills: How many processes were killed for it.
    """

    verdict: Verdict
    words: str
    kills: int = 0


@dataclass(frozen=True)
class Workspace:
    """A directory with what attacks share: data and runs that are made once, when they are first needed.

    Args:
        top: The directory.
        making: How many seconds this process spent on making, or waiting for, such things: no time of an attack's.
    """

    top: Path
    making: list[float] = field(default_factory=list)

    def made(self, name: str, make: Callable[[Path], object]) -> Path:
        """A directory of this name that ``make`` has filled, in a process of its own; several may ask at a time."""
        directory, part, began = self.top / name, self.top / f".{name}.part", time.monotonic()
        if not directory.exists():
            with (self.top / f".{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not directory.exists():
                    shutil.rmtree(part, ignore_errors=True)
                    part.mkdir()
                    ending = Child(lambda: make(part), bounded=False).wait()
                    if ending.how != "returned":
                        raise RuntimeError(f"{name} could not be made: {ending.words}\n{ending.errors}")
                    part.replace(directory)
            self.making.append(time.monotonic() - began)
        return directory


@dataclass(frozen=True)
class Trial:
    """One attack: where it may write, and the random numbers that it is made from.

    Args:
        number: Which of its kind.
        rng: Made from seed, kind and number alone.
        directory: A new directory, removed afterwards.
        workspace: What attacks share.
    """

    number: int
    rng: np.random.Generator
    directory: Path
    workspace: Workspace

    def one_of(self, choices: Sequence[Any]) -> Any:
        """A random one of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def copied(self, source: Path) -> Path:
        """A copy of a directory to damage, always of the same name."""
        return Path(shutil.copytree(source, self.directory / VICTIM))


@dataclass(frozen=True)
class Kind:
    """A kind of attack.

    Args:
        name: What ``--only`` calls it.
        group: Under which heading it is listed.
        about: What is done, for the table.
        attack: Does it.
        share: Of the time of a campaign, in parts of the sum over all kinds.
        slow: Whether one takes half a minute or more; those come last.
        missing: Why it cannot be done here; empty where it can.
    """

    name: str
    group: str
    about: str
    attack: Callable[[Trial], Outcome]
    share: float
    slow: bool = False
    missing: Callable[[], str] = lambda: ""


def fault_of(ending: Ending) -> str:
    """What no ending may be: a crash, a hang, much memory, leaked warnings; empty where it is none of these."""
    if ending.how in ("died", "hung"):
        return f"{ending.how}: {ending.words}; {ending.errors[-500:]}"
    if ending.how == "raised" and not ending.polite:
        return f"raised {ending.error}: {ending.words[:500]}; {where(ending.errors)}"
    if ending.orphans:
        return "left processes behind"
    # An error that the work raised prints its own traceback here; one that a command printed is a fault.
    # That an old encoder file cannot be checked is a warning on purpose.
    leaks = re.finditer(r"^.*(Warning: |Traceback ).*$", ending.errors, re.MULTILINE)
    if ending.how == "returned" and (leak := next((each for each in leaks if "has no digest" not in each[0]), None)):
        return f"leaked to standard error: {leak[0][:300]}; {ending.errors[-300:]}"
    return ""


def where(trace: str) -> str:
    """The last line of pucl's own in a traceback."""
    own = re.findall(r'File "[^"]*/(pucl/[^"]+)", line (\d+), in (\S+)', trace)
    return "at {}:{} in {}".format(*own[-1]) if own else ""


def judge(ending: Ending, names: Sequence[str]) -> Outcome:
    """Judge a function or a command that read a damaged file: a refusal must name one of these.

    A function returns None if it could read the file, a command returns its exit code.
    """
    if fault := fault_of(ending):
        return Outcome("failed", fault)
    output = ending.printed + (ending.words if ending.how == "raised" else ending.errors)
    if ending.how == "returned" and not ending.value:
        reported = any(name in output for name in names) and re.search("damaged|should hold|unfinished", output)
        return Outcome("refused" if reported else "accepted", output[-500:])
    if not any(name in output for name in names):
        return Outcome("failed", f"refused without naming {names[0]}: {output[-300:]}; {where(ending.errors)}")
    return Outcome("refused", output[-500:])


@contextmanager
def inside(directory: Path) -> Iterator[None]:
    """Work in a directory, so that commands print the same paths whatever its name."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def is_json(file: Path) -> bool:
    """Whether a file, or each line of it where it has one record a line, still is a record of JSON."""
    if file.suffix not in (".json", ".jsonl"):
        return False
    try:
        text = file.read_text()
        records = [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]
    except (OSError, ValueError, RecursionError):
        return False
    return all(isinstance(record, dict) for record in records)
