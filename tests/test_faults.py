"""The fault campaign can fail: it sees crashes, hangs, silence and differences. Its short form finds none of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults import flips
from faults.attempt import ADDRESS_ROOM, Child, Ending, attempt
from faults.campaign import KINDS, attack, new_tally, note, save
from faults.damage import damaged
from faults.trial import Kind, Outcome, Trial, Workspace, judge
from faults.victims import differences, leftovers

# Where tests run side by side their processes have threads; what is forked here uses none of them.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def refuse(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def warn() -> None:
    os.write(2, b"x.py:1: UserWarning: odd\n")  # As warnings do it where no test catches them.


def leave() -> None:
    if os.fork() == 0:
        time.sleep(60)


def grow() -> None:
    np.ones(2 * ADDRESS_ROOM, np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "verdict", "words"),
    [
        (lambda: None, "accepted", ""),
        (refuse(ValueError("x.npz should hold arrays")), "refused", "should hold"),
        (refuse(ValueError("it should hold arrays")), "failed", "without naming x.npz"),
        (refuse(KeyError("x.npz")), "failed", "raised KeyError"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "failed", "died: exit -9"),
        (lambda: time.sleep(60), "failed", "hung"),
        (grow, "failed", "MemoryError"),
        (warn, "failed", "leaked to standard error"),
        (leave, "failed", "left processes behind"),
    ],
    ids=["read", "named", "unnamed", "other", "crash", "hang", "memory", "warning", "orphan"],
)
def test_how_reading_is_judged(work: Callable[[], object], verdict: str, words: str) -> None:
    outcome = judge(attempt(work, 2.0 if words == "hung" else 60.0), ["x.npz"])
    assert outcome.verdict == verdict, outcome
    assert words in outcome.words


@pytest.mark.parametrize(
    ("code", "errors", "verdict"),
    [
        (0, "", "accepted"),
        (0, "victim/config.json should hold a record", "refused"),
        (2, "victim/config.json should hold a record", "refused"),
        (2, "", "failed"),
        (2, "it should hold a record", "failed"),
        (2, "Traceback (most recent call last):\nvictim", "failed"),
    ],
)
def test_how_commands_are_judged(code: int, errors: str, verdict: str) -> None:
    assert judge(Ending(how="returned", value=code, errors=errors), ["victim"]).verdict == verdict


def test_a_killed_child_is_gone() -> None:
    child = Child(lambda: time.sleep(60))
    assert not child.finished()
    assert child.kill().how == "died"
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "valid", "verdict"),
    [
        (lambda content: content, False, "failed"),
        (lambda content: content, True, "undetectable"),
        (lambda _: b"always the same", False, "same"),
    ],
)
def test_a_silent_difference_fails(tmp_path: Path, read: Callable[[bytes], bytes], valid: bool, verdict: str) -> None:
    """What a reader without digests makes of a flipped bit."""
    name = "file.json" if valid else "file.bin"
    (tmp_path / "top" / "source").mkdir(parents=True)
    (tmp_path / "trial").mkdir()
    (tmp_path / "top" / "source" / name).write_text('{"a": 11111111111111111111111111111111111111111111111111111111}')

    def shown(run: Path, _workspace: Workspace) -> dict[str, Any]:
        return {"run": run.name, "seen": read((run / name).read_bytes()).decode(errors="replace")}

    target = flips.Target(name, lambda workspace: workspace.top / "source", shown)
    verdicts = set()
    for number in range(12):
        shutil.rmtree(tmp_path / "trial" / "victim", ignore_errors=True)
        trial = Trial(number, np.random.default_rng(number), tmp_path / "trial", Workspace(tmp_path / "top"))
        verdicts.add(flips.flip(target, trial).verdict)
    assert verdict in verdicts
    assert verdicts <= {verdict, "failed"}


def test_the_same_seed_and_number_are_the_same_attack(tmp_path: Path) -> None:
    kind = KINDS["mutate-npz"]
    one, other = (attack(kind, 3, 5, Workspace(tmp_path)) for _ in range(2))
    assert one.verdict == other.verdict
    content = bytes(range(256))
    changed = {damaged(content, np.random.default_rng([0, number])) for number in range(50)}
    assert len(changed) > 40
    assert damaged(content, np.random.default_rng(1)) == damaged(content, np.random.default_rng(1))


def test_a_mistake_of_the_campaign_is_seen(tmp_path: Path) -> None:
    def wrong(_trial: Trial) -> Outcome:
        raise ZeroDivisionError

    kind = Kind("wrong", "", "", wrong, 1)
    outcome = attack(kind, 0, 0, Workspace(tmp_path))
    assert outcome.verdict == "failed"
    assert "ZeroDivisionError" in outcome.words
    assert not any(tmp_path.iterdir())


def test_the_record_has_an_entry_for_each_seed(tmp_path: Path) -> None:
    file = tmp_path / "campaign.json"
    for seed, words in ((1, "a"), (0, "b"), (1, "c")):
        tally = new_tally(KINDS["kill-moco"])
        note(tally, 0, Outcome("failed", words, kills=7), 1.0)
        note(tally, 1, Outcome("recovered", "", kills=3), 1.0)
        save(file, {"seed": seed, "kinds": {"kill-moco": tally}})
    first, second = json.loads(file.read_text())["campaigns"]
    assert (first["seed"], second["seed"]) == (0, 1)
    tally = second["kinds"]["kill-moco"]
    assert (tally["tried"], tally["kills"], tally["verdicts"]) == (2, 10, {"failed": 1, "recovered": 1})
    assert tally["failures"] == [{"number": 0, "words": "c"}]


def test_a_run_that_is_not_the_same(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "encoder.safetensors").write_bytes(b"weights")
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps({"loss": 1.0, "seconds": len(name)}) + "\n")
    assert differences(tmp_path / "one", tmp_path / "other") == []
    assert leftovers(tmp_path / "other") == []
    (tmp_path / "other" / "encoder.safetensors").write_bytes(b"weightz")
    (tmp_path / "other" / "metrics.jsonl").write_text(json.dumps({"loss": 2.0}) + "\n")
    (tmp_path / "other" / ".result.json.12.part").touch()
    assert differences(tmp_path / "one", tmp_path / "other") == ["encoder.safetensors", "metrics.jsonl"]
    assert leftovers(tmp_path / "other") == [".result.json.12.part"]


@pytest.mark.slow
def test_a_short_campaign_finds_nothing(tmp_path: Path) -> None:
    """One kind of each group."""
    root, record = Path(__file__).resolve().parents[1], tmp_path / "campaign.json"
    kinds = ["kill-infograph", "disk-limit", "flip-checkpoint", "mutate-npz", "record-config"]
    command = [sys.executable, "-m", "faults", f"--only={','.join(kinds)}", "--minutes=1", "--record", str(record)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=400)  # noqa: S603
    assert done.returncode == 0, done.stderr[-5000:]
    (campaign,) = json.loads(record.read_text())["campaigns"]
    assert campaign["kinds"].keys() == set(kinds)
    assert campaign["kinds"]["kill-infograph"]["kills"] >= 1
    for tally in campaign["kinds"].values():
        assert tally["tried"] == sum(tally["verdicts"].values()) >= 1
