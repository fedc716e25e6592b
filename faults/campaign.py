"""Run attacks for some minutes on several cores, and keep a record of what they came to."""

import json
import multiprocessing
import platform
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pucl
from faults import disks, flips, kills, mutations, records
from faults.trial import Kind, Outcome, Trial, Workspace
from pucl.files import write_json
from pucl.progress import StatusArea, duration

KINDS: Mapping[str, Kind] = {
    kind.name: kind for module in (kills, disks, flips, mutations, records) for kind in module.KINDS
}
"""Every kind of attack."""
KEPT = 10  # Failures of a kind that the record describes; all are counted.
SAVED_SECONDS = 20.0  # How often the record is written.
SAID_SECONDS = 60.0  # Time between progress lines where there is no live area.


def attack(kind: Kind, seed: int, number: int, workspace: Workspace) -> Outcome:
    """One attack. The same seed and number give the same attack; of kills, the same delays."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.name.encode()), number])
    place = Path(tempfile.mkdtemp(prefix=f"{kind.name}-{number}-", dir=workspace.top))
    try:
        (place / "trial").mkdir()
        outcome = kind.attack(Trial(number, rng, place / "trial", workspace))
        words = outcome.words.replace(f"{place}/", "").replace(f"{sys.prefix}/", "")  # Records name no machine.
        return replace(outcome, words=words)
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

    def amend(self, number: int, outcome: Outcome) -> None:
        """Count a failure that was tried again by what came of it now."""
        if outcome.verdict == "failed":
            return
        self.failures = [failure for failure in self.failures if failure["number"] != number]
        self.verdicts["failed"] -= 1
        self.verdicts[outcome.verdict] += 1
        self.verdicts = +self.verdicts

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
        counts = {name: record[name] for name in ("tried", "kills", "seconds")}
        counted = {**counts, "verdicts": Counter(record["verdicts"]), "failures": list(record["failures"])}
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
        there: list[dict[str, Any]] = (
            json.loads(file.read_text())["campaigns"] if file is not None and file.exists() else []
        )
        self.others = [entry for entry in there if entry["seed"] != seed]
        mine = next((entry for entry in there if entry["seed"] == seed), dict[str, Any](kinds={}, seconds=0.0))
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
            "kinds": {
                kind.name: {"group": kind.group, "about": kind.about, **self.tallies[kind.name].as_json()}
                for kind in KINDS.values()
                if kind.name in self.tallies
            },
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.file, {"campaigns": sorted([*self.others, entry], key=lambda each: each["seed"])})


def run_campaign(
    kinds: Sequence[Kind], record: Record, *, minutes: float, workers: int, area: StatusArea
) -> dict[str, Tally]:
    """Try all kinds in turn, each for its share of the time, and return what came of them in this call."""
    missing = {kind.name: why for kind in kinds if (why := kind.missing())}
    chosen = [kind for kind in reversed(kinds) if kind.name not in missing]  # Chains of kills take longer,
    chosen.sort(key=lambda kind: kind.slow)  # and new interpreters longest: all else is tried before.
    for name, why in missing.items():
        area.say(f"{name} is skipped: {why}")
    here = {kind.name: Tally() for kind in chosen}
    spent = {kind.name: 0.0 for kind in chosen}  # With what is going on, so that workers do not all take one kind.
    following = {kind.name: record.tally(kind.name).tried for kind in chosen}
    _try_failures_again(chosen, record, area)
    end = time.monotonic() + 60 * minutes
    saved = said = time.monotonic()
    fork = multiprocessing.get_context("fork")  # Before there is any thread here, and the workers have none.
    with (
        tempfile.TemporaryDirectory(prefix="pucl-faults-") as top,
        ProcessPoolExecutor(workers, mp_context=fork, initializer=_leave_interrupts_alone) as pool,
    ):
        workspace, running = Workspace(Path(top)), dict[Future[tuple[int, Outcome, float]], tuple[str, float]]()
        try:
            while True:
                while len(running) < workers and time.monotonic() < end:
                    kind = min(chosen, key=lambda each: spent[each.name] / each.share)
                    expected = here[kind.name].seconds / max(1, here[kind.name].tried) or 1.0
                    spent[kind.name] += expected
                    job = pool.submit(_timed, kind.name, record.seed, following[kind.name], workspace)
                    running[job] = (kind.name, expected)
                    following[kind.name] += 1
                if not running:
                    return here
                for done in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                    name, expected = running.pop(done)
                    number, outcome, seconds = done.result()
                    spent[name] += seconds - expected
                    for tally in (here[name], record.tally(name)):
                        tally.note(number, outcome, seconds)
                    if outcome.verdict == "failed":
                        area.say(f"FAILED {name} --seed {record.seed} --number {number}: {outcome.words[:400]}")
                if time.monotonic() - saved > SAVED_SECONDS:
                    record.save(missing)
                    saved = time.monotonic()
                area.show_text(_progress(here, end - time.monotonic()))
                if not area.live and time.monotonic() - said > SAID_SECONDS:
                    area.say(_progress(here, end - time.monotonic()))
                    said = time.monotonic()
        finally:
            record.save(missing)


def _try_failures_again(kinds: Sequence[Kind], record: Record, area: StatusArea) -> None:
    """Repeat the attacks that failed in earlier calls: those whose defects were mended count as what they are now."""
    with tempfile.TemporaryDirectory(prefix="pucl-faults-") as top:
        workspace = Workspace(Path(top))
        for kind in kinds:
            for failure in list(record.tally(kind.name).failures):
                outcome = attack(kind, record.seed, failure["number"], workspace)
                record.tally(kind.name).amend(failure["number"], outcome)
                area.say(f"again: {kind.name} --seed {record.seed} --number {failure['number']}: {outcome.verdict}")


def _leave_interrupts_alone() -> None:
    """Ctrl-C is for the campaign: an attack that is going on finishes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _timed(name: str, seed: int, number: int, workspace: Workspace) -> tuple[int, Outcome, float]:
    """One attack, and how long it took without what was made for all."""
    began = time.monotonic()
    outcome = attack(KINDS[name], seed, number, workspace)
    return number, outcome, time.monotonic() - began - sum(workspace.making)


def _progress(tallies: Mapping[str, Tally], left: float) -> str:
    tried, killed = (sum(getattr(tally, name) for tally in tallies.values()) for name in ("tried", "kills"))
    failed = sum(tally.verdicts["failed"] for tally in tallies.values())
    return f"faults: {tried:,} attacks, {killed:,} kills, {failed:,} failed; {duration(max(0.0, left))} left"
