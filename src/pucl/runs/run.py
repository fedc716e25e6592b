"""One run from configuration to record: open the data, build, train, embed, probe, write the result."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pucl import processes, signals
from pucl.config import ATTRACTING_ORACLE, NOT_TRAINED, ORACLES, PLAIN, RunConfig
from pucl.contrast.embeddings import NotFiniteError
from pucl.devices import check_precision, choose_device, peak_memory, reset_peak_memory
from pucl.frameworks import build_framework, modality_of, open_data
from pucl.modality import Task
from pucl.runs.directory import RunDirectory
from pucl.runs.display import SILENT, Display
from pucl.runs.exclusion import excluded_pairs, fingerprint
from pucl.runs.log import RunLog, check_same_data
from pucl.runs.loggers import Loggers
from pucl.runs.posterior import kept_state
from pucl.runs.trained import need_safetensors, save_weights
from pucl.training.framework import Framework
from pucl.training.loop import Training, TrainingStoppedError
from pucl.training.optimisers import make_optimiser
from pucl.training.plan import Plan

KEPT = ("loss", "floored", "tau_plus", "positive_similarity", "unlabelled_similarity", "samples_per_second")
"""Metrics of the last epoch that the result repeats."""


def run(
    config: RunConfig,
    out: Path,
    *,
    root: Path | None = None,
    resume: bool = True,
    checkpoint_seconds: float = 60.0,
    device: str = "auto",
    compiled: bool = False,
    log: Sequence[str] = (),
    display: Display = SILENT,
) -> dict[str, Any]:
    """Train and evaluate, or resume an interrupted run, or return the result of a finished one.

    With several processes, each calls this function; the first one alone reads and writes the run's directory.

    Args:
        config: What to run.
        out: The run's directory.
        root: The directory of data sets; see `pucl.frameworks.open_data`.
        resume: Resume from a checkpoint. If False, a directory that has one is refused.
        checkpoint_seconds: Time between checkpoints: the work that a kill may cost at most.
        device: The device to train on; see `pucl.devices.choose_device`.
        compiled: Compile encoder and head with torch.compile first.
        log: Names of loggers that get the metrics too; see `pucl.runs.loggers`.
        display: Shows the progress.
    """
    check_checkpoint_seconds(checkpoint_seconds)
    need_safetensors()  # Now, so that the end of a training does not fail without it.
    directory, chosen = RunDirectory(out), choose_device(device)
    check_precision(chosen, config.precision)
    loggers = Loggers(log, directory, config, display.say)
    with signals.raised(), _resumable(directory), ExitStack() as claim:
        with signals.held():
            processes.from_first(lambda: claim.enter_context(directory.claimed(config, device=chosen)))
        finished = _finished_before(directory, config, root, resume=resume)
        if finished is not None:
            return finished
        task = _open_data(config, root)
        task.need_packages()
        for note in task.notes:
            display.say(note)
        claim.enter_context(loggers)
        reset_peak_memory(chosen)
        framework = build_framework(config, task.shape, device=chosen, compiled=compiled)
        trained = train(config, framework, task, directory, checkpoint_seconds, display, loggers)
        about = task.about(framework)
        processes.from_first(lambda: save_weights(directory.weights, framework, config, about))
        display.status("probing")
        began, processor = time.monotonic(), time.process_time() - trained.pop("processor_seconds", 0.0)
        kept = trained.pop("kept", {})
        scores, embeddings = task.evaluate(framework)
        result = {
            **scores,
            **trained,
            "evaluation_seconds": time.monotonic() - began,
            "processor_seconds": time.process_time() - processor,
            "peak_memory_mib": peak_memory(chosen),
            modality_of(config).name: len(task.samples),
            "data": fingerprint(config, task),
            "device": str(chosen),
            "processes": processes.world_size(),
            "notes": list(task.notes),
        }
        loggers.result(result)
        processes.from_first(lambda: directory.finish(result, embeddings | kept))
        return result


def train(
    config: RunConfig,
    framework: Framework[Any],
    task: Task,
    directory: RunDirectory,
    checkpoint_seconds: float,
    display: Display,
    loggers: Loggers,
) -> dict[str, Any]:
    """Train to the end, with a checkpoint now and then and a line of metrics for each epoch.

    Returns:
        Numbers for the result; ``kept``: arrays to keep with the embeddings, see `kept_state`.
    """
    if config.correction in NOT_TRAINED:
        processes.from_first(loggers.begin)
        return {"seconds": 0.0}
    if config.correction in ORACLES and task.labels is None:
        raise ValueError(f"the oracle uses the labels: expected data with labels, got {config.data}")
    log = RunLog(directory, fingerprint(config, task))

    def warn(words: str) -> None:
        log.warnings.append(words)
        display.say(f"warning: {words}")

    training = make_training(config, framework, task, warn)
    if log.resume(training):
        display.say(f"resuming at step {training.step} of {training.steps}")
    elif config.correction not in (PLAIN, *ORACLES):
        never = framework.never_ready(training.steps, config.batch_size)
        if reason := never or training.correction.never_corrects(config.epochs):
            warn(reason)
    monitor = task.monitor(framework) if config.monitor else None
    unit = modality_of(config).name
    processes.from_first(lambda: loggers.begin(log.history))
    with signals.noted() as stop:

        def after_step() -> None:
            if processes.any_of(stop.is_set(), training.device):
                log.save(training)
                raise stop.exception(f"saved at step {training.step} of {training.steps}; --resume continues")
            if time.monotonic() - log.saved > checkpoint_seconds:
                log.save(training)
            display.step(training.position() | _sentence(training) | {"unit": unit})

        try:
            for metrics in training.run(after_step):
                if monitor is not None and _monitored(metrics["epoch"], config):
                    metrics.update(monitor())
                log.history.append(metrics | _sentence(training) | _reliability_curve(training))
                display.epoch(log.history[-1] | {"unit": unit})
                loggers.epoch(metrics)
        except ValueError as error:
            log.save_metrics()
            saved = "the last checkpoint is kept" if directory.checkpoint.exists() else "there is no checkpoint yet"
            advice = "; or try gradient clipping, --clip 1" if isinstance(error, NotFiniteError) else ""
            raise TrainingStoppedError(
                f"training stopped at step {training.step + 1} of {training.steps}, {saved}: {error}{advice}"
            ) from error
    log.save(training)
    last = log.history[-1]
    kept = {name: last[name] for name in KEPT if name in last}
    times = {"seconds": log.seconds, "processor_seconds": log.processor_seconds}
    return {**kept, **times, "warnings": log.warnings, **_learnt(training, task, last)}


def _learnt(training: Training[Any], task: Task, last: dict[str, Any]) -> dict[str, Any]:
    """What a correction that learns has come to, given the metrics of the last epoch."""
    if training.learnt is None:
        return {}
    found = {name: last[name] for name in last if name.startswith(("correction.", "calibration."))}
    return found | {"kept": kept_state(training.learnt, len(task.samples), task.labels, task.embedded)}


def _sentence(training: Training[Any]) -> dict[str, Any]:
    """What the correction said about itself when the last epoch ended."""
    return {"correction.report": training.report.sentence} if training.report.sentence else {}


def _reliability_curve(training: Training[Any]) -> dict[str, Any]:
    """For each bin of the correction's r: its mean, the share of pairs of one class, and the number of pairs."""
    found = training.calibration
    return {"calibration.curve": found.curve()} if found is not None and found.pairs else {}


def make_training(
    config: RunConfig, framework: Framework[Any], task: Task, warn: Callable[[str], None] = lambda _: None
) -> Training[Any]:
    """The training that a configuration describes, before its first step."""
    correction, plan = config.make_correction(), make_plan(config)
    rest = len(task.samples) % config.batch_size
    if plan.keep_rest and rest > 1:
        try:
            correction.check_samples(rest - 1)
        except ValueError as error:  # Now, and not at the end of the first epoch.
            raise ValueError(
                f"the last batch of an epoch has {rest} {modality_of(config).name}: {error}; or choose another "
                f"batch size"
            ) from error
    optimiser = make_optimiser(
        config.optimiser,
        framework.parameters(),
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )
    labels = task.labels if config.correction in ORACLES else None
    attract = config.correction == ATTRACTING_ORACLE
    return Training(
        framework,
        optimiser,
        task.samples,
        correction,
        plan,
        labels=labels,
        truth=task.labels,
        attract=attract,
        excluded=excluded_pairs(config, task),
        warn=warn,
    )


def make_plan(config: RunConfig) -> Plan:
    """The plan of a training."""
    return Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        schedule=config.schedule,
        warmup_epochs=config.warmup_epochs,
        clip=config.clip,
        seed=config.seed,
        objective=config.objective,
        floor=config.floor,
        precision=config.precision,
        keep_rest=config.keep_rest,
        compat=config.as_published(),
    )


def check_checkpoint_seconds(seconds: float) -> None:
    """Refuse a negative time between checkpoints, and NaN."""
    if not seconds >= 0:
        raise ValueError(f"checkpoint_seconds is the time between checkpoints: expected 0 or more, got {seconds:g}")


def _finished_before(
    directory: RunDirectory, config: RunConfig, root: Path | None, *, resume: bool
) -> dict[str, Any] | None:
    """The result of a finished run; None if there is work left. Raise if the run exists and must not be resumed."""
    finished = processes.from_first(directory.result)
    if processes.from_first(lambda: directory.begun) and not (resume or processes.restarted()):
        state = "an unfinished run: continue it" if finished is None else "a finished run: return its result"
        raise ValueError(f"{directory.path} holds {state} with --resume, or choose another directory with --out")
    if finished is not None and "data" in finished:
        check_same_data(directory, finished["data"], fingerprint(config, open_data(config, root)))
    return finished


def _open_data(config: RunConfig, root: Path | None) -> Task:
    """Open the data, in the first process first: it may have to convert files, which the other processes then read."""

    def convert() -> None:
        open_data(config, root)

    if processes.world_size() > 1:
        processes.from_first(convert)
    return open_data(config, root)


@contextmanager
def _resumable(directory: RunDirectory) -> Iterator[None]:
    """When a signal stops a run outside of its training loop, say that the training is saved."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if str(stop) or not directory.begun:
            raise
        raise signals.Stopped(signals.signal_of(stop), "the training is saved; --resume continues") from stop


def _monitored(epoch: float, config: RunConfig) -> bool:
    """Whether the training set is probed after this epoch: `monitor` times in a training, evenly, and at the end."""
    return int(epoch * config.monitor / config.epochs) > int((epoch - 1) * config.monitor / config.epochs)
