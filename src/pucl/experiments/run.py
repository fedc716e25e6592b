"""One run from configuration to result: train, embed, probe, keep."""

import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from pucl.data import ImageData, ImageSet, load
from pucl.evaluation import FullBatchLinearProbe, KNNProbe, embed
from pucl.experiments.build import build_framework, build_plan
from pucl.experiments.config import ORACLE, UNTRAINED, RunConfig
from pucl.experiments.directory import RunDirectory
from pucl.files import write_json
from pucl.frameworks.framework import Framework
from pucl.training.checkpoint import load_checkpoint, save_checkpoint
from pucl.training.loop import Training, module_of
from pucl.training.optimisers import make_optimiser

Report = Callable[[str], None]


def run(
    config: RunConfig,
    out: Path,
    *,
    root: Path | None = None,
    resume: bool = True,
    checkpoint_seconds: float = 60.0,
    report: Report = lambda _: None,
) -> dict[str, Any]:
    """Train and evaluate, or go on from where an earlier call was stopped, or return the finished result.

    Args:
        config: What to run.
        out: The run's directory.
        root: Where data are; see `pucl.data.load`.
        resume: Go on from a checkpoint. Off: a directory that has one is refused.
        checkpoint_seconds: How much work a kill may cost at most.
        report: Is told in words how it goes.
    """
    directory = RunDirectory(out)
    with directory.claimed(config):
        finished = directory.result()
        if not resume and (finished is not None or directory.checkpoint.exists()):
            raise ValueError(f"{out} holds a run that was begun: go on with --resume, or choose another directory")
        if finished is not None:
            return finished
        data = limited(load(config.data, root=root, image_size=config.image_size), config.limit)
        framework = build_framework(config, samples=len(data.pretrain), size=data.pretrain.size[0])
        started = time.monotonic()
        trained = train(config, framework, data, directory, checkpoint_seconds, report)
        seconds = time.monotonic() - started
        report("probing")
        result = {
            **evaluate(framework, data, directory),
            **trained,
            "seconds": seconds,
            "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "images": len(data.pretrain),
            "notes": list(data.notes),
        }
        torch.save(module_of(framework).state_dict(), directory.weights)
        write_json(out / "result.json", result)
        directory.checkpoint.unlink(missing_ok=True)
        return result


def train(
    config: RunConfig,
    framework: Framework,
    data: ImageData,
    directory: RunDirectory,
    checkpoint_seconds: float,
    report: Report,
) -> dict[str, Any]:
    """Train to the end, leaving a checkpoint now and then and a line of metrics for each epoch."""
    if config.correction == UNTRAINED:
        return {}
    module = module_of(framework)
    labels = data.pretrain.labels if config.correction == ORACLE else None
    if config.correction == ORACLE and labels is None:
        raise ValueError(f"the oracle knows the labels: expected data with labels, got {config.data}")
    training = Training(
        framework,
        make_optimiser(
            config.optimiser,
            module.parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        ),
        data.pretrain.pixels,
        config.make_correction(),
        build_plan(config, steps_per_epoch=len(data.pretrain) // config.batch_size),
        labels=labels,
    )
    history: list[dict[str, Any]] = []
    if directory.checkpoint.exists():
        training.load(load_checkpoint(directory.checkpoint))
        history = [line for line in directory.history() if line["step"] <= training.step]
        report(f"going on from step {training.step} of {training.steps}")
    saved = time.monotonic()

    def keep() -> None:
        directory.keep_metrics(history)
        save_checkpoint(directory.checkpoint, training.state())

    with _interrupts() as stop:

        def after_step() -> None:
            nonlocal saved
            if stop.is_set():
                keep()
                raise KeyboardInterrupt
            if time.monotonic() - saved > checkpoint_seconds:
                keep()
                saved = time.monotonic()

        for line in training.run(after_step):
            history.append(line)
            report(_line(line, config))
    keep()
    last = history[-1]
    return {name: last[name] for name in ("loss", "floored", "tau_plus", "images_per_second") if name in last}


def evaluate(framework: Framework, data: ImageData, directory: RunDirectory) -> dict[str, Any]:
    """Accuracy of classifiers on frozen features; the features are kept."""

    def features(part: ImageSet) -> np.ndarray[Any, np.dtype[np.float32]]:
        return embed(module_of(framework), part.pixels, lambda pixels: pixels)

    train = features(data.train)
    kept: dict[str, Any] = {"train": train}
    scores: dict[str, Any] = {}
    if data.test is not None and data.train.labels is not None and data.test.labels is not None:
        test = features(data.test)
        kept |= {"test": test, "train_labels": data.train.labels, "test_labels": data.test.labels}
        scores["linear"] = FullBatchLinearProbe().fit(train, data.train.labels).score(test, data.test.labels)
        scores["knn"] = KNNProbe().fit(train, data.train.labels).score(test, data.test.labels)
    directory.keep_embeddings(kept)
    return scores


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


def _line(line: dict[str, Any], config: RunConfig) -> str:
    return (
        f"epoch {line['epoch']} of {config.epochs}, loss {line.get('loss', float('nan')):.4f}, "
        f"floored {line.get('floored', 0.0):.0%}, {line['images_per_second']:.0f} images/s, "
        f"{line['seconds_left']:.0f} s left"
    )
