"""Flipped bits in every file that pucl writes and reads: reported or harmless, but never another result."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import pucl
import pucl.cli
from faults.attempt import Ending, attempt
from faults.damage import FLIPS, damaged
from faults.trial import PATIENCE, VICTIM, Kind, Outcome, Trial, Workspace, fault_of, inside, is_json, where
from faults.victims import collection, comparison, finished_run, half_run, table, train
from pucl.images.registry import load
from pucl.runs.collection import ENVIRONMENTS, METRICS, RUNS

PROBE = np.random.default_rng(0).integers(0, 256, (4, 8, 8), dtype=np.uint8)


@dataclass(frozen=True)
class Target:
    """A file to damage, and what reads it.

    Args:
        file: Its name.
        source: Makes the directory that is copied.
        read: Reads the copy, and returns everything that a user gets to see of it. It works beside the copy, ``run``.
        share: Of the time of the campaign.
    """

    file: str
    source: Callable[[Workspace], Path]
    read: Callable[[Path, Workspace], Any]
    share: float = 1.0


def flip(target: Target, trial: Trial) -> Outcome:
    """Damage one file, read it, and compare with what the undamaged one gives."""
    source = target.source(trial.workspace)
    undamaged = trial.workspace.made(f"read-{target.file}", partial(_undamaged, target, source, trial))
    expected = json.loads((undamaged / "value.json").read_text())
    run = trial.copied(source)
    file = next(run.rglob(target.file))
    file.write_bytes(damaged(file.read_bytes(), trial.rng, FLIPS, most=1))
    valid = is_json(file)
    ending = attempt(lambda: _value(target, run, trial.workspace), PATIENCE)
    return _judged(ending, expected, target.file, valid=valid)


def _judged(ending: Ending, expected: Any, file: str, *, valid: bool) -> Outcome:
    if fault := fault_of(ending):
        return Outcome("failed", fault)
    output = ending.words if ending.how == "raised" else ending.printed + ending.errors
    if ending.how == "returned" and ending.value == expected:
        return Outcome("same", "")
    named = ending.how == "returned" and "named" in expected and ending.value["named"][file] > expected["named"][file]
    if file in output or named:
        return Outcome("refused", ending.words or output[-300:])
    if ending.how == "raised":
        return Outcome("failed", f"refused without naming {file}: {ending.words[:300]}; {where(ending.errors)}")
    if any(code for code in ending.value.get("codes", [])):
        return Outcome("failed", f"refused without naming {file}: {output[-400:]}")
    if valid:
        return Outcome("undetectable", "another value or name")
    return Outcome("failed", f"silently different: {output[-400:]}")


def _undamaged(target: Target, source: Path, trial: Trial, directory: Path) -> None:
    run = Path(shutil.copytree(source, directory / VICTIM))
    (directory / "value.json").write_text(json.dumps(_value(target, run, trial.workspace)))


def _value(target: Target, run: Path, workspace: Workspace) -> Any:
    with inside(run.parent):
        return target.read(Path(run.name), workspace)


def _resumed(framework: str, run: Path, _workspace: Workspace) -> dict[str, Any]:
    """Go on from the checkpoint to the end."""
    code = pucl.cli.main(train(framework, run))
    files = ("encoder.safetensors", "embeddings.npz")
    return {"codes": [code], **{name: _digest(run / name) for name in files}}


def _encoded(run: Path, _workspace: Workspace) -> dict[str, Any]:
    rows = [_sum(pucl.load(directory).encode(PROBE)) for directory in (run, run / "encoder.safetensors")]
    return {"rows": rows}


def _reported(run: Path, _workspace: Workspace) -> dict[str, Any]:
    """What `pucl runs` and `pucl report` make of a directory."""
    codes = [
        pucl.cli.main(["runs", str(run), "--json", "runs.json"]),
        pucl.cli.main(["report", str(run), "--out", "page.html", "--points=50", "--force"]),
    ]
    page = Path("page.html").read_text() if Path("page.html").exists() else ""
    named = {target.file: page.count(target.file) for target in TARGETS}  # A page names what it leaves out.
    return {"codes": codes, "runs": _digest(Path("runs.json")), "page": _digest(Path("page.html")), "named": named}


def _loaded(run: Path, workspace: Workspace) -> dict[str, Any]:
    """A folder of pictures through its cache."""
    data = load(_folder(workspace), root=run)
    labels = [] if data.train.labels is None else data.train.labels.tolist()
    return {"pixels": _sum(np.asarray(data.pretrain.pixels)), "labels": labels, "notes": list(data.notes)}


def _folder(workspace: Workspace) -> Path:
    def make(directory: Path) -> None:
        for number, pixels in enumerate(np.random.default_rng(1).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)):
            file = directory / f"kind-{number % 2}" / f"{number}.png"
            file.parent.mkdir(exist_ok=True)
            Image.fromarray(pixels).save(file)

    return workspace.made("pictures", make)


def _cache(workspace: Workspace) -> Path:
    folder = _folder(workspace)
    return workspace.made("cache", lambda directory: load(folder, root=directory))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "none"


def _sum(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _simclr(workspace: Workspace) -> Path:
    return finished_run(workspace, "simclr")


TARGETS = (
    Target("checkpoint.pt", lambda workspace: half_run(workspace, "infograph"), partial(_resumed, "infograph"), 3.0),
    Target("encoder.safetensors", _simclr, _encoded, 2.0),
    *(
        Target(file, _simclr, _reported)
        for file in ("embeddings.npz", "config.json", "result.json", "metrics.jsonl", "environment.json")
    ),
    Target("comparison.json", comparison, _reported),
    Target("table.json", table, _reported),
    *(Target(file, collection, _reported) for file in (RUNS, METRICS, ENVIRONMENTS)),
    *(Target(file, _cache, _loaded, 0.5) for file in ("about.json", "pixels.bin")),
)
CACHES = {"about.json": "picture-cache-about", "pixels.bin": "picture-cache-pixels"}
COLLECTED = {RUNS: "collected-runs", METRICS: "collected-metrics", ENVIRONMENTS: "collected-environments"}
NAMES = CACHES | COLLECTED

KINDS = tuple(
    Kind(
        f"flip-{NAMES.get(target.file, target.file.partition('.')[0])}",
        "flipped bits",
        f"`{target.file}`{' of a cache' if target.file in CACHES else ''}",
        partial(flip, target),
        target.share,
    )
    for target in TARGETS
)
