"""One run from configuration to result: train, embed, probe, keep."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl import processes
from pucl.data import ImageData, load
from pucl.devices import check_precision, choose_device, peak_memory, reset_peak_memory
from pucl.evaluation import Monitor, accuracies, embed
from pucl.experiments.build import build_framework, build_plan
from pucl.experiments.config import ORACLE, PLAIN, UNTRAINED, RunConfig
from pucl.experiments.directory import RunDirectory
from pucl.experiments.display import Display
from pucl.experiments.log import RunLog
from pucl.experiments.weights import need_safetensors, save_weights
from pucl.files import write_json
from pucl.frameworks.framework import ImageFramework
from pucl.training.loop import Training, TrainingStoppedError, module_of
from pucl.training.optimisers import make_optimiser

Embed = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
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
    display: Display = SILENT,
) -> dict[str, Any]:
    """Train and evaluate, or go on from where an earlier call was stopped, or return the finished result.

    Where several processes work together, each calls this; the first alone reads and writes the run's directory.

    Args:
        config: What to run.
        out: The run's directory.
        root: Where data are; see `pucl.data.load`.
        resume: Go on from a checkpoint. Off: a directory that has one is refused.
        checkpoint_seconds: How much work a kill may cost at most.
        device: Where to train; see `pucl.devices.choose_device`.
        compiled: Let torch.compile translate encoder and head first.
        display: Shows how it goes.
    """
    need_safetensors()  # Now, so that the end of a training does not fail for want of it.
    directory, place = RunDirectory(out), choose_device(device)
    check_precision(place, config.precision)
    with ExitStack() as claim:
        processes.from_first(lambda: claim.enter_context(directory.claimed(config, device=place)))
        finished = processes.from_first(directory.result)
        if processes.from_first(lambda: directory.begun) and not (resume or processes.restarted()):
            state = "was begun: go on with" if finished is None else "is finished: have it again with"
            raise ValueError(f"{out} holds a run that {state} --resume, or choose another directory")
        if finished is not None:
            return finished
        processes.from_first(lambda: _prepare(config, root))  # A folder is turned into one array once, not by each.
        data = limited(load(config.data, root=root, image_size=config.image_size), config.limit)
        for note in data.notes:
            display.say(note)
        reset_peak_memory(place)
        framework = build_framework(
            config, samples=len(data.pretrain), size=data.pretrain.size[0], device=place, compiled=compiled
        )
        embed_all = _embedding(framework)
        trained = train(config, framework, data, directory, embed_all, checkpoint_seconds, display)
        processes.from_first(lambda: save_weights(directory.weights, framework, config))
        display.status("probing")
        began = time.monotonic()
        scores, embeddings = evaluate(data, embed_all)
        result = {
            **scores,
            **trained,
            "evaluation_seconds": time.monotonic() - began,
            "peak_memory_mib": peak_memory(place),
            "images": len(data.pretrain),
            "device": str(place),
            "processes": processes.world_size(),
            "notes": list(data.notes),
        }

        def keep() -> None:
            directory.keep_embeddings(embeddings)
            write_json(out / "result.json", result)
            directory.checkpoint.unlink(missing_ok=True)

        processes.from_first(keep)
        return result


def train(
    config: RunConfig,
    framework: ImageFramework,
    data: ImageData,
    directory: RunDirectory,
    embed_all: Embed,
    checkpoint_seconds: float,
    display: Display,
) -> dict[str, Any]:
    """Train to the end, leaving a checkpoint now and then and a line of metrics for each epoch."""
    if config.correction == UNTRAINED:
        return {"seconds": 0.0}
    if config.correction == ORACLE and data.pretrain.labels is None:
        raise ValueError(f"the oracle knows the labels: expected data with labels, got {config.data}")
    log = RunLog(directory, data.pretrain)

    def warn(words: str) -> None:
        log.warnings.append(words)
        display.say(f"warning: {words}")

    training = _make_training(config, framework, data, warn)
    if log.resume(training):
        display.say(f"going on from step {training.step} of {training.steps}")
    elif _never_corrects(config, training.steps):
        warn(
            f"nothing will be corrected: the queue of {config.queue_size} keys is not full before the end. "
            f"Try a smaller queue_size, or more epochs"
        )
    monitor = None
    if config.monitor and data.train.labels is not None and Monitor.possible(data.train.labels):
        monitor = Monitor(data.train.pixels, data.train.labels, embed_all)
    with _interrupts() as stop:

        def after_step() -> None:
            if processes.any_of(stop.is_set(), training.device):
                log.keep(training)
                raise KeyboardInterrupt(f"saved at step {training.step} of {training.steps}; --resume goes on")
            if time.monotonic() - log.saved > checkpoint_seconds:
                log.keep(training)
            display.step(training.position())

        try:
            for line in training.run(after_step):
                if monitor is not None and _monitored(line["epoch"], config):
                    line["knn"] = monitor.accuracy()
                log.history.append(line)
                display.epoch(line)
        except ValueError as error:
            log.keep_metrics()
            kept = "the last checkpoint is kept" if directory.checkpoint.exists() else "there is no checkpoint yet"
            raise TrainingStoppedError(
                f"training stopped at step {training.step + 1} of {training.steps}, {kept}: {error}. "
                f"Try a lower learning rate, gradient clipping (--clip 1), or a higher temperature"
            ) from error
    log.keep(training)
    last = log.history[-1]
    names = ("loss", "floored", "tau_plus", "positive_similarity", "unlabelled_similarity", "images_per_second")
    about = {"seconds": log.seconds, "warnings": log.warnings}
    return {name: last[name] for name in names if name in last} | about


def _make_training(
    config: RunConfig, framework: ImageFramework, data: ImageData, warn: Callable[[str], None]
) -> Training[torch.Tensor]:
    """The training that the configuration describes, before its first step."""
    return Training(
        framework,
        make_optimiser(
            config.optimiser,
            module_of(framework).parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        ),
        data.pretrain,
        config.make_correction(),
        build_plan(config, steps_per_epoch=len(data.pretrain) // config.batch_size),
        labels=data.pretrain.labels if config.correction == ORACLE else None,
        warn=warn,
    )


def evaluate(data: ImageData, embed_all: Embed) -> tuple[dict[str, float], dict[str, Any]]:
    """Accuracy of classifiers on frozen features, and the features themselves."""
    train = embed_all(data.train.pixels)
    embeddings: dict[str, Any] = {"train": train}
    if data.test is None or data.train.labels is None or data.test.labels is None or not can_be_probed(data):
        return {}, embeddings
    test = embed_all(data.test.pixels)
    embeddings |= {"test": test, "train_labels": data.train.labels, "test_labels": data.test.labels}
    labels, test_labels = data.train.labels, data.test.labels
    scores = processes.from_first(lambda: accuracies(train, labels, test, test_labels, folds=data.folds))
    return scores, embeddings


def can_be_probed(data: ImageData) -> bool:
    """Whether there are labels to go by: of two classes at least, in training and test images."""
    if data.test is None or data.test.labels is None or data.train.labels is None:
        return False
    return len(np.unique(data.train.labels)) > 1


def _never_corrects(config: RunConfig, steps: int) -> bool:
    """Whether MoCo's queue, before which nothing is corrected, is not full before the end."""
    keys = steps * config.batch_size * (2 if config.symmetric else 1)
    return config.framework == "moco" and config.correction != PLAIN and keys <= config.queue_size


def _prepare(config: RunConfig, root: Path | None) -> None:
    load(config.data, root=root, image_size=config.image_size)


def _embedding(framework: ImageFramework) -> Embed:
    """What makes features of images with this framework, as it then is; processes share the work."""
    module, device = module_of(framework), next(module_of(framework).parameters()).device

    def embed_all(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        count, number = processes.world_size(), processes.rank()
        if len(pixels) < count:
            return embed(module, pixels, lambda batch: batch)
        start, stop = len(pixels) * number // count, len(pixels) * (number + 1) // count
        own = torch.from_numpy(embed(module, pixels[start:stop], lambda batch: batch)).to(device)
        features: NDArray[np.float32] = processes.gather(own, processes.gather_sizes(len(own), device)).cpu().numpy()
        return features

    return embed_all


def _monitored(epoch: float, config: RunConfig) -> bool:
    """Whether the monitor looks after this epoch: so many times in a training, evenly, and at the end."""
    return int(epoch * config.monitor / config.epochs) > int((epoch - 1) * config.monitor / config.epochs)


def limited(data: ImageData, limit: int | None) -> ImageData:
    """The data with at most so many images to train on, as evenly over the classes as they come."""
    if limit is None or limit >= len(data.pretrain):
        return data
    if limit < 2:
        raise ValueError(f"limit is how many images are used: expected at least 2, got {limit}")
    chosen = np.linspace(0, len(data.pretrain) - 1, limit).astype(np.int64)
    if data.pretrain.labels is not None:
        # By rank within the class, so that every class has its share.
        order = np.argsort(data.pretrain.labels, kind="stable")
        chosen = np.sort(order[chosen])
    part = data.pretrain.subset(chosen)
    return replace(data, pretrain=part, train=part if data.pretrain is data.train else data.train)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Ctrl-C and termination as an event that is looked at between steps, where the state is whole."""
    event = threading.Event()

    def note(_number: int, _frame: FrameType | None) -> None:
        event.set()

    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
