"""One run from configuration to result: train, embed, probe, keep."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pucl import processes, signals
from pucl.config import NOT_TRAINED, ORACLE, PLAIN, RunConfig
from pucl.contrast.embeddings import NotFiniteError
from pucl.devices import check_precision, choose_device, peak_memory, reset_peak_memory
from pucl.files import write_json
from pucl.modality import Task
from pucl.runs.build import build_framework, modality_of, open_data
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.log import RunLog, check_same_data
from pucl.runs.tensorboard import TensorBoard
from pucl.runs.weights import need_safetensors, save_weights
from pucl.training.framework import Framework
from pucl.training.loop import Plan, Training, TrainingStoppedError
from pucl.training.optimisers import make_optimiser, schedule

SILENT = Display()


def run(
    config: RunConfig,
    out: Path,
    *,
    root: Path | None = None,
    resume: bool = True,
    checkpoint_seconds: float = 60.0,
    device: str = "auto",
    compiled: bool = False,
    tensorboard: bool = False,
    display: Display = SILENT,
) -> dict[str, Any]:
    """Train and evaluate, or go on from where an earlier call was stopped, or return the finished result.

    Where several processes work together, each calls this; the first alone reads and writes the run's directory.

    Args:
        config: What to run.
        out: The run's directory.
        root: Where data are; see `open_data`.
        resume: Go on from a checkpoint. Off: a directory that has one is refused.
        checkpoint_seconds: How much work a kill may cost at most.
        device: Where to train; see `pucl.devices.choose_device`.
        compiled: Let torch.compile translate encoder and head first.
        tensorboard: Write metrics as TensorBoard's events as well.
        display: Shows how it goes.
    """
    check_checkpoint_seconds(checkpoint_seconds)
    need_safetensors()  # Now, so that the end of a training does not fail for want of it.
    directory, place = RunDirectory(out), choose_device(device)
    check_precision(place, config.precision)
    with signals.raised(), _resumable(directory), ExitStack() as claim:
        with signals.held():
            processes.from_first(lambda: claim.enter_context(directory.claimed(config, device=place)))
        finished = processes.from_first(directory.result)
        if processes.from_first(lambda: directory.begun) and not (resume or processes.restarted()):
            state = "was begun: go on with" if finished is None else "is finished: have it again with"
            raise ValueError(f"{out} holds a run that {state} --resume, or choose another directory with --out")
        if finished is not None:
            if "data" in finished:
                check_same_data(directory, finished["data"], open_data(config, root).fingerprint())
            return finished
        processes.from_first(lambda: _prepare(config, root))  # A folder is turned into one array once, not by each.
        task = open_data(config, root)
        task.need_packages()
        for note in task.notes:
            display.say(note)
        reset_peak_memory(place)
        framework = build_framework(config, task.shape, device=place, compiled=compiled)
        trained = train(config, framework, task, directory, checkpoint_seconds, display, tensorboard=tensorboard)
        about = task.about(framework)
        processes.from_first(lambda: save_weights(directory.weights, framework, config, about))
        display.status("probing")
        began, processor = time.monotonic(), time.process_time() - trained.pop("processor_seconds", 0.0)
        scores, embeddings = task.evaluate(framework)
        result = {
            **scores,
            **trained,
            "evaluation_seconds": time.monotonic() - began,
            "processor_seconds": time.process_time() - processor,
            "peak_memory_mib": peak_memory(place),
            modality_of(config).name: len(task.samples),
            "data": task.fingerprint(),
            "device": str(place),
            "processes": processes.world_size(),
            "notes": list(task.notes),
        }

        def keep() -> None:
            directory.keep_embeddings(embeddings)
            write_json(out / "result.json", result)
            directory.checkpoint.unlink(missing_ok=True)

        processes.from_first(keep)
        return result


def train(
    config: RunConfig,
    framework: Framework[Any],
    task: Task,
    directory: RunDirectory,
    checkpoint_seconds: float,
    display: Display,
    *,
    tensorboard: bool = False,
) -> dict[str, Any]:
    """Train to the end, leaving a checkpoint now and then and a line of metrics for each epoch."""
    if config.correction in NOT_TRAINED:
        return {"seconds": 0.0}
    if config.correction == ORACLE and task.labels is None:
        raise ValueError(f"the oracle knows the labels: expected data with labels, got {config.data}")
    log = RunLog(directory, task.fingerprint())

    def warn(words: str) -> None:
        log.warnings.append(words)
        display.say(f"warning: {words}")

    training = make_training(config, framework, task, warn)
    if log.resume(training):
        display.say(f"going on from step {training.step} of {training.steps}")
    elif config.correction not in (PLAIN, ORACLE) and (
        reason := framework.never_ready(training.steps, config.batch_size)
    ):
        warn(reason)
    monitor = task.monitor(framework) if config.monitor else None
    board = TensorBoard(directory.tensorboard, step=training.step) if tensorboard and processes.rank() == 0 else None
    with ExitStack() as ending:
        if board is not None:
            ending.callback(board.close)
        stop = ending.enter_context(signals.noted())

        def after_step() -> None:
            if processes.any_of(stop.is_set(), training.device):
                log.keep(training)
                raise stop.exception(f"saved at step {training.step} of {training.steps}; --resume goes on")
            if time.monotonic() - log.saved > checkpoint_seconds:
                log.keep(training)
            display.step(training.position() | {"unit": modality_of(config).name})

        try:
            for line in training.run(after_step):
                if monitor is not None and _monitored(line["epoch"], config):
                    line["knn"] = monitor()
                log.history.append(line)
                display.epoch(line | {"unit": modality_of(config).name})
                if board is not None:
                    board.epoch(line)
        except ValueError as error:
            log.keep_metrics()
            kept = "the last checkpoint is kept" if directory.checkpoint.exists() else "there is no checkpoint yet"
            advice = "; or try gradient clipping, --clip 1" if isinstance(error, NotFiniteError) else ""
            raise TrainingStoppedError(
                f"training stopped at step {training.step + 1} of {training.steps}, {kept}: {error}{advice}"
            ) from error
    log.keep(training)
    last = log.history[-1]
    names = ("loss", "floored", "tau_plus", "positive_similarity", "unlabelled_similarity", "samples_per_second")
    about = {"seconds": log.seconds, "processor_seconds": log.processor_seconds, "warnings": log.warnings}
    return {name: last[name] for name in names if name in last} | about


def make_training(
    config: RunConfig, framework: Framework[Any], task: Task, warn: Callable[[str], None] = lambda _: None
) -> Training[Any]:
    """The training that the configuration describes, before its first step."""
    correction, plan = config.make_correction(), build_plan(config, len(task.samples))
    rest = len(task.samples) % config.batch_size
    if plan.keep_rest and rest > 1:
        try:
            correction.check_samples(rest - 1)
        except ValueError as error:  # Now, and not at the end of the first epoch.
            raise ValueError(
                f"the last batch of an epoch has {rest} {modality_of(config).name}: {error}; or choose another "
                f"batch size"
            ) from error
    return Training(
        framework,
        make_optimiser(
            config.optimiser,
            framework.parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        ),
        task.samples,
        correction,
        plan,
        labels=task.labels if config.correction == ORACLE else None,
        warn=warn,
    )


def build_plan(config: RunConfig, samples: int) -> Plan:
    """How to train on so many samples, by the configuration."""

    def learning_rate(step: int, steps: int) -> float:
        warmup = config.warmup_epochs * plan.steps_per_epoch(samples)
        return config.learning_rate * schedule(step, steps, warmup, kind=config.schedule)

    plan = Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=learning_rate,
        clip=config.clip,
        seed=config.seed,
        objective=config.objective,
        floor=config.floor,
        precision=config.precision,
        keep_rest=config.keep_rest,
        compat=config.as_published(),
    )
    return plan


@contextmanager
def _resumable(directory: RunDirectory) -> Iterator[None]:
    """Let whoever stops a run outside of its training know that the training is not lost."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if str(stop) or not directory.begun:
            raise
        raise signals.Stopped(signals.signal_of(stop), "the training is saved; --resume goes on") from stop


def check_checkpoint_seconds(seconds: float) -> None:
    """Refuse what is no time between checkpoints."""
    if not seconds >= 0:  # NaN neither.
        raise ValueError(
            f"checkpoint_seconds is how much work a kill may cost at most: expected 0 or more, got {seconds:g}"
        )


def _prepare(config: RunConfig, root: Path | None) -> None:
    """Read the data once, so that they are there in the form in which all processes read them."""
    if processes.world_size() > 1:
        open_data(config, root)


def _monitored(epoch: float, config: RunConfig) -> bool:
    """Whether the monitor looks after this epoch: so many times in a training, evenly, and at the end."""
    return int(epoch * config.monitor / config.epochs) > int((epoch - 1) * config.monitor / config.epochs)
