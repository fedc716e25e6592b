"""Time and memory of a training step on images, compared with the bare encoder, and the time of views.

The baseline is the bare encoder: forward and backward with the same tensors and the same gradients as in the step, and
nothing else. MoCo's forward pass of the key encoder is part of the baseline, and a batch that the framework encodes in
parts is encoded in parts. Heads, views, loss, optimiser and logging are overhead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.machine import library_versions, machine_facts
from benchmarks.memory import Peak, Step, peak_in_child
from benchmarks.options import check_effort, check_names, option
from benchmarks.subject import Progress
from benchmarks.timing import MOST, Spread, interleave, torch_threads
from benchmarks.views import ViewsCost, measure_views
from pucl.config import choose
from pucl.contrast.compare import compare
from pucl.contrast.correction import Correction, check_range
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL
from pucl.devices import usable_cores
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.moco import MoCo
from pucl.frameworks.recipes import recipe
from pucl.images.batches import ImageBatch, ImageFramework, see
from pucl.images.config import ImageConfig
from pucl.images.encoders.registry import ARCHITECTURES, Adopted
from pucl.images.encoders.resnet import ResNet
from pucl.images.imageset import ImageSet
from pucl.images.task import ImageShape
from pucl.runs.build import build_framework
from pucl.shapes import Float, Tensor, UInt8
from pucl.training.loop import Plan, Training
from pucl.training.optimisers import make_optimiser

SEED = 0
BATCHES = 4  # Size of the data set; more images would only take longer to generate.
VIEWS = {"simclr": 2, "moco": 2, "cmc": 1}  # How many times a step makes views of its batch.
LEARNING_RATE = 1e-5  # Small, so that weights stay sound although the optimiser is also timed on old gradients.
WARM_UP_BATCH = 8
VIEWS_SECONDS = 10.0  # Views are quick, so this is enough.
AIMS = {"small": 1.35, "resnet18": 1.15}
"""By encoder: largest ratio of step to bare encoder that we aim for, for SimCLR at batch 256 and 32 x 32 pixels."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured, and for how long."""

    encoders: tuple[str, ...] = option(("small", "resnet18"), "which encoders, by name or as package.module:callable")
    frameworks: tuple[str, ...] = option(("simclr",), "which of simclr, moco and cmc, each with each encoder")
    batch_size: int = option(256, "images in a step, at least 4")
    size: int = option(32, "side of the images in pixels")
    threads: int = option(usable_cores, "threads of torch")
    seconds: float = option(60.0, "about how long each framework is timed with each encoder")
    memory: bool = option(True, "measure peak memory too, each in a new process")
    views: bool = option(True, "time views against Pillow's")

    def __post_init__(self) -> None:
        check_names("frameworks", self.frameworks)
        check_names("encoders", self.encoders)
        for name in self.frameworks:
            choose("framework", name, FRAMEWORKS)
        for name in self.encoders:
            if ":" not in name:
                choose("encoder", name, tuple(ARCHITECTURES))
        check_range("batch_size", "the number of images in a step", self.batch_size, "at least 4", self.batch_size >= 4)
        check_range("size", "the side of the images in pixels", self.size, "at least 4", self.size >= 4)
        check_effort(self.threads, self.seconds, "a framework is timed with an encoder")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one contender.

    Args:
        milliseconds: Time of one call.
        nanoseconds_by_round: The measured times; None in rounds that it skipped.
        peak: Peak memory, including the optimiser's state; None if it was not measured.
    """

    milliseconds: Spread
    nanoseconds_by_round: list[int | None]
    peak: Peak | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One framework with one encoder.

    Args:
        framework: Name of the framework.
        encoder: Name of the encoder.
        batch: Images in a step.
        size: Side of the images in pixels.
        rounds: Number of rounds.
        images_per_second: Throughput of whole steps, at their median time.
        contenders: ``"step"`` and ``"encoder"`` (bare); parts of the step alone: ``"views"``, ``"loss"`` (all
            comparisons, forward and backward) and ``"optimiser"``; and ``"encoder_plain_format"``, the bare encoder
            in torch's default memory format instead of channels last.
        ratios: Ratios of times, such as ``"step/encoder"``, taken round by round.
    """

    framework: str
    encoder: str
    batch: int
    size: int
    rounds: int
    images_per_second: float
    contenders: dict[str, Figures]
    ratios: dict[str, Spread]

    @property
    def aim(self) -> float | None:
        """Largest ratio of step to bare encoder that we aim for; None if there is no aim for this case."""
        return AIMS.get(self.encoder) if (self.framework, self.batch, self.size) == ("simclr", 256, 32) else None


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows and the views, with the versions and the machine that they depend on.

    Args:
        versions: Versions of libraries.
        machine: Facts of the machine.
        rows: One for each framework and encoder.
        views: With one thread and with all threads; empty if views were not timed.
        views_missing: Why views could not be timed; None if they were, or were not asked for.
    """

    versions: dict[str, str]
    machine: dict[str, object]
    rows: list[Row]
    views: list[ViewsCost]
    views_missing: str | None


def measure_training(settings: Settings, progress: Progress) -> Report:
    """Measure every framework with every encoder."""
    machine = machine_facts() | {"threads": settings.threads}
    cases = [(framework, encoder) for framework in settings.frameworks for encoder in settings.encoders]
    rows = []
    with torch_threads(settings.threads):
        for number, (framework, encoder) in enumerate(cases, start=1):
            progress(f"{number} of {len(cases)}: {framework} with {encoder} at batch {settings.batch_size}")
            rows.append(_measure_case(framework, encoder, settings))
    views, missing = _measure_views(settings, progress) if settings.views else ([], None)
    return Report(
        versions=library_versions(),
        machine=machine,
        rows=rows,
        views=views,
        views_missing=missing,
    )


def _measure_case(framework: str, encoder: str, settings: Settings) -> Row:
    case: dict[str, Any] = {
        "framework": framework,
        "encoder": encoder,
        "batch_size": settings.batch_size,
        "size": settings.size,
    }
    timings = interleave(make_steps(make_training(**case), VIEWS[framework]), seconds=settings.seconds)
    contenders = {
        name: Figures(milliseconds=timings.milliseconds(name), nanoseconds_by_round=turns)
        for name, turns in timings.nanoseconds.items()
    }
    if settings.memory:
        for name in ("step", "encoder"):
            peak = peak_in_child(
                f"{__name__}:ready_step", {"contender": name, "threads": settings.threads, "case": case}
            )
            contenders[name] = replace(contenders[name], peak=peak)
    return Row(
        framework=framework,
        encoder=encoder,
        batch=settings.batch_size,
        size=settings.size,
        rounds=timings.rounds,
        images_per_second=settings.batch_size / contenders["step"].milliseconds.median * 1000,
        contenders=contenders,
        ratios={f"{name}/encoder": timings.ratio(name, "encoder") for name in contenders if name != "encoder"},
    )


def _measure_views(settings: Settings, progress: Progress) -> tuple[list[ViewsCost], str | None]:
    costs = []
    for threads in sorted({1, settings.threads}):
        progress(f"views against Pillow's, {threads} thread{'s' if threads > 1 else ''}")
        try:
            cost = measure_views(
                settings.batch_size, settings.size, seconds=min(settings.seconds, VIEWS_SECONDS), threads=threads
            )
        except ModuleNotFoundError as error:
            return [], str(error)
        costs.append(cost)
    return costs, None


def make_training(*, framework: str, encoder: str, batch_size: int, size: int) -> Training[Tensor]:
    """A training as `pucl train` sets it up, with PUCL and Adam, on random images, before its first step."""
    samples = BATCHES * batch_size
    config = recipe(framework, "noise", encoder=encoder, batch_size=batch_size)
    if not isinstance(config, ImageConfig):
        raise ValueError(f"a step on images is timed: expected simclr, moco or cmc, got {framework}")
    trained = build_framework(config, ImageShape(samples=samples, size=size))
    if isinstance(trained, MoCo):
        # Steps that only fill the queue would be cheaper than the others.
        keys = torch.randn(trained.queue.size, config.dim, generator=torch.Generator().manual_seed(SEED))
        trained.queue.push(nn.functional.normalize(keys, dim=1))
    module = trained.train()
    return Training(
        trained,
        make_optimiser("adam", module.parameters(), LEARNING_RATE, weight_decay=config.weight_decay),
        ImageSet(np.random.default_rng(SEED).integers(256, size=(samples, 3, size, size), dtype=np.uint8)),
        PUCL(),
        Plan(epochs=MOST, batch_size=batch_size, learning_rate=lambda *_: LEARNING_RATE),
    )


def make_steps(training: Training[Tensor], views: int) -> dict[str, Step]:
    """The contenders, by name: the whole step, the bare encoder, and each part of the step alone.

    Args:
        training: Takes one step here. The other contenders repeat parts of this step.
        views: How many times a step makes views.
    """
    witness = witness_step(training)
    bare = BareEncoder(witness.calls)
    steps: dict[str, Step] = {"step": training.advance, "encoder": bare.run}
    if all(isinstance(call.encoder, ResNet) for call in witness.calls):
        steps["encoder_plain_format"] = lambda: bare.run_in(torch.contiguous_format)
    recipe_of_views: Any = training.module.views
    return steps | {
        "views": lambda: [see(witness.batch, recipe_of_views) for _ in range(views)],
        "loss": BareLoss(witness.comparisons, training.correction).run,
        "optimiser": training.optimiser.step,
    }


def ready_step(*, contender: str, threads: int, case: dict[str, Any]) -> Step:
    """A step for `peak_in_child`, with inputs allocated and libraries warmed up."""
    torch.set_num_threads(threads)
    make_training(**case | {"batch_size": WARM_UP_BATCH}).advance()
    training = make_training(**case)
    return training.advance if contender == "step" else BareEncoder(witness_step(training).calls).run


@dataclass(kw_only=True)
class Call:
    """One call of an encoder: its images, and the gradient of its output (None if it needs no gradient)."""

    encoder: nn.Module
    images: Float[Tensor, "batch channel height width"]
    gradient: Float[Tensor, "batch feature"] | None = None


class Witness(ImageFramework):
    """Wraps a framework and records one step: calls of encoders, and comparisons.

    Args:
        framework: The framework that does the work.
    """

    batch: ImageBatch

    def __init__(self, framework: ImageFramework) -> None:
        super().__init__()
        self.framework = framework
        self.inner = (framework,)  # In a tuple, so that it is no second submodule.
        self.calls: list[Call] = []
        self.comparisons: list[Pairs] = []

    @property
    def ready(self) -> bool:
        """As the framework."""
        return self.inner[0].ready

    def pairs(self, batch: ImageBatch) -> list[Pairs]:
        """As the framework, while recording the calls of its encoders."""
        encoders = [module for module in self.framework.modules() if isinstance(module, ResNet | Adopted)]
        hooks = [encoder.register_forward_hook(self._remember) for encoder in encoders]
        self.batch = batch
        self.comparisons = self.inner[0].pairs(batch)
        for hook in hooks:
            hook.remove()
        return self.comparisons

    def commit(self) -> None:
        """As the framework."""
        self.inner[0].commit()

    def forward(self, pixels: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch feature"]:
        """As the framework."""
        features: Tensor = self.inner[0].forward(pixels)
        return features

    def _remember(self, encoder: nn.Module, inputs: tuple[Tensor, ...], features: Tensor) -> None:
        call = Call(encoder=encoder, images=inputs[0].detach())
        self.calls.append(call)
        if features.requires_grad:
            features.register_hook(lambda gradient: setattr(call, "gradient", gradient))


def witness_step(training: Training[Tensor]) -> Witness:
    """Take one step of a training and return its record."""
    witness = Witness(training.framework)
    Training(witness, training.optimiser, training.data, training.correction, training.plan).advance()
    return witness


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


class BareLoss:
    """The losses of all comparisons of a step, from embeddings to their gradients.

    Args:
        comparisons: Who is compared with whom.
        correction: How unlabelled samples are read.
    """

    def __init__(self, comparisons: Sequence[Pairs], correction: Correction) -> None:
        self.correction = correction
        self.comparisons = [
            replace(pairs, query=_leaf(pairs.query), key=_leaf(pairs.key), positive=_leaf(pairs.positive))
            for pairs in comparisons
        ]

    def run(self) -> None:
        """Forward and backward."""
        for pairs in self.comparisons:
            for leaf in (pairs.query, pairs.key, pairs.positive):
                leaf.grad = None
        losses = [compare(pairs, self.correction).loss.mean() for pairs in self.comparisons]
        torch.stack(losses).sum().backward()


def _leaf(tensor: Tensor) -> Tensor:
    """A detached copy that requires a gradient if the tensor did."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
