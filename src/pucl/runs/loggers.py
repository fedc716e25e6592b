"""Loggers: other programs that keep the metrics of runs, one entry of a table each.

The run's own `metrics.jsonl` is always written. A logger gets the same numbers after each epoch, and the results at the
end. A run that is resumed continues its logged run: `logs.json` in the run's directory has its id, and the last step
that it got.
"""

import contextlib
import importlib
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypedDict
from uuid import uuid4

from pucl import processes
from pucl.config import RunConfig, check_known, check_once
from pucl.data.errors import ExtraMissingError, reason_of
from pucl.evaluation import numbers_in
from pucl.files import write_json
from pucl.records import read_record
from pucl.runs.directory import RunDirectory
from pucl.runs.display import POSITION

PROJECT = "pucl"  # Of wandb, mlflow and trackio, unless their own environment variables name another.


class Logger(Protocol):
    """An open logger.

    Attributes:
        id: What it needs to continue the same logged run.
        where: Where the logged run is, for the user.
    """

    id: str
    where: str

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        """Keep these numbers."""
        ...

    def close(self, *, finished: bool) -> None:
        """End the logged run; unless it is finished, it may be continued."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """A run as loggers see it.

    Args:
        id: Of the logged run that is continued; None for a new one.
        name: A name for people.
        directory: The run's directory.
        config: Its settings.
    """

    id: str | None
    name: str
    directory: Path
    config: dict[str, Any]


class TensorBoard:
    """Events for TensorBoard in ``RUN/tensorboard``; ``tensorboard --logdir`` of any directory above shows them."""

    def __init__(self, run: LoggedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (an extra)

        folder = RunDirectory(run.directory).tensorboard
        self.id, self.where = folder.name, str(folder)
        self._writer = SummaryWriter(str(folder))

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        """Write events, to the disk at once."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, *, finished: bool) -> None:  # noqa: ARG002
        """Close the file of events."""
        self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases, with its files in ``RUN/wandb``. WANDB_MODE=offline needs no account."""

    def __init__(self, run: LoggedRun) -> None:
        import wandb  # noqa: PLC0415 (an extra)

        self.id = run.id or uuid4().hex[:12]
        quiet = wandb.Settings(silent=True, console="off")  # pucl's display has the terminal.
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=self.id,
            name=run.name,
            dir=str(run.directory),
            config=run.config,
            resume="allow",
            reinit="finish_previous",
            settings=quiet,
        )
        self.where = str(self._run.url or RunDirectory(run.directory).wandb)

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        """Log the numbers of a step."""
        self._run.log(dict(numbers), step=step)

    def close(self, *, finished: bool) -> None:
        """Finish; another exit code marks a run that was stopped."""
        self._run.finish(exit_code=0 if finished else 1)


class MLflow:
    """A run of MLflow. MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME say where; default: MLflow's own."""

    def __init__(self, run: LoggedRun) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415 (an extra)

        self._client: Any = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        if run.id is None:
            found = self._client.get_experiment_by_name(name)
            experiment = self._client.create_experiment(name) if found is None else found.experiment_id
            self.id = str(self._client.create_run(experiment, run_name=run.name).info.run_id)
            for key, value in run.config.items():
                self._client.log_param(self.id, key, value)
        else:
            self.id = run.id
            self._client.update_run(self.id, status="RUNNING")
        self.where = f"{self._client.tracking_uri}, experiment {name}, run {self.id}"

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        """Log the numbers of a step."""
        for name, value in numbers.items():
            self._client.log_metric(self.id, name, value, step=step)

    def close(self, *, finished: bool) -> None:
        """Set the status of the run."""
        self._client.set_terminated(self.id, "FINISHED" if finished else "KILLED")


class Trackio:
    """A run of Trackio, which keeps it on this machine (TRACKIO_DIR). Its runs are known by their names."""

    def __init__(self, run: LoggedRun) -> None:
        import trackio  # noqa: PLC0415 (an extra)

        self.id = run.id or f"{run.name}-{uuid4().hex[:8]}"
        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        with contextlib.redirect_stdout(io.StringIO()):  # It prints what to do next.
            self._run: Any = trackio.init(project=project, name=self.id, config=run.config, resume="allow", embed=False)
        self.where = f'run {self.id}; trackio show --project "{project}"'

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        """Log the numbers of a step."""
        self._run.log(dict(numbers), step=step)

    def close(self, *, finished: bool) -> None:  # noqa: ARG002
        """Wait until everything is kept."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._run.finish()


@dataclass(frozen=True, kw_only=True)
class LoggerKind:
    """An entry of the table.

    Args:
        open: Begins or continues a logged run.
        module: What must be importable for it.
        package: The package that has it, which is also the name of the extra.
        advice: What to do if it cannot begin.
    """

    open: Callable[[LoggedRun], Logger]
    module: str
    package: str
    advice: str = ""


LOGGERS: Mapping[str, LoggerKind] = {
    "tensorboard": LoggerKind(open=TensorBoard, module="torch.utils.tensorboard", package="tensorboard"),
    "wandb": LoggerKind(
        open=WeightsAndBiases,
        module="wandb",
        package="wandb",
        advice="; `wandb login` signs in, WANDB_MODE=offline keeps everything in the run's directory",
    ),
    "mlflow": LoggerKind(
        open=MLflow,
        module="mlflow",
        package="mlflow",
        advice="; MLFLOW_TRACKING_URI names the server, or a file such as sqlite:///mlflow.db",
    ),
    "trackio": LoggerKind(open=Trackio, module="trackio", package="trackio"),
}
"""The loggers by name. A new one is a class and a line here."""


def check_loggers(names: Sequence[str]) -> None:
    """Refuse unknown loggers, and those whose package is missing."""
    for name in names:
        check_known("logger", name, LOGGERS)
    if names:
        check_once("loggers that a run has", names)
    for kind in (LOGGERS[name] for name in names):
        try:
            importlib.import_module(kind.module)
        except ImportError as error:
            raise ExtraMissingError(f"--log {kind.package}", kind.package, kind.package) from error


class Kept(TypedDict):
    """What is kept of a logger: the id of the logged run, and the last step that it got."""

    id: str
    step: int


class LogFile(TypedDict):
    """The content of `logs.json`."""

    loggers: dict[str, Kept]


class Loggers:
    """The loggers of one run. One that fails is reported once and then left out; the training continues.

    Several processes share a run; the first one logs. It is a context manager, which ends the logged runs.

    Args:
        names: Names in `LOGGERS`.
        directory: The run's directory.
        config: The run.
        say: Prints a line.
    """

    def __init__(
        self, names: Sequence[str], directory: RunDirectory, config: RunConfig, say: Callable[[str], None]
    ) -> None:
        check_loggers(names)
        self._names = tuple(names) if processes.rank() == 0 else ()
        self._directory = directory
        self._config = config
        self._say = say
        self._open: dict[str, Logger] = {}
        self._kept: dict[str, Kept] = {}

    def __enter__(self) -> "Loggers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._open):
            self._guarded(name, lambda logger: logger.close(finished=kind is None))
        self._open = {}

    def begin(self, history: Iterable[Mapping[str, Any]] = ()) -> None:
        """Open all loggers, and give each the epochs that it has not got yet: it may not have been there before."""
        file = self._directory.logs
        if self._names and file.exists():
            self._kept = read_record(file, LogFile)["loggers"]
        for name in self._names:
            known = self._kept.get(name)
            run = LoggedRun(
                id=None if known is None else known["id"],
                name=f"{self._config.subject}, {self._config.short_name}",
                directory=self._directory.path.resolve(),
                config=self._config.as_json(),
            )
            try:
                logger = LOGGERS[name].open(run)
            except Exception as error:
                raise ValueError(
                    f"--log {name} cannot begin: {type(error).__name__}: {reason_of(error)}{LOGGERS[name].advice}"
                ) from error
            self._open[name] = logger
            self._kept[name] = {"id": logger.id, "step": 0 if known is None else known["step"]}
            self._say(f"logging to {name}: {logger.where}")
        self._save()
        for metrics in history:
            self.epoch(metrics)

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """Log the metrics of an epoch. After a kill, epochs are repeated; a logger that has them gets them once."""
        step = int(metrics["step"])
        numbers = {
            name: float(value)
            for name, value in metrics.items()
            if isinstance(value, int | float) and name not in POSITION
        }
        self._write(numbers, step, [name for name in self._open if self._kept[name]["step"] < step])

    def result(self, result: Mapping[str, Any]) -> None:
        """Log the numbers of the probes."""
        numbers = {f"result/{name}": float(result[name]) for name in numbers_in([result])}
        for name in list(self._open):
            self._write(numbers, self._kept[name]["step"], [name])

    def _write(self, numbers: Mapping[str, float], step: int, names: Sequence[str]) -> None:
        for name in names:
            self._guarded(name, lambda logger: logger.write(numbers, step))
            self._kept[name]["step"] = step
        if names:
            self._save()

    def _guarded(self, name: str, use: Callable[[Logger], None]) -> None:
        """Use a logger; if it fails, say so and forget it."""
        logger = self._open[name]
        try:
            use(logger)
        except Exception as error:  # Whatever a network, a server or a disk raises.
            del self._open[name]
            self._say(
                f"warning: logging to {name} stopped: {type(error).__name__}: {reason_of(error)}. The training "
                f"continues, and {self._directory.metrics.name} has all metrics"
            )

    def _save(self) -> None:
        if self._kept:
            write_json(self._directory.logs, {"loggers": self._kept})
