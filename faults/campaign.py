"""Run attacks for some minutes on several cores, and record the results."""

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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pucl
from faults import flips, kills, mutations, records
from faults.trial import Kind, Outcome, Trial, Workspace
from pucl.files import write_json
from pucl.progress import StatusArea, duration

KINDS: Mapping[str, Kind] = {kind.name: kind for module in (kills, flips, mutations, records) for kind in module.KINDS}
"""Every kind of attack."""
KEPT = 10  # Failures of a kind that the record describes; all are counted.
SAID_SECONDS = 60.0  # Time between progress lines where there is no live area.


def attack(kind: Kind, seed: int, number: int, workspace: Workspace) -> Outcome:
    """One attack. The same seed and number give the same attack; of kills, the same delays."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.name.encode()), number])
    directory = Path(tempfile.mkdtemp(prefix=f"{kind.name}-{number}-", dir=workspace.top))
    try:
        (directory / "trial").mkdir()
        outcome = kind.attack(Trial(number, rng, directory / "trial", workspace))
        words = outcome.words.replace(f"{directory}/", "").replace(f"{sys.prefix}/", "")  # Records name no machine.
        return replace(outcome, words=words)
    except Exception:  # A mistake of the campaign's own must be seen too, and must not end it.
        return Outcome("failed", f"the campaign itself: {traceback.format_exc()[-1500:]}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run_campaign(kinds: Sequence[Kind], *, seed: int, minutes: float, workers: int, area: StatusArea) -> dict[str, Any]:
    """Try all kinds in turn, each for its share of the time, and return the entry for the record."""
    missing = {kind.name: why for kind in kinds if (why := kind.missing())}
    for name, why in missing.items():
        area.say(f"{name} is skipped: {why}")
    # Chains of kills and the slow ones come last, so that most kinds are tried in a short time.
    chosen = sorted((kind for kind in reversed(kinds) if kind.name not in missing), key=lambda kind: kind.slow)
    tallies = {kind.name: new_tally(kind) for kind in chosen}
    running: dict[Future[tuple[Outcome, float]], tuple[str, int]] = {}
    started: Counter[str] = Counter()
    began = said = time.monotonic()
    end = began + 60 * minutes
    fork = multiprocessing.get_context("fork")  # Before there is any thread here, and the workers have none.
    with (
        tempfile.TemporaryDirectory(prefix="pucl-faults-") as top,
        ProcessPoolExecutor(workers, mp_context=fork, initializer=_ignore_interrupts) as pool,
    ):
        workspace = Workspace(Path(top))
        while True:
            while len(running) < workers and time.monotonic() < end:
                busy = Counter(name for name, _ in running.values())
                kind = min(chosen, key=lambda each: (tallies[each.name]["seconds"] + busy[each.name]) / each.share)
                job = pool.submit(_timed, kind.name, seed, started[kind.name], workspace)
                running[job] = kind.name, started[kind.name]
                started[kind.name] += 1
            if not running:
                break
            for done in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                name, number = running.pop(done)
                outcome, seconds = done.result()
                note(tallies[name], number, outcome, seconds)
                if outcome.verdict == "failed":
                    area.say(f"FAILED {name} --seed {seed} --number {number}: {outcome.words[:400]}")
            area.show_text(_progress(tallies, end - time.monotonic()))
            if not area.live and time.monotonic() - said > SAID_SECONDS:
                area.say(_progress(tallies, end - time.monotonic()))
                said = time.monotonic()
    return {
        "seed": seed,
        "pucl": pucl.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": platform.system(),
        "seconds": round(time.monotonic() - began, 1),
        "missing": missing,
        "kinds": {name: tally for name, tally in tallies.items() if tally["tried"]},
    }


def new_tally(kind: Kind) -> dict[str, Any]:
    """The results of the attacks of one kind, before the first."""
    counts = {"tried": 0, "kills": 0, "seconds": 0.0}
    return {"group": kind.group, "about": kind.about, **counts, "verdicts": {}, "failures": []}


def note(tally: dict[str, Any], number: int, outcome: Outcome, seconds: float) -> None:
    """Count one more attack."""
    tally["tried"] += 1
    tally["kills"] += outcome.kills
    tally["seconds"] += seconds
    tally["verdicts"][outcome.verdict] = tally["verdicts"].get(outcome.verdict, 0) + 1
    if outcome.verdict == "failed" and len(tally["failures"]) < KEPT:
        tally["failures"].append({"number": number, "words": outcome.words[:1500]})


def save(file: Path, entry: dict[str, Any]) -> None:
    """Write the entry of a campaign into the record, in place of an earlier one with the same seed."""
    there = json.loads(file.read_text())["campaigns"] if file.exists() else []
    entries = [each for each in there if each["seed"] != entry["seed"]] + [entry]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {"campaigns": sorted(entries, key=lambda each: each["seed"])})


def _ignore_interrupts() -> None:
    """Ctrl-C is for the campaign: an attack that is going on finishes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _timed(name: str, seed: int, number: int, workspace: Workspace) -> tuple[Outcome, float]:
    """One attack, and how long it took without what was made for all."""
    began = time.monotonic()
    outcome = attack(KINDS[name], seed, number, workspace)
    return outcome, time.monotonic() - began - sum(workspace.making)


def _progress(tallies: Mapping[str, dict[str, Any]], left: float) -> str:
    tried, killed = (sum(tally[name] for tally in tallies.values()) for name in ("tried", "kills"))
    failed = sum(tally["verdicts"].get("failed", 0) for tally in tallies.values())
    return f"faults: {tried:,} attacks, {killed:,} kills, {failed:,} failed; {duration(max(0.0, left))} left"
