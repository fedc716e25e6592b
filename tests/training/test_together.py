"""Several processes train as one does. Started as a program, this file is one of them."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl import doctor, processes
from pucl.frameworks.recipes import recipe
from pucl.images.config import ImageConfig
from pucl.images.encoders.resnet import ResNet
from pucl.images.imageset import ImageSet
from pucl.images.task import ImageShape
from pucl.runs.build import build_framework
from pucl.runs.run import build_plan
from pucl.training.loop import Tally, Training
from pucl.training.optimisers import make_optimiser

STEPS = 20
SIDE, IMAGES, BATCH = 8, 48, 16
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "simclr": ("simclr", {}),
    "simclr, three views, oracle": ("simclr", {"view_count": 3, "correction": "oracle"}),
    "moco": ("moco", {"splits": 4}),  # Parts of four: statistics of two tiny images would make any rounding grow.
    "moco, whole batches, both ways": ("moco", {"splits": 1, "symmetric": True}),
    "cmc": ("cmc", {}),
}

OWN: dict[str, dict[str, Any]] = {"simclr": {}, "moco": {"queue_size": 24}, "cmc": {"draws": 30}}


def config_of(kind: str) -> ImageConfig:
    framework, changes = KINDS[kind]
    config = recipe(
        framework,
        "none",
        batch_size=BATCH,
        epochs=STEPS,
        dim=16,
        width=8,
        **OWN[framework],
    )
    assert isinstance(config, ImageConfig)
    return replace(config, **changes)


def make_training(config: ImageConfig, kind: torch.dtype) -> Training[torch.Tensor]:
    numbers = np.random.default_rng(0)
    pixels = numbers.integers(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=np.uint8)
    labels = numbers.integers(0, 4, IMAGES)
    framework = build_framework(config, ImageShape(samples=IMAGES, size=SIDE))
    module = framework.to(kind)
    for part in module.modules():
        if isinstance(part, ResNet):
            part.register_forward_pre_hook(lambda _, images: (images[0].to(kind),))
    optimiser = make_optimiser(config.optimiser, module.parameters(), lr=config.learning_rate)
    return Training(
        framework,
        optimiser,
        ImageSet(pixels),
        config.make_correction(),
        build_plan(config, IMAGES),
        labels=labels if config.correction == "oracle" else None,
    )


def train(name: str) -> dict[str, Any]:
    """Losses of the first steps, the gradient of the first one that has a loss, and the state in the end."""
    training = make_training(config_of(name), torch.float64)
    losses: list[float] = []
    gradient: list[float] = []
    while len(losses) < STEPS:
        training.tally = Tally()
        training.advance()
        losses += [training.tally.sums["loss"]] if training.tally.steps else []  # A queue is empty at first.
        if losses and not gradient:
            parts = [p.grad.flatten() for p in training.module.parameters() if p.grad is not None]
            gradient = torch.cat(parts).tolist()
    state = {name: value.double().flatten().tolist() for name, value in training.module.state_dict().items()}
    return {"losses": losses, "gradient": gradient, "state": state}


def main(arguments: Sequence[str]) -> None:
    """Join a world, train each kind in it, and print what came of it as JSON."""
    number, count, meeting, seconds = arguments
    patience = timedelta(seconds=float(seconds))
    with processes.gloo_world(Path(meeting), number=int(number), count=int(count), timeout=patience):
        json.dump({kind: train(kind) for kind in KINDS}, sys.stdout)


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    return [json.loads(text) for text in doctor.run_together([__file__], 2)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_train_as_one(reports: list[dict[str, Any]], kind: str) -> None:
    """In double precision, where a difference is a fault: in single precision Adam makes rounding errors grow."""
    one = train(kind)
    for report in reports:
        two = report[kind]
        assert two["losses"][0] == pytest.approx(one["losses"][0], rel=1e-12)
        gradient, expected = np.array(two["gradient"]), np.array(one["gradient"])
        assert np.linalg.norm(expected) > 1e-3
        assert np.linalg.norm(gradient - expected) <= 1e-10 * np.linalg.norm(expected)
        assert two["losses"] == pytest.approx(one["losses"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_processes_hold_the_same_state(reports: list[dict[str, Any]], kind: str) -> None:
    """Weights, statistics, queue and bank, bit by bit: whichever of them writes the checkpoint."""
    assert reports[0][kind]["state"] == reports[1][kind]["state"]


if __name__ == "__main__":
    main(sys.argv[1:])
