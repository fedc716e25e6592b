"""Loggers: each gets the metrics of the run once, also after a resume, and none of them can stop a training."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pucl.cli import main
from pucl.config import RunConfig
from pucl.runs import loggers
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.grid import Resources, run_grid
from pucl.runs.jobs import Job
from pucl.runs.loggers import LOGGERS, LoggedRun, LoggerKind
from pucl.runs.run import run
from small_runs import small_run

Written = list[tuple[int, dict[str, float]]]


class StopError(Exception):
    """Ends a training in a test."""


class Listening(Display):
    """Keeps what is said, and stops at a step."""

    def __init__(self, stop_at: int = 0) -> None:
        super().__init__()
        self.said: list[str] = []
        self.stop_at = stop_at

    def say(self, words: str) -> None:
        self.said.append(words)

    def step(self, metrics: Mapping[str, Any]) -> None:
        if metrics["step"] == self.stop_at:
            raise StopError


class Memory:
    """A logger that keeps numbers in this process, by the id of the logged run."""

    runs: dict[str, Written]
    fails_at = 0
    ends: list[bool]

    def __init__(self, logged: LoggedRun) -> None:
        self.id = logged.id or f"run-{len(self.runs)}"
        self.where = "memory"
        self.runs.setdefault(self.id, [])

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        if step == self.fails_at:
            raise ConnectionError("the server is gone")
        self.runs[self.id].append((step, dict(numbers)))

    def close(self, *, finished: bool) -> None:
        self.ends.append(finished)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> type[Memory]:
    monkeypatch.setattr(Memory, "runs", {}, raising=False)
    monkeypatch.setattr(Memory, "ends", [], raising=False)
    monkeypatch.setattr(Memory, "fails_at", 0)
    kind = LoggerKind(open=Memory, module="sys", package="memory")
    monkeypatch.setattr(loggers, "LOGGERS", {**LOGGERS, "memory": kind})
    return Memory


def config() -> RunConfig:
    return small_run("deb", epochs=4)


def losses(path: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in RunDirectory(path).history()]


def logged_losses(written: Written) -> list[tuple[int, float]]:
    return [(step, numbers["loss"]) for step, numbers in written if "loss" in numbers]


def test_a_logger_gets_metrics_and_results(memory: type[Memory], tmp_path: Path) -> None:
    result = run(config(), tmp_path / "run", log=("memory",))
    ((_, written),) = memory.runs.items()
    assert logged_losses(written) == losses(tmp_path / "run")
    assert written[-1] == (8, {"result/knn": result["knn"]})
    assert "seconds_left" not in written[0][1]
    assert memory.ends == [True]


def test_a_resumed_run_continues_its_logged_run(memory: type[Memory], tmp_path: Path) -> None:
    """Killed after the third epoch, with a checkpoint of the second one: no epoch is logged twice."""
    directory = RunDirectory(tmp_path / "run")
    files = (directory.checkpoint, directory.metrics)
    kept: list[bytes] = []

    class Keeping(Listening):
        def step(self, metrics: Mapping[str, Any]) -> None:
            if metrics["step"] == 5:
                kept.extend(file.read_bytes() for file in files)
            super().step(metrics)

    with pytest.raises(StopError):
        run(config(), tmp_path / "run", log=("memory",), checkpoint_seconds=0, display=Keeping(stop_at=7))
    for file, content in zip(files, kept, strict=True):
        file.write_bytes(content)
    assert [step for step, _ in next(iter(memory.runs.values()))] == [2, 4, 6]
    assert memory.ends == [False]
    run(config(), tmp_path / "run", log=("memory",))
    ((_, written),) = memory.runs.items()
    assert logged_losses(written) == losses(tmp_path / "run")
    assert memory.ends == [False, True]


def test_a_logger_that_comes_later_gets_the_earlier_epochs(memory: type[Memory], tmp_path: Path) -> None:
    with pytest.raises(StopError):
        run(config(), tmp_path / "run", checkpoint_seconds=0, display=Listening(stop_at=5))
    run(config(), tmp_path / "run", log=("memory",))
    assert logged_losses(next(iter(memory.runs.values()))) == losses(tmp_path / "run")


def test_a_logger_that_fails_does_not_stop_the_training(memory: type[Memory], tmp_path: Path) -> None:
    memory.fails_at = 4
    display = Listening()
    result = run(config(), tmp_path / "run", log=("memory",), display=display)
    assert result["loss"] == run(config(), tmp_path / "other")["loss"]
    warnings = [words for words in display.said if "logging to memory stopped" in words]
    assert warnings == [
        "warning: logging to memory stopped: ConnectionError: the server is gone. The training continues, and "
        "metrics.jsonl has all metrics"
    ]
    assert [step for step, _ in next(iter(memory.runs.values()))] == [2]


def test_each_run_of_a_grid_logs_on_its_own(memory: type[Memory], tmp_path: Path) -> None:
    jobs = [Job(name=name, path=name, config=small_run(name), row=name) for name in ("plain", "deb")]
    run_grid(jobs, tmp_path, Resources(log=("memory",)))
    assert [logged_losses(written) for written in memory.runs.values()] == [losses(tmp_path / job.path) for job in jobs]


def test_a_run_that_failed_leaves_no_logs(memory: type[Memory], tmp_path: Path) -> None:
    memory.fails_at = -1
    with pytest.raises(StopError):
        run(config(), tmp_path / "run", log=("memory", "tensorboard"), display=Listening(stop_at=1))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("tensorbord", "'tensorbord' is no logger: expected one of tensorboard, wandb, mlflow, trackio. Did you mean"),
        ("wandb", "--log wandb needs wandb, which is not installed: pip install '.[wandb]'"),
    ],
)
def test_wrong_loggers(
    names: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "infograph", "shapes", "--log", names]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_logger_that_cannot_begin_is_a_sentence(memory: type[Memory], tmp_path: Path) -> None:
    def fail(_: LoggedRun) -> Memory:
        raise RuntimeError("no key")

    broken = LoggerKind(open=fail, module="sys", package="memory", advice="; get one")
    loggers.LOGGERS["memory"] = broken  # type: ignore[index]  # The fixture's own copy.
    with pytest.raises(ValueError, match="--log memory cannot begin: RuntimeError: no key; get one"):
        run(config(), tmp_path / "run", log=("memory",))
    assert not (tmp_path / "run").exists()


def test_tensorboard_keeps_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]  # noqa: PLC0415
        EventAccumulator,
    )

    run(config(), tmp_path / "run", log=("tensorboard",))
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    expected = losses(tmp_path / "run")
    assert [event.step for event in events.Scalars("loss")] == [step for step, _ in expected]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx([loss for _, loss in expected])
    assert [event.step for event in events.Scalars("result/knn")] == [8]


def interrupted_and_resumed(path: Path, name: str) -> None:
    """Log a run that is stopped on the way."""
    with pytest.raises(StopError):
        run(config(), path, log=(name,), checkpoint_seconds=0, display=Listening(stop_at=5))
    run(config(), path, log=(name,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_runs_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # The database of the whole mlflow would need more packages.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    interrupted_and_resumed(tmp_path / "run", "mlflow")
    client = mlflow.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("pucl").experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.params["correction"] == "deb"
    history = client.get_metric_history(found.info.run_id, "loss")
    assert [(each.step, each.value) for each in history] == losses(tmp_path / "run")
    assert "result/knn" in found.data.metrics


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_keeps_runs_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, both parts of a resumed run have the same id, under which `wandb sync` joins them."""
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    interrupted_and_resumed(tmp_path / "run", "wandb")
    parts = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(parts) == 2
    assert len({part.name for part in parts}) == 1
    logged = [pair for part in parts for pair in wandb_history(part)]
    assert [step for step, _ in logged] == [step for step, _ in losses(tmp_path / "run")]
    assert "loss" in logged[0][1]
    assert {"loss", "result/knn"} <= logged[-1][1]


def wandb_history(file: Path) -> list[tuple[int, set[str]]]:
    """The steps that a file of wandb holds, each with the names of its numbers.

    wandb writes in another process, which may still be at it: the record of its exit is the last one.
    """
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    steps, records = [], []
    for _ in range(300):
        records = [wandb_internal_pb2.Record.FromString(data) for data in leveldb_records(file.read_bytes())]
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            break
        time.sleep(0.1)
    for record in records:
        if record.WhichOneof("record_type") == "history":
            names = {item.key or "/".join(item.nested_key) for item in record.history.item}
            steps.append((record.history.step.num, names))
    return steps


def leveldb_records(content: bytes) -> list[bytes]:
    """The records of a log in LevelDB's format: blocks of 32 KiB with fragments, each after a header of 7 bytes."""
    records, whole, at = [], b"", 7
    while at + 7 <= len(content):
        if 2**15 - at % 2**15 < 7:  # No header fits into the rest of a block.
            at += 2**15 - at % 2**15
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # Whole, or the last fragment.
            records.append(whole)
            whole = b""
    return records


def test_trackio_is_called_as_it_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trackio needs an older Pillow than pucl is tested with, so that a stand-in with its interface is called."""
    calls: list[tuple[str, Any]] = []

    class Run:
        def log(self, metrics: dict[str, float], step: int | None = None) -> None:
            calls.append(("log", (step, metrics)))

        def finish(self) -> None:
            calls.append(("finish", None))

    def init(
        project: str, name: str | None = None, config: Any = None, resume: str = "never", embed: bool = True
    ) -> Run:
        calls.append(("init", (project, name, config["correction"], resume, embed)))
        return Run()

    module = ModuleType("trackio")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trackio", module)
    interrupted_and_resumed(tmp_path / "run", "trackio")
    (first, second) = (value for what, value in calls if what == "init")
    assert first == second
    assert (first[0], first[2:]) == ("pucl", ("deb", "allow", False))
    logged = [(step, numbers["loss"]) for what, (step, numbers) in calls_of(calls, "log") if "loss" in numbers]
    assert logged == losses(tmp_path / "run")
    assert sum(what == "finish" for what, _ in calls) == 2


def calls_of(calls: list[tuple[str, Any]], name: str) -> list[tuple[str, Any]]:
    return [(what, value) for what, value in calls if what == name]
