"""Small runs and comparisons to attack, each made once for a campaign, and the comparison of two runs."""

import itertools
import json
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pucl.cli
from faults.trial import Workspace
from pucl.graphs.sources.shapes import make_shapes
from pucl.graphs.sources.tu import write_tu
from pucl.runs.collection import ENVIRONMENTS, METRICS, RUNS
from pucl.runs.display import Display

IMAGES = ("--limit=64", "--epochs=6", "--batch-size=16", "--dim=8", "--width=8")
GRAPHS = ("--limit=44", "--epochs=24", "--batch-size=22", "--hidden=8", "--layers=2", "--probes=knn")
TRAININGS = {
    "simclr": ("simclr", "digits", *IMAGES),
    "moco": ("moco", "digits", *IMAGES, "--queue-size=32"),
    "cmc": ("cmc", "digits", *IMAGES, "--draws=16"),
    "infograph": ("infograph", "shapes", *GRAPHS),
}
"""By framework: the arguments of ``pucl train`` for a run of a second or two."""

TIMES = ("seconds", "processor_seconds", "evaluation_seconds", "seconds_left", "samples_per_second", "peak_memory_mib")
"""What no two runs have in common."""


def train(framework: str, out: Path, *, seed: int = 0, checkpoint_seconds: float = 60.0) -> list[str]:
    """The command that trains or resumes."""
    options = [f"--seed={seed}", f"--checkpoint-seconds={checkpoint_seconds}", "--monitor=0", "--resume"]
    return ["train", *TRAININGS[framework], *options, "--out", str(out)]


def finished_run(workspace: Workspace, framework: str, seed: int = 0) -> Path:
    """A run that was not disturbed."""
    return workspace.made(f"whole-{framework}-{seed}", lambda directory: _run(train(framework, directory, seed=seed)))


def half_run(workspace: Workspace, framework: str) -> Path:
    """A run that was stopped in the middle by SIGTERM, and has a checkpoint."""

    def make(directory: Path) -> None:
        steps = itertools.count(1)

        def step(_display: Display, metrics: dict[str, Any]) -> None:
            if next(steps) == metrics["steps"] // 2:
                os.kill(os.getpid(), signal.SIGTERM)

        with patch.object(Display, "step", step):
            _run(train(framework, directory), code=143)

    return workspace.made(f"half-{framework}", make)


def comparison(workspace: Workspace) -> Path:
    """A comparison of two rows."""

    def make(directory: Path) -> None:
        graphs = [argument for argument in TRAININGS["infograph"] if not argument.startswith("--epochs")]
        options = ["--epochs=2", "--corrections=plain,deb", "--seeds=1", "--no-page", "--monitor=0", "--workers=1"]
        _run(["compare", *graphs, *options, "--out", str(directory)])

    return workspace.made("comparison", make)


def table(workspace: Workspace) -> Path:
    """The same comparison as the only part of a table."""
    source = comparison(workspace)

    def make(directory: Path) -> None:
        shutil.copytree(source, directory, dirs_exist_ok=True)
        record = json.loads((directory / "comparison.json").read_text())
        (directory / "comparison.json").unlink()
        (directory / "table.json").write_text(json.dumps({"command": record["command"], "data": {"shapes": record}}))

    return workspace.made("table", make)


def collection(workspace: Workspace) -> Path:
    """The same comparison as it is sent to others: its collection, without directories of runs."""
    source = comparison(workspace)

    def make(directory: Path) -> None:
        for name in ("comparison.json", RUNS, METRICS, ENVIRONMENTS):
            shutil.copy(source / name, directory / name)

    return workspace.made("collection", make)


def few_graphs(workspace: Workspace) -> Path:
    """Eleven graphs of each of four shapes, as files of the TU collection."""

    def make(directory: Path) -> None:
        graphs = make_shapes(each=11)
        write_tu(replace(graphs, classes=tuple(map(str, range(len(graphs.classes))))), directory / "FEW")

    return workspace.made("graphs", make) / "FEW"


def _run(arguments: list[str], code: int = 0) -> None:
    """Run a command by a clock that is the same each time, so that its records have the same length."""
    ticks = itertools.count()
    clock = patch.multiple(time, monotonic=lambda: next(ticks) / 64, process_time=lambda: next(ticks) / 64)
    with clock, patch("pucl.runs.run.peak_memory", lambda _: 256.0):
        came = pucl.cli.main(arguments)
    if came != code:
        raise RuntimeError(f"pucl {' '.join(arguments)}: exit {came}")


def differences(one: Path, other: Path) -> list[str]:
    """Which files of two finished runs differ, but for times."""
    wrong = [
        name
        for name in ("config.json", "encoder.safetensors", "embeddings.npz")
        if _bytes(one / name) != _bytes(other / name)
    ]
    return wrong + [
        name for name in ("result.json", "metrics.jsonl") if _timeless(one / name) != _timeless(other / name)
    ]


def leftovers(run: Path) -> list[str]:
    """What a finished run should not have: files of writers that were killed, checkpoints."""
    wanted = {"config.json", "run.toml", "environment.json", "metrics.jsonl", "result.json", "encoder.safetensors"}
    return sorted(path.name for path in run.iterdir() if path.name not in wanted | {"embeddings.npz", ".lock"})


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _timeless(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    text = file.read_text()
    records = [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]
