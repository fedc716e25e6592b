"""Time and memory of a training step on images, compared with the bare encoder; the time of views, and what auto adds.

The baseline is the bare encoder: forward and backward with the same tensors and the same gradients as in the step, and
nothing else. MoCo's forward pass of the key encoder is part of the baseline, and a batch that the framework encodes in
parts is encoded in parts. Heads, views, loss, optimiser and logging are overhead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.learning import LearningCost, measure_learning
from benchmarks.memory import Step, peak_in_child
from benchmarks.options import Settings, option
from benchmarks.report import Report, Row, figure
from benchmarks.steps import Seen, repeat_loss, watch
from benchmarks.timing import MOST, interleave, torch_threads
from benchmarks.views import ViewsCost, measure_views
from pucl.config import check_known
from pucl.contrast.correction import Correction
from pucl.corrections import PUCL, Plain
from pucl.devices import usable_cores
from pucl.frameworks import FRAMEWORKS, build_framework
from pucl.frameworks.moco import MoCo
from pucl.frameworks.recipes import recipe
from pucl.images.config import ImageConfig
from pucl.images.encoders.registry import ARCHITECTURES, Adopted
from pucl.images.encoders.resnet import ResNet
from pucl.images.imageset import ImageSet
from pucl.images.task import ImageShape
from pucl.shapes import Float, Tensor
from pucl.texts import counted, table
from pucl.training.loop import Training
from pucl.training.optimisers import make_optimiser
from pucl.training.plan import Plan

SEED = 0
BATCHES = 4  # Size of the data set; more images would only take longer to generate.
VIEWS = {"simclr": 2, "moco": 2, "cmc": 1}  # How many times a step makes views of its batch.
LEARNING_RATE = 1e-5  # Small, so that weights stay sound although the optimiser is also timed on old gradients.
WARM_UP_BATCH = 8
VIEWS_SECONDS = 10.0  # Views are quick, so this is enough.
PARTS = ("views", "loss", "optimiser")
"""Parts of a step that have a column each."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """What is measured, and for how long."""

    encoders: tuple[str, ...] = option(("small", "resnet18"), "which encoders, by name or as package.module:callable")
    frameworks: tuple[str, ...] = option(("simclr",), "which of simclr, moco and cmc, each with each encoder")
    batch_size: int = option(256, "images in a step", least=4)
    size: int = option(32, "side of the images in pixels", least=4)
    threads: int = option(usable_cores, "threads of torch")
    seconds: float = option(60.0, "about how long each framework is timed with each encoder")
    memory: bool = option(True, "measure peak memory too, each in a new process")
    views: bool = option(True, "time views against Pillow's")
    auto: bool = option(True, "time what the correction auto adds to a step of SimCLR")
    epoch: int = option(50_000, "samples in an epoch, for auto's share of its end")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.frameworks:
            check_known("framework", name, FRAMEWORKS)
        for name in self.encoders:
            if ":" not in name:
                check_known("encoder", name, tuple(ARCHITECTURES))


@dataclass(frozen=True, kw_only=True)
class TrainRow(Row):
    """One framework with one encoder.

    Contenders: ``"step"`` and ``"encoder"`` (bare); parts of the step alone: ``"views"``, ``"loss"`` (all comparisons,
    forward and backward) and ``"optimiser"``; and ``"encoder_plain_format"``, the bare encoder in torch's default
    memory format instead of channels last.

    Args:
        framework: Name of the framework.
        encoder: Name of the encoder.
        batch: Images in a step.
        size: Side of the images in pixels.
        images_per_second: Throughput of whole steps, at their median time.
    """

    framework: str
    encoder: str
    batch: int
    size: int
    images_per_second: float


@dataclass(frozen=True, kw_only=True)
class TrainReport(Report):
    """All rows, the views, and what auto adds.

    Args:
        rows: One for each framework and encoder.
        learning: What auto adds to a step with each encoder; empty if that was not timed.
        views: With one thread and with all threads; empty if views were not timed.
        views_missing: Why views could not be timed; None if they were, or were not asked for.
    """

    rows: list[TrainRow]
    learning: list[LearningCost]
    views: list[ViewsCost]
    views_missing: str | None

    def table(self) -> str:
        """One line per framework and encoder."""
        header = ["framework", "encoder", "batch", "step ms", "encoder ms", "step/encoder"]
        header += [*[f"{part} ms" for part in PARTS], "plain format/channels last", "images/s", "step MB"]
        lines = [
            [
                row.framework,
                row.encoder,
                str(row.batch),
                row.time("step"),
                row.time("encoder"),
                row.ratio("step/encoder"),
                *[row.time(part) for part in PARTS],
                row.ratio("encoder_plain_format/encoder"),
                figure(row.images_per_second),
                row.memory("step"),
            ]
            for row in self.rows
        ]
        return table([header, *lines])

    def notes(self) -> list[str]:
        """What auto adds, the time of views, and what is missing."""
        notes = [note for row in self.rows for note in row.notes(f"{row.framework} with {row.encoder}")]
        notes += [cost.sentence() for cost in self.learning]
        notes += [
            f"Views of {cost.batch} images take {figure(cost.ours.median)} ms with {counted(cost.threads, 'thread')}: "
            f"{cost.speedup} times as fast as Pillow, image by image, with one ({figure(cost.pillow.median)} ms), and "
            f"{cost.lean_speedup} times as fast as Pillow at its leanest ({figure(cost.lean.median)} ms)."
            for cost in self.views
        ]
        if self.views_missing is not None:
            notes.append(f"Not run: {self.views_missing}.")
        return notes


def measure_training(settings: TrainSettings, progress: Callable[[str], object]) -> TrainReport:
    """Time of a training step and its parts compared with the bare encoder, of views, and of what auto adds."""
    cases = [(framework, encoder) for framework in settings.frameworks for encoder in settings.encoders]
    rows = []
    with torch_threads(settings.threads):
        for number, (framework, encoder) in enumerate(cases, start=1):
            progress(f"{number} of {len(cases)}: {framework} with {encoder} at batch {settings.batch_size}")
            rows.append(_measure_case(framework, encoder, settings))
        learning = [_measure_auto(encoder, settings, progress) for encoder in settings.encoders if settings.auto]
    views, missing = [], None
    try:
        for threads in sorted({1, settings.threads}) if settings.views else ():
            progress(f"views against Pillow's, {counted(threads, 'thread')}")
            seconds = min(settings.seconds, VIEWS_SECONDS)
            views.append(measure_views(settings.batch_size, settings.size, seconds=seconds, threads=threads))
    except ModuleNotFoundError as error:
        missing = str(error)
    return TrainReport(rows=rows, learning=learning, views=views, views_missing=missing)


def _measure_case(framework: str, encoder: str, settings: TrainSettings) -> TrainRow:
    case: dict[str, Any] = {"framework": framework, "encoder": encoder}
    case |= {"batch_size": settings.batch_size, "size": settings.size}
    timings = interleave(make_steps(make_training(**case), VIEWS[framework]), seconds=settings.seconds)
    contenders = {name: timings.figures(name) for name in timings.nanoseconds}
    if settings.memory:
        for name in ("step", "encoder"):
            peak = peak_in_child(
                f"{__name__}:ready_step", {"contender": name, "threads": settings.threads, "case": case}
            )
            contenders[name] = replace(contenders[name], peak=peak)
    return TrainRow(
        framework=framework,
        encoder=encoder,
        batch=settings.batch_size,
        size=settings.size,
        rounds=timings.rounds,
        images_per_second=settings.batch_size / timings.milliseconds("step").median * 1000,
        contenders=contenders,
        ratios={f"{name}/encoder": timings.ratio(name, "encoder") for name in contenders if name != "encoder"},
    )


def _measure_auto(encoder: str, settings: TrainSettings, progress: Callable[[str], object]) -> LearningCost:
    progress(f"what auto adds to a step of simclr with {encoder}")
    case: dict[str, Any] = {"encoder": encoder, "batch_size": settings.batch_size, "size": settings.size}
    training = make_training(framework="simclr", **case, correction=Plain())
    return measure_learning(
        training.advance,
        encoder=encoder,
        batch=settings.batch_size,
        samples=settings.epoch,
        seconds=settings.seconds,
    )


def make_training(
    *, framework: str, encoder: str, batch_size: int, size: int, correction: Correction | None = None
) -> Training[Tensor]:
    """A training as `pucl train` sets it up, with PUCL and Adam, on random images, before its first step."""
    samples = BATCHES * batch_size
    config = recipe(framework, "noise", encoder=encoder, batch_size=batch_size)
    if not isinstance(config, ImageConfig):
        raise ValueError(f"a step on images is timed: expected simclr, moco or cmc, got {framework}")
    trained = build_framework(config, ImageShape(samples=samples, size=size))
    if isinstance(trained, MoCo):
        # Steps that only fill the queue would be cheaper than the others.
        keys = torch.randn(trained.queue.keys.shape, generator=torch.Generator().manual_seed(SEED))
        trained.queue.push(nn.functional.normalize(keys, dim=1))
    module = trained.train()
    return Training(
        trained,
        make_optimiser("adam", module.parameters(), LEARNING_RATE, weight_decay=config.weight_decay),
        ImageSet(np.random.default_rng(SEED).integers(256, size=(samples, 3, size, size), dtype=np.uint8)),
        PUCL() if correction is None else correction,
        Plan(epochs=MOST, batch_size=batch_size, learning_rate=LEARNING_RATE),
    )


def make_steps(training: Training[Tensor], views: int) -> dict[str, Step]:
    """The contenders, by name: the whole step, the bare encoder, and each part of the step alone.

    Args:
        training: Takes one step here. The bare encoder repeats this step, the other parts repeat the last one.
        views: How many times a step makes views.
    """
    seen, calls = take_step(training)
    bare = BareEncoder(calls)
    steps: dict[str, Step] = {"step": training.advance, "encoder": bare.run}
    if all(isinstance(call.encoder, ResNet) for call in calls):
        steps["encoder_plain_format"] = lambda: bare.run_in(torch.contiguous_format)
    augmentation: Any = training.framework.views
    return steps | {
        "views": lambda: [augmentation.see(seen.batch) for _ in range(views)],
        "loss": lambda: repeat_loss(seen.comparisons, training),
        "optimiser": training.optimiser.step,
    }


def ready_step(*, contender: str, threads: int, case: dict[str, Any]) -> Step:
    """A step for `peak_in_child`, with inputs allocated and libraries warmed up."""
    torch.set_num_threads(threads)
    make_training(**case | {"batch_size": WARM_UP_BATCH}).advance()
    training = make_training(**case)
    return training.advance if contender == "step" else BareEncoder(take_step(training)[1]).run


@dataclass(kw_only=True)
class Call:
    """One call of an encoder: its images, and the gradient of its output (None if it needs no gradient)."""

    encoder: nn.Module
    images: Float[Tensor, "batch channel height width"]
    gradient: Float[Tensor, "batch feature"] | None = None


def take_step(training: Training[Tensor]) -> tuple[Seen, list[Call]]:
    """Take one step of a training; record it, later steps, and the calls of encoders in this step."""
    calls: list[Call] = []

    def remember(encoder: nn.Module, inputs: tuple[Tensor, ...], features: Tensor) -> None:
        call = Call(encoder=encoder, images=inputs[0].detach())
        calls.append(call)
        if features.requires_grad:
            features.register_hook(lambda gradient: setattr(call, "gradient", gradient))

    encoders = [module for module in training.framework.modules() if isinstance(module, ResNet | Adopted)]
    hooks = [encoder.register_forward_hook(remember) for encoder in encoders]
    seen = watch(training)
    training.advance()
    for hook in hooks:
        hook.remove()
    return seen, calls


class BareEncoder:
    """Forward and backward of all encoder calls of a step, in the same order.

    Args:
        calls: All calls of encoders in the step.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.gradients = [call.gradient for call in calls if call.gradient is not None]
        encoders = {call.encoder for call in calls}
        self.parameters = [parameter for encoder in encoders for parameter in encoder.parameters()]

    def run(self) -> None:
        """Repeat all calls, then the backward pass."""
        for parameter in self.parameters:
            parameter.grad = None
        outputs = []
        for call in self.calls:
            with torch.set_grad_enabled(call.gradient is not None):
                features = call.encoder(call.images)
            if call.gradient is not None:
                outputs.append(features)
        torch.autograd.backward(outputs, self.gradients)

    def run_in(self, memory_format: torch.memory_format) -> None:
        """The same with images and activations in another memory format."""
        encoders = [call.encoder for call in self.calls if isinstance(call.encoder, ResNet)]
        usual = [encoder.memory_format for encoder in encoders]
        for encoder in encoders:
            encoder.memory_format = memory_format
        try:
            self.run()
        finally:
            for encoder, own in zip(encoders, usual, strict=True):
                encoder.memory_format = own
