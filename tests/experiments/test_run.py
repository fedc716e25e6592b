"""Runs: complete records, the same end after a kill, and nothing of anybody else's touched."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pucl.cli import main
from pucl.experiments.compare import as_csv, as_text, compare_corrections
from pucl.experiments.config import RunConfig
from pucl.experiments.directory import RunDirectory
from pucl.experiments.recipes import recipe
from pucl.experiments.run import run


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kinds of tiny pictures, bright at the top or at the bottom, in a .npz file."""
    random = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = random.integers(0, 120, (60, 8, 8, 3))
    images[labels == 0, :4] += 120
    images[labels == 1, 4:] += 120
    path = tmp_path_factory.mktemp("data") / "pictures.npz"
    np.savez(path, images=images.astype(np.uint8), labels=labels)
    return path


def small(pictures: Path, framework: str = "simclr", **changes: object) -> RunConfig:
    settings: dict[str, object] = {"epochs": 2, "batch_size": 12, "dim": 8, "queue_size": 24, "draws": 16, "flip": 0.0}
    return recipe(framework, str(pictures), **(settings | changes))


@pytest.mark.parametrize("framework", ["simclr", "moco", "cmc"])
def test_a_run_leaves_a_complete_record(pictures: Path, tmp_path: Path, framework: str) -> None:
    config = small(pictures, framework)
    result = run(config, tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    assert directory.config() == config
    assert directory.result() == result
    assert 0 <= result["linear"] <= 1
    assert 0 <= result["knn"] <= 1
    assert result["peak_memory_mib"] > 0
    assert [line["epoch"] for line in directory.history()] == [1, 2]
    with np.load(tmp_path / "run" / "embeddings.npz") as embeddings:
        assert len(embeddings["train"]) + len(embeddings["test"]) == 60
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {
        "encoder.safetensors",
        "environment.json",
        "metrics.jsonl",
    }
    assert run(config, tmp_path / "run") == result  # Finished: returned, not run again.


def test_refuses_what_is_not_its_own(pictures: Path, tmp_path: Path) -> None:
    config = small(pictures)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="holds something else than a run of pucl"):
        run(config, tmp_path / "theirs")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="expected a directory or a new name, got a file"):
        run(config, tmp_path / "file")
    run(config, tmp_path / "run")
    with pytest.raises(ValueError, match="holds another run: temperature is 0.5 there and 0.2 here"):
        run(replace(config, temperature=0.2), tmp_path / "run")
    with pytest.raises(ValueError, match="go on with --resume"):
        run(config, tmp_path / "run", resume=False)
    with (tmp_path / "run" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="is in use by another process"):
            run(config, tmp_path / "run")


def test_limit_takes_every_class_alike(pictures: Path, tmp_path: Path) -> None:
    assert run(small(pictures, limit=20), tmp_path / "run")["images"] == 20


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["simclr", "moco", "cmc"])
def test_killed_and_resumed_is_uninterrupted(pictures: Path, tmp_path: Path, framework: str) -> None:
    """SIGKILL at a moment that nobody chose: final weights, bit by bit, as without."""
    command = [sys.executable, "-m", "pucl", "train", framework, str(pictures), "--epochs=40", "--batch-size=12"]
    command += ["--dim=8", "--queue-size=24", "--draws=16", "--resume", "--checkpoint-seconds=0.05"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def start(name: str) -> subprocess.Popen[bytes]:
        arguments = [*command, "--out", str(tmp_path / name)]
        return subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603

    assert start("whole").wait(timeout=300) == 0
    kills = 0
    for _ in range(20):
        process = start("killed")
        checkpoint = tmp_path / "killed" / "checkpoint.pt"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns > before):
            time.sleep(0.01)
        time.sleep(0.2 * np.random.default_rng(kills).random())
        if kills >= 3 or process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert process.wait(timeout=300) == 0
    assert kills >= 1
    one, other = ((tmp_path / name / "encoder.safetensors").read_bytes() for name in ("whole", "killed"))
    assert one == other
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "killed")]
    assert results[0]["linear"] == results[1]["linear"]
    assert results[0]["loss"] == results[1]["loss"]


def test_comparison(pictures: Path, tmp_path: Path) -> None:
    rows = ["untrained", "plain", "pucl", "oracle"]
    comparison = compare_corrections(small(pictures), rows, 2, tmp_path / "out", settings={"pucl": {"alpha": 0.3}})
    assert [line.correction for line in comparison.lines] == rows
    plain, pucl = comparison.lines[1], comparison.lines[2]
    assert plain.difference is None
    assert pucl.difference is not None
    assert pucl.difference.mean == pytest.approx(pucl.linear.mean - plain.linear.mean)
    assert pucl.difference.low <= pucl.difference.mean <= pucl.difference.high
    assert pucl.tau_plus == pytest.approx(0.3 * 0.9 / (1 - 0.03))
    assert pucl.linear.count == 2
    assert comparison.lines[0].floored is None
    text, table = as_text(comparison), as_csv(comparison)
    for row in rows:
        assert row in text
        assert row in table
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert record["runs"]["plain"] == ["plain/seed-0", "plain/seed-1"]


def test_commands(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--epochs=1", "--batch-size=12", "--dim=8"]
    assert main(["train", "simclr", str(pictures), *settings, "--alpha=0.2", "--out", str(tmp_path / "run")]) == 0
    assert "linear classifier" in capsys.readouterr().out
    assert RunDirectory(tmp_path / "run").config().settings == {"alpha": 0.2}
    assert main(["train", "simclr", str(pictures), *settings, "--alpha=0.2", "--out", str(tmp_path / "run")]) == 2
    assert "--resume" in capsys.readouterr().err
    arguments = ["--corrections=plain,deb", "--seeds=1", "--out", str(tmp_path / "out")]
    assert main(["compare", "simclr", str(pictures), *settings, *arguments]) == 0
    printed = capsys.readouterr().out
    assert "deb" in printed
    assert "comparison.json" in printed
    for wrong, message in (
        (["train", "simclar", str(pictures)], "Did you mean 'simclr'?"),
        (["train", "simclr", "digit"], "digits"),
        (["compare", "simclr", str(pictures), "--corrections=puc"], "Did you mean 'pucl'?"),
        (["compare", "simclr", str(pictures), "--seeds=0"], "how often each training is repeated"),
        (
            ["train", "simclr", str(pictures), "--batch-size=500", "--out", str(tmp_path / "x")],
            "choose a smaller batch",
        ),
    ):
        assert main(wrong) == 2
        assert message in capsys.readouterr().err
