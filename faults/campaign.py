"""Run attacks for some minutes on several cores, and keep a record of what they came to."""

import contextlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pucl
from faults import disks, flips, kills, mutations, records
from faults.trial import Kind, Outcome, Trial, Workspace
from pucl.files import write_json
from pucl.progress import Line, duration

KINDS: Mapping[str, Kind] = {
    kind.name: kind for module in (kills, disks, flips, mutations, records) for kind in module.KINDS
}
"""Every kind of attack."""
KEPT = 10  # Failures of a kind that the record describes; all are counted.
SAVED_SECONDS = 20.0  # How often the record is written.


def attack(kind: Kind, seed: int, number: int, workspace: Workspace) -> Outcome:
    """One attack. The same seed and number give the same attack; of kills, the same delays."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.name.encode()), number])
    place = Path(tempfile.mkdtemp(prefix=f"{kind.name}-{number}-", dir=workspace.top))
    try:
        (place / "trial").mkdir()
        return kind.attack(Trial(number, rng, place / "trial", workspace))
    except Exception:  # A mistake of the campaign's own must be seen too, and must not end it.
        return Outcome("failed", f"the campaign itself: {traceback.format_exc()[-1500:]}")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclass
class Tally:
    """What came of the attacks of one kind."""

    tried: int = 0
    kills: int = 0
    seconds: float = 0.0
    verdicts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def note(self, number: int, outcome: Outcome, seconds: float) -> None:
        """Count one more."""
        self.tried += 1
        self.kills += outcome.kills
        self.seconds += seconds
        self.verdicts[outcome.verdict] += 1
        if outcome.verdict == "failed" and len(self.failures) < KEPT:
            self.failures.append({"number": number, "words": outcome.words[:1500]})

    def as_json(self) -> dict[str, Any]:
        """For the record."""
        return {
            "tried": self.tried,
            "kills": self.kills,
            "seconds": round(self.seconds, 1),
            "verdicts": dict(self.verdicts),
            "failures": self.failures,
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> "Tally":
        """Back from the record, to go on counting."""
        counted = {**record, "verdicts": Counter(record["verdicts"]), "failures": list(record["failures"])}
        return Tally(**counted)


class Record:
    """The file that keeps one entry for each seed; a campaign with a seed that is there goes on where it stopped.

    Args:
        file: Where it is; None keeps nothing.
        seed: Of this campaign.
        command: What was asked for.
    """

    def __init__(self, file: Path | None, seed: int, command: str) -> None:
        self.file = file
        there = json.loads(file.read_text())["campaigns"] if file is not None and file.exists() else []
        self.others = [entry for entry in there if entry["seed"] != seed]
        mine = next((entry for entry in there if entry["seed"] == seed), {"kinds": {}, "seconds": 0.0})
        self.tallies = {name: Tally.from_json(tally) for name, tally in mine["kinds"].items()}
        self.seed, self.command = seed, command
        self._before, self._began = mine["seconds"], time.monotonic()

    def tally(self, kind: str) -> Tally:
        """What is counted of a kind."""
        return self.tallies.setdefault(kind, Tally())

    def save(self, missing: Mapping[str, str]) -> None:
        """Write it, with the kinds that could not be tried here."""
        if self.file is None:
            return
        entry = {
            "command": self.command,
            "seed": self.seed,
            "pucl": pucl.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "system": platform.system(),
            "seconds": round(self._before + time.monotonic() - self._began, 1),
            "missing": dict(missing),
            "kinds": {name: tally.as_json() for name, tally in sorted(self.tallies.items())},
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.file, {"campaigns": sorted([*self.others, entry], key=lambda each: each["seed"])})


def run_campaign(kinds: Sequence[Kind], record: Record, *, minutes: float, workers: int, line: Line) -> dict[str, Tally]:
    """Try all kinds in turn, each for its share of the time, and return what came of them in this call."""
    missing = {kind.name: why for kind in kinds if (why := kind.missing())}
    chosen = [kind for kind in kinds if kind.name not in missing]
    for name, why in missing.items():
        line.say(f"{name} is skipped: {why}")
    here = {kind.name: Tally() for kind in chosen}
    spent = {kind.name: 0.0 for kind in chosen}  # With what is going on, so that workers do not all take one kind.
    following = {kind.name: record.tally(kind.name).tried for kind in chosen}
    end = time.monotonic() + 60 * minutes
    saved = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pucl-faults-") as top, _team(Workspace(Path(top)), record.seed, workers) as team:
        idle, busy = list(team), {}
        while idle or busy:
            while idle and time.monotonic() < end:
                kind = min(chosen, key=lambda each: spent[each.name] / each.share)
                expected = here[kind.name].seconds / max(1, here[kind.name].tried)
                spent[kind.name] += expected or 1.0
                worker = idle.pop()
                busy[worker] = (kind.name, expected or 1.0)
                worker.send((kind.name, following[kind.name]))
                following[kind.name] += 1
            if not busy:
                break
            for worker in wait(list(busy), timeout=1.0):
                assert isinstance(worker, Connection)  # noqa: S101 - No other kind was given.
                name, expected = busy.pop(worker)
                number, outcome, seconds = worker.recv()
                idle.append(worker)
                spent[name] += seconds - expected
                for tally in (here[name], record.tally(name)):
                    tally.note(number, outcome, seconds)
                if outcome.verdict == "failed":
                    line.say(f"FAILED {name} --seed {record.seed} --number {number}: {outcome.words[:400]}")
            if time.monotonic() - saved > SAVED_SECONDS:
                record.save(missing)
                saved = time.monotonic()
            line.show(_progress(here, end - time.monotonic()))
    record.save(missing)
    return here


def _progress(tallies: Mapping[str, Tally], left: float) -> str:
    tried, killed = (sum(getattr(tally, name) for tally in tallies.values()) for name in ("tried", "kills"))
    failed = sum(tally.verdicts["failed"] for tally in tallies.values())
    return f"faults: {tried:,} attacks, {killed:,} kills, {failed:,} failed; {duration(max(0.0, left))} left"


@contextlib.contextmanager
def _team(workspace: Workspace, seed: int, workers: int) -> Iterator[list[Connection]]:
    """Forked processes that attack what they are told; Ctrl-C is for the campaign alone, which lets them finish."""
    context = multiprocessing.get_context("fork")
    ends, processes = [], []
    for _ in range(workers):
        mine, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, workspace, seed))
        process.start()
        theirs.close()
        ends.append(mine)
        processes.append(process)
    try:
        yield ends
    finally:
        for each in ends:
            each.close()
        for process in processes:
            process.join(5.0)
            process.kill()


def _serve(pipe: Connection, workspace: Workspace, seed: int) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError):  # The campaign is over.
        while True:
            name, number = pipe.recv()
            began = time.monotonic()
            workspace.making.clear()
            outcome = attack(KINDS[name], seed, number, workspace)
            pipe.send((number, outcome, time.monotonic() - began - sum(workspace.making)))
