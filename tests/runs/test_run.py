"""Runs: complete records, the same end after a kill, and nothing of anybody else's touched."""

import fcntl
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pucl import devices
from pucl.cli import main
from pucl.commands.naming import name_of_changes
from pucl.data.choosing import to_show
from pucl.data.errors import DataError
from pucl.evaluation import LinearClassifier
from pucl.frameworks.recipes import recipe
from pucl.images import task as images_module
from pucl.images.config import ImageConfig
from pucl.images.registry import load
from pucl.images.task import ImageTask, limited
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.log import RunLog
from pucl.runs.rows import as_csv, as_text
from pucl.runs.run import run
from pucl.runs.statistics import Difference
from pucl.runs.tables import compare_corrections
from pucl.signals import STOPPING, Stopped
from small_runs import fitting, save_pictures


def small(pictures: Path, framework: str = "simclr", **changes: Any) -> ImageConfig:
    settings: dict[str, Any] = {
        "epochs": 2,
        "batch_size": 12,
        "width": 8,
        "dim": 8,
        "queue_size": 24,
        "draws": 16,
        "flip": 0.0,
        "correction": "pucl",
    }
    config = recipe(framework, str(pictures), **(fitting(framework, **settings) | changes))
    assert isinstance(config, ImageConfig)
    return config


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


def test_what_a_killed_writer_left_is_cleared_away(pictures: Path, tmp_path: Path) -> None:
    for name in (".config.json.123.part", ".checkpoint.pt.123.part"):
        (tmp_path / name).write_text("{")
    run(small(pictures), tmp_path)
    assert (tmp_path / "result.json").exists()
    assert not list(tmp_path.glob(".*.part"))


def test_refuses_what_is_not_its_own(pictures: Path, tmp_path: Path) -> None:
    config = small(pictures)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="holds files that are not a run of pucl"):
        run(config, tmp_path / "theirs")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="expected a directory or a new name, got a file"):
        run(config, tmp_path / "file")
    run(config, tmp_path / "run")
    with pytest.raises(
        ValueError,
        match="holds another run: crop is 0.08 there and 0.2 here; choose another directory with --out",
    ):
        run(replace(config, crop=0.2), tmp_path / "run")
    with pytest.raises(ValueError, match="holds a finished run: return its result with --resume"):
        run(config, tmp_path / "run", resume=False)
    with (tmp_path / "run" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="is in use by another process"):
            run(config, tmp_path / "run")


def test_another_programs_configuration_is_left_alone(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.bin").write_text("weights")
    with pytest.raises(ValueError, match="config.json is damaged, or another program wrote it"):
        run(small(pictures), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.bin"}
    assert (tmp_path / "config.json").read_text() == '{"model_type": "bert"}'


def test_stopped_while_it_is_probed(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run without training nothing is left to go on from, and nothing that would be in the way of the next."""
    config = small(pictures, correction="untrained")
    with monkeypatch.context() as context:
        context.setattr(ImageTask, "evaluate", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "run", log=("tensorboard",))
    assert not (tmp_path / "run").exists()
    assert run(config, tmp_path / "run")["seconds"] == 0


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def asked_at(step: str, number: int) -> Callable[..., Any]:
    """A function that sends this process a signal, and then takes its time."""

    def ask(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(10)
        raise AssertionError(f"the signal did not stop {step}")

    return ask


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "number", "code"),
    [
        ("open_data", signal.SIGINT, 130),
        ("open_data", signal.SIGHUP, 129),
        ("build", signal.SIGTERM, 143),
        ("evaluate", signal.SIGTERM, 143),
        ("claimed", signal.SIGTERM, 143),
    ],
)
def test_a_signal_at_any_moment(
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    number: int,
    code: int,
) -> None:
    """While data load, while the framework is built, while it is probed: nothing is left that is of no use."""
    before = [signal.getsignal(each) for each in STOPPING]
    command = ["train", "simclr", str(pictures), "--epochs=1", "--batch-size=12", "--dim=8"]
    command += ["--out", str(tmp_path / "run")]
    with monkeypatch.context() as context:
        if step == "open_data":
            context.setattr("pucl.runs.run.open_data", asked_at(step, number))
        elif step == "claimed":  # In the middle of claiming the directory: it is claimed to the end, then cleared.
            context.setattr(RunDirectory, "begun", property(lambda _: signal.raise_signal(number)))
        elif step == "build":
            context.setattr("pucl.runs.run.build_framework", asked_at(step, number))
        else:
            context.setattr(ImageTask, step, asked_at(step, number))
        assert main(command) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if step == "evaluate":
        assert "pucl train: stopped, the training is saved; --resume continues" in said
        assert main([*command, "--resume"]) == 0
    else:
        assert "pucl train: stopped" in said
        assert not (tmp_path / "run").exists()
    assert [signal.getsignal(each) for each in STOPPING] == before


def test_a_signal_that_is_repeated_does_not_disturb_the_cleaning_up(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal, a scheduler and a grid may all send one."""
    monkeypatch.setattr("pucl.runs.run.open_data", asked_at("open_data", signal.SIGTERM))
    clear = RunDirectory._clear

    def asked_again(directory: RunDirectory) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        clear(directory)

    monkeypatch.setattr(RunDirectory, "_clear", asked_again)
    with pytest.raises(Stopped):
        run(small(pictures), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_signal_while_training_saves_first(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "simclr", str(pictures), "--epochs=2", "--batch-size=12", "--dim=8", "--out", str(tmp_path)]
    with monkeypatch.context() as context:
        context.setattr("pucl.runs.display.Display.step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert main(command) == 143
    assert "stopped, saved at step 2 of 8; --resume continues" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert "resuming at step 2 of 8" in capsys.readouterr().err


def test_an_ignored_signal_stays_ignored(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        display = Display()
        monkeypatch.setattr(Display, "step", lambda *_: os.kill(os.getpid(), signal.SIGHUP))
        run(small(pictures, epochs=1), tmp_path / "run", display=display)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (tmp_path / "run" / "result.json").exists()


def test_default_directories_tell_settings_apart(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["train", "simclr", str(pictures), "--epochs=1", "--batch-size=12", "--dim=8"]
    assert main([*command, "--correction=untrained"]) == 0
    assert main([*command, "--correction=untrained", "--temperature=0.2"]) == 0
    assert main([*command, "--correction=untrained", "--temperature=0.2"]) == 2  # The same command, the same directory.
    assert "--resume, or choose another directory with --out" in capsys.readouterr().err
    name = "simclr-pictures.npz-untrained-seed-0-epochs-1-batch-size-12-dim-8"
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {name, f"{name}-temperature-0.2"}


def test_names_of_changes() -> None:
    def name(recipe_name: str | None = None, **changes: Any) -> str:
        return name_of_changes(recipe("simclr", "digits", recipe_name, **changes), recipe_name)

    assert name() == ""
    assert name(epochs=12, seed=3, correction="plain") == ""  # The recipe's own, or in the name already.
    assert name(temperature=0.2, learning_rate=1e-05) == "-learning-rate-1e-05-temperature-0.2"
    assert name("small") == "-recipe-small"
    assert name("small", clip=1.0) == "-recipe-small-clip-1.0"
    assert name(correction="pucl", settings={"alpha": 0.2, "c": 0.1}) == "-alpha-0.2-c-0.1"
    encoders = [name(encoder=f"mine.models{letter}small") for letter in ":/"]
    assert encoders[0] != encoders[1]
    assert all(re.fullmatch(r"-encoder-mine.models-small-[0-9a-f]{8}", each) for each in encoders)
    many: dict[str, Any] = {
        "optimiser": "lars",
        "momentum": 0.8,
        "weight_decay": 1e-4,
        "warmup_epochs": 2,
        "schedule": "cosine",
    }
    long, longer = name(**many, clip=0.5), name(**many, clip=0.6)
    assert long != longer
    assert max(map(len, (long, longer))) < 100


def test_other_data_under_the_same_name(pictures: Path, tmp_path: Path) -> None:
    copied = tmp_path / "mine.npz"
    copied.write_bytes(pictures.read_bytes())
    config = small(copied)
    first = run(config, tmp_path / "run")
    assert run(config, tmp_path / "run") == first
    save_pictures(copied, 48, 16)
    with pytest.raises(ValueError, match="holds a run on other data: it has "):
        run(config, tmp_path / "run")


def test_processor_time_is_that_of_all_calls(tmp_path: Path, without_shape_checks: None) -> None:
    directory = RunDirectory(tmp_path)
    watch: dict[str, list[str]] = {"said": [], "steps": []}
    state = {
        "step": 0,
        "framework": {},
        "correction": {},
        "optimiser": {},
        "scaler": {},
        "tally": {"sums": {}, "steps": 0},
        "watch": watch,
    }
    training = SimpleNamespace(load=lambda _: None, step=0, steps_per_epoch=1, state=lambda: state)
    first = RunLog(directory, {"samples": 1})
    began = time.process_time()
    while time.process_time() - began < 0.2:
        pass
    first.save(training)  # type: ignore[arg-type]
    second = RunLog(directory, {"samples": 1})
    assert second.processor_seconds < 0.1
    assert second.resume(training)  # type: ignore[arg-type]
    assert second.processor_seconds > 0.2


def test_limit_takes_every_class_alike(pictures: Path, tmp_path: Path) -> None:
    assert run(small(pictures, limit=20), tmp_path / "run")["images"] == 20
    labels = limited(load(str(pictures)), 20).pretrain.labels
    assert labels is not None
    assert np.bincount(labels).tolist() == [10, 10]


def test_a_figure_shows_samples_of_all_classes() -> None:
    labels = np.arange(9999) % 2  # Every other one is of one class.
    for known in (None, labels):
        shown = to_show(known, len(labels), 5000)
        assert len(np.unique(shown)) == 5000
        assert 0.45 < labels[shown].mean() < 0.55
        np.testing.assert_array_equal(to_show(known, len(labels), 10_000), np.arange(9999))


IMAGES = ["--epochs=30", "--batch-size=12", "--dim=8", "--width=8", "--coarse=0.5"]
KILLED = {
    "simclr": IMAGES,
    "moco": [*IMAGES, "--queue-size=24"],
    "cmc": [*IMAGES, "--draws=16"],
    "infograph": ["--epochs=60", "--limit=44", "--batch-size=16", "--hidden=8", "--probes=knn"],
}


@pytest.mark.slow
@pytest.mark.parametrize("framework", KILLED)
def test_killed_and_resumed_is_uninterrupted(pictures: Path, tmp_path: Path, framework: str) -> None:
    """SIGKILL at a moment that nobody chose: final weights, bit by bit, as without."""
    data = "shapes" if framework == "infograph" else str(pictures)
    command = [
        sys.executable,
        "-m",
        "pucl",
        "train",
        framework,
        data,
        *KILLED[framework],
        "--correction=pucl",
        "--resume",
    ]

    def start(name: str) -> subprocess.Popen[bytes]:
        arguments = [*command, "--checkpoint-seconds=0.02", "--out", str(tmp_path / name)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603

    assert start("whole").wait(timeout=300) == 0
    process, checkpoint = start("killed"), tmp_path / "killed" / "checkpoint.pt"
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.005)
    time.sleep(0.2 * np.random.default_rng().random())
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert start("killed").wait(timeout=300) == 0
    one, other = ((tmp_path / name / "encoder.safetensors").read_bytes() for name in ("whole", "killed"))
    assert one == other
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "killed")]
    assert results[0]["knn"] == results[1]["knn"]
    assert results[0]["loss"] == results[1]["loss"]


@pytest.mark.slow
def test_comparison(pictures: Path, tmp_path: Path) -> None:
    rows = ["untrained", "plain", "pucl", "oracle"]
    comparison = compare_corrections(
        small(pictures, epochs=1), rows, 2, tmp_path / "out", settings={"pucl": {"alpha": 0.3}}
    )
    assert [line.correction for line in comparison.rows] == rows
    plain, pucl = comparison.rows[1], comparison.rows[2]
    assert plain.differences == {}
    difference = pucl.differences["linear"]
    assert difference.mean == pytest.approx(pucl.scores["linear"].mean - plain.scores["linear"].mean)
    assert difference == Difference.between(list(pucl.by_seed["linear"]), list(plain.by_seed["linear"]))
    assert pucl.tau_plus == pytest.approx(0.3 * 0.9 / (1 - 0.03))
    assert pucl.scores.keys() == pucl.by_seed.keys() == pucl.differences.keys() >= {"linear", "knn", "retrieval"}
    assert pucl.scores["linear"].count == pucl.count == 2
    assert comparison.rows[0].floored is None
    text, table = as_text(comparison.rows), as_csv(comparison.rows)
    for row in rows:
        assert row in text
        assert row in table
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert record["runs"]["plain"] == ["plain/seed-0", "plain/seed-1"]


@pytest.mark.slow
def test_commands(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--epochs=1", "--batch-size=12", "--dim=8"]
    command = ["train", "simclr", str(pictures), *settings, "--correction=pucl", "--alpha=0.2"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert "linear classifier" in capsys.readouterr().out
    assert RunDirectory(tmp_path / "run").config().settings == {"alpha": 0.2}
    assert main([*command, "--out", str(tmp_path / "run")]) == 2
    assert "--resume" in capsys.readouterr().err
    arguments = ["--corrections=plain,deb", "--seeds=1", "--out", str(tmp_path / "out")]
    assert main(["compare", "simclr", str(pictures), *settings, *arguments]) == 0
    printed = capsys.readouterr().out
    assert "deb" in printed
    assert "comparison.json" in printed


@pytest.mark.slow
def test_warnings_are_kept(pictures: Path, tmp_path: Path) -> None:
    """A prior that is far too large for its temperature is told early, and is in the result."""
    config = small(pictures, epochs=13, temperature=0.1, settings={"alpha": 0.8, "c": 0.0})
    result = run(config, tmp_path / "run")
    assert result["floored"] > 0.5
    assert len(result["warnings"]) == 1
    assert "of the anchors are at the floor" in result["warnings"][0]


@pytest.mark.slow
def test_the_monitor_looks_as_often_as_asked(pictures: Path, tmp_path: Path) -> None:
    run(small(pictures, epochs=6, monitor=3), tmp_path / "three")
    monitored = [line["epoch"] for line in RunDirectory(tmp_path / "three").history() if "knn" in line]
    assert monitored == [2, 4, 6]
    run(small(pictures, epochs=2, monitor=0), tmp_path / "never")
    assert not any("knn" in line for line in RunDirectory(tmp_path / "never").history())


def test_the_monitor_changes_nothing(pictures: Path, tmp_path: Path) -> None:
    losses = [run(small(pictures, monitor=times), tmp_path / str(times))["loss"] for times in (0, 2)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_prescribed_folds_are_used(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The accuracy is then the mean over probes, each fitted on its own part."""
    data = load(str(pictures))
    folds = tuple(np.flatnonzero(np.arange(len(data.train)) % 3 == number) for number in range(3))
    monkeypatch.setattr(images_module, "load", lambda *_args, **_kwargs: replace(data, folds=folds))
    result = run(small(pictures), tmp_path / "run")
    with np.load(tmp_path / "run" / "embeddings.npz") as kept:
        train, labels, test, test_labels = (kept[name] for name in ("train", "train_labels", "test", "test_labels"))
    scores = [LinearClassifier().fit(train[fold], labels[fold]).score(test, test_labels) for fold in folds]
    assert result["linear"] == pytest.approx(np.mean(scores))


@pytest.mark.slow
def test_half_precision(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """float16 under autocast, with a scaler that is kept in checkpoints; refused where a trial fails."""
    exact = run(small(pictures, width=None), tmp_path / "exact")
    half = run(small(pictures, width=None, precision="float16"), tmp_path / "half")
    assert half["loss"] == pytest.approx(exact["loss"], rel=0.05)
    assert half["loss"] != exact["loss"]
    monkeypatch.setattr(devices, "HALF_PRECISION", "raise SystemExit(4)")
    with pytest.raises(ValueError, match="precision bfloat16 does not work on cpu here .exit code 4.: take float32"):
        run(small(pictures, precision="bfloat16"), tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "float8"}, "'float8' is no precision"),
        ({"monitor": -1}, "how often the training set is probed"),
        ({"epochs": 0}, "the number of passes over the data: expected at least 1, got 0"),
        ({"batch_size": 1}, "samples in a step: expected at least 2, got 1"),
        ({"clip": 0.0}, "norm that a gradient may have: expected above 0, got 0"),
        ({"optimiser": "adm"}, "got adm. Did you mean 'adam'"),
        ({"learning_rate": -1.0}, "the learning rate: expected a finite lr > 0"),
        ({"schedule": "cosin"}, "'cosin' is no schedule"),
        ({"objective": "infonse"}, "'infonse' is no objective"),
        ({"warmup_epochs": 9}, "the first of all epochs: expected 0 to 2, got 9"),
        ({"crop": math.nan}, "crop is a number: expected a finite one, got nan"),
        ({"seed": 2**70}, "where random numbers start: expected 0 or more, below 2"),
    ],
)
def test_settings_that_cannot_be(pictures: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(pictures, **changes)


@pytest.mark.slow
def test_compiled(pictures: Path, tmp_path: Path) -> None:
    """In processes of their own, since the shape checks of the tests are not for a compiler to see."""
    command = [sys.executable, "-m", "pucl", "train", "simclr", str(pictures), "--epochs=1", "--batch-size=12"]
    for out, option in (("plain", []), ("compiled", ["--compile"])):
        options = ["--image-size=16", "--dim=8", "--width=8", "--monitor=0", *option, "--out", str(tmp_path / out)]
        subprocess.run([*command, *options], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})  # noqa: S603
    plain, compiled = (json.loads((tmp_path / out / "result.json").read_text()) for out in ("plain", "compiled"))
    assert compiled["loss"] == pytest.approx(plain["loss"], rel=1e-3)
    assert main(["eval", str(tmp_path / "compiled")]) == 0  # The file has the modules' names, not the compiler's.


@pytest.mark.parametrize(
    ("device", "message"), [("cuda", "got cuda and no CUDA"), ("moon", "expected auto, cpu, cuda")]
)
def test_a_device_that_is_not_there(pictures: Path, tmp_path: Path, device: str, message: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(ValueError, match=message):
        run(small(pictures), tmp_path / "run", device=device)


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_no_time_between_checkpoints(pictures: Path, tmp_path: Path, seconds: float) -> None:
    with pytest.raises(ValueError, match="the time between checkpoints: expected 0 or more"):
        run(small(pictures), tmp_path / "run", checkpoint_seconds=seconds)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_full_disk_loses_nothing(pictures: Path, tmp_path: Path) -> None:
    """Where files cannot grow, the command says so, keeps the last checkpoint whole, and goes on once there is room."""
    out = tmp_path / "run"
    command = ["train", "simclr", str(pictures), "--epochs=3", "--batch-size=12", "--dim=8", "--out", str(out)]
    program = (
        "import resource, signal, sys\n"
        "from pucl.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 2
    assert "cannot be saved because the file is larger than is allowed here: it needs " in done.stderr
    assert "the limit (ulimit -f) is 0.020 MB" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [path.name for path in out.iterdir() if path.name.endswith(".part") or path.name == "result.json"]
    assert main([*command, "--resume"]) == 0


def test_a_directory_that_cannot_be_written(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "run"))

    monkeypatch.setattr(Path, "mkdir", refuse)  # A superuser may write where others may not.
    assert main(["train", "simclr", str(pictures), "--batch-size=12", "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_another_kind_is_refused(pictures: Path, tmp_path: Path) -> None:
    config = small(pictures)
    run(config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"not one")
    with pytest.raises(ValueError, match="checkpoint.pt is damaged"):
        run(config, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["moco", "cmc"])
def test_half_precision_with_momentum(pictures: Path, tmp_path: Path, framework: str) -> None:
    """A scaler skips its first steps; momentum that was never set must not be used after them."""
    result = run(small(pictures, framework, precision="float16", epochs=6), tmp_path / "run")
    assert np.isfinite(result["loss"])


def test_a_setting_that_cannot_be_costs_no_directory(pictures: Path, tmp_path: Path) -> None:
    command = ["train", "simclr", str(pictures), "--epochs=1", "--dim=8", "--out", str(tmp_path / "run")]
    assert main([*command, "--batch-size=12", "--temperature=-1"]) == 2
    assert main([*command, "--batch-size=500"]) == 2
    assert main([*command, "--batch-size=12"]) == 0


def test_a_run_that_came_to_nothing_leaves_nothing(pictures: Path, tmp_path: Path) -> None:
    missing = replace(small(pictures), data=str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="nowhere"):
        run(missing, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run(small(pictures, epochs=1), tmp_path / "run")
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    with pytest.raises(ValueError, match="holds another run"):
        run(missing, tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


def test_other_images_are_not_continued_on(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(pictures)
    monkeypatch.setattr(ImageTask, "evaluate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(config, tmp_path / "run")
    monkeypatch.undo()
    data = load(str(pictures))
    brighter = replace(data, pretrain=replace(data.pretrain, pixels=data.pretrain.pixels // 2 + 100))
    monkeypatch.setattr(images_module, "load", lambda *_args, **_kwargs: brighter)
    with pytest.raises(ValueError, match="holds a run on other data"):
        run(config, tmp_path / "run")


def test_a_finished_run_is_left_as_it_is(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(small(pictures), tmp_path / "run")
    before = (tmp_path / "run" / "environment.json").read_text()
    monkeypatch.setattr("pucl.__version__", "99")
    run(small(pictures), tmp_path / "run")
    assert (tmp_path / "run" / "environment.json").read_text() == before


def test_labels_of_one_class_are_none(tmp_path: Path) -> None:
    path = tmp_path / "alike.npz"
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(path, images=pixels, labels=np.zeros(40, dtype=np.int64))
    result = run(small(path), tmp_path / "run")
    assert "linear" not in result
    assert (tmp_path / "run" / "encoder.safetensors").exists()
    with pytest.raises(ValueError, match="expected labels of two classes or more"):
        compare_corrections(small(path), ["plain"], 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_oracle_needs_labels_from_the_start(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with STL10, which is trained on images of which most have none."""
    data = load(str(pictures))
    unlabelled = replace(data, pretrain=replace(data.pretrain, labels=None, classes=()))
    monkeypatch.setattr(images_module, "load", lambda *_args, **_kwargs: unlabelled)
    with pytest.raises(ValueError, match="remove it by --corrections plain,pucl"):
        compare_corrections(small(pictures), ["plain", "pucl", "oracle"], 1, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train simclar digits", "Did you mean 'simclr'?"),
        ("train simclr digit", "digits"),
        ("train simclr digits --batch-size=5000", "choose a smaller batch"),
        ("train simclr digits --correction=plain --alpha=0.3", "--alpha is no setting of plain"),
        (
            "train simclr digits --alpha=0.3",
            "--alpha is no setting of auto: expected no settings",
        ),
        ("train simclr digits --tau-plus=0.3", "; to use it, choose deb or hard or"),
        ("train simclr digits --seed=-1", "expected 0 or more"),
        ("train simclr digits --clip=-1", "expected above 0, got -1"),
        ("train simclr digits --device=meta", "expected one that this machine has, got meta"),
        ("train simclr digits --recipe=tiny", "'tiny' is no recipe: expected one of reference, paper, small"),
        ("train simclr digits --hidden=5", "--hidden is a setting of infograph, not of simclr"),
        ("train simclr digits --correction=raw", "images have no features without an encoder"),
        ("train simclr ENZYMES", "ENZYMES is a set of graphs, for infograph: expected pictures for simclr"),
        ("compare simclr digits --corrections=plain,ring --beta=2", "--beta is no setting of plain, ring"),
        ("compare simclr digits --corrections=", "expected at least one, each once"),
        ("compare simclr digits --corrections=plain,pucl,plain", "expected at least one, each once"),
        ("compare simclr digits --corrections=puc", "Did you mean 'pucl'?"),
        ("compare simclr digits --seeds=0", "the number of trainings of each row"),
        ("train infograph digits", "digits is a set of pictures, for simclr, moco, cmc: expected graphs for infograph"),
        ("train infograph shapes --crop=0.3", "--crop is a setting of simclr, moco, cmc, not of infograph"),
        ("train infograph shapes --queue-size=5", "--queue-size is a setting of moco, not of infograph"),
        (
            "compare infograph shapes --image-size=32",
            "--image-size is a setting of simclr, moco, cmc, not of infograph",
        ),
        ("train infograph shapes --share=grpah", "Did you mean 'graph'?"),
        ("train infograph shapes --features=degre", "Did you mean 'degree'?"),
        ("train infograph shapes --probes=svm,nkn", "Did you mean 'knn'?"),
        ("train infograph shapes --compat=hlc", "Did you mean 'hcl'?"),
        ("train infograph shapes --compat=hcl --correction=ring", "for corrections with a tilt"),
        ("train infograph shapes --compat=hcl", "expected plain, deb, hard or pucl, got auto"),
        ("train infograph shapes --compat=hcl --correction=oracle", "expected the Jensen-Shannon objective"),
        ("train infograph shapes --compat=hcl --temperature=0.5", "expected the Jensen-Shannon objective"),
        ("train infograph shapes --objective=infonce", "expected a temperature"),
        ("train infograph shapes --limit=1", "expected at least 2, got 1"),
        ("compare infograph shapes --workers=0", "number of runs at a time: expected at least 1, got 0"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_wrong_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str) -> None:
    assert main([*arguments.split(), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("correction", "queue", "warned"), [("pucl", 24, False), ("pucl", 25, True), ("oracle", 25, False)]
)
def test_a_queue_that_never_fills_is_reported(
    pictures: Path, tmp_path: Path, correction: str, queue: int, warned: bool
) -> None:
    """What counts is the queue before the last step."""
    config = small(pictures, "moco", correction=correction, queue_size=queue, batch_size=12, epochs=1, limit=36)
    words = f"nothing will be corrected: the queue of {queue} keys"
    assert any(words in each for each in run(config, tmp_path / "run")["warnings"]) == warned


def test_divergence_says_what_to_try(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"training stopped at step .*there is no checkpoint yet.*--clip 1"):
        run(small(pictures, learning_rate=1e20, epochs=3), tmp_path / "run")
    run(small(pictures, epochs=1), tmp_path / "run")  # Nothing was kept that would be in the way.


def test_one_seed_gives_json_that_all_can_read(pictures: Path, tmp_path: Path) -> None:
    comparison = compare_corrections(small(pictures, epochs=1), ["plain", "deb"], 1, tmp_path / "out")
    assert "no interval" in as_text(comparison.rows)
    text = (tmp_path / "out" / "comparison.json").read_text()
    assert "Infinity" not in text
    assert json.loads(text)["lines"][1]["differences"]["linear"]["low"] is None


def test_recipes() -> None:
    assert recipe("simclr", "digits").epochs == 12
    assert recipe("simclr", "digits", "paper").epochs == 400
    assert recipe("simclr", "cifar10", "small").learning_rate == 2e-3
    assert recipe("moco", "cifar10", "small").learning_rate == 0.03


def test_a_run_is_the_same_from_any_directory(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pictures.parent)
    assert recipe("simclr", pictures.name).data == str(pictures.resolve())


@pytest.mark.parametrize(
    ("framework", "settings"),
    [
        (
            "simclr",
            (
                "--crop X smallest share of an image that a view shows",
                "--monitor-times N times that retrieval and kNN are measured",
            ),
        ),
        (
            "infograph",
            (
                "--hidden N dimension of each layer",
                "--share {graph,node,batch} which nodes share one estimate over negatives",
            ),
        ),
    ],
)
def test_help_explains_every_setting(
    framework: str, settings: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", framework, "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert all(setting in words for setting in settings)
