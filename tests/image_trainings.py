"""Trainings of the image frameworks on random pictures: made, resumed, and compared between processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.frameworks import build_framework
from pucl.frameworks.recipes import recipe
from pucl.images.config import ImageConfig
from pucl.images.imageset import ImageSet
from pucl.images.task import ImageShape
from pucl.runs.run import make_plan
from pucl.training.checkpoint import TrainingState
from pucl.training.loop import Training
from pucl.training.optimisers import make_optimiser
from small_runs import fitting

IMAGES, SIDE, CLASSES = 48, 8, 4
FRAMEWORKS = ("simclr", "moco", "cmc")


def make_image_training(
    framework: str,
    *,
    grouped: bool = False,
    truth: bool = False,
    excluded: NDArray[np.int64] | None = None,
    **changes: Any,
) -> Training[Tensor]:
    """In double precision, where a difference is a fault; with 3 steps an epoch, unless `changes` say otherwise.

    With `grouped`, samples have known groups; with `truth`, r is compared with random labels. `excluded` are pairs that
    are never each other's negatives.
    """
    options: dict[str, Any] = {"batch_size": 16, "dim": 16, "width": 8, "queue_size": 24, "draws": 30, "splits": 4}
    config = recipe(framework, "none", **(fitting(framework, **options) | changes))
    assert isinstance(config, ImageConfig)
    numbers = np.random.default_rng(0)
    pixels = numbers.integers(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=np.uint8)
    labels = numbers.integers(0, CLASSES, IMAGES) if config.correction == "oracle" or truth else None
    network = build_framework(config, ImageShape(samples=IMAGES, size=SIDE)).double()
    for part in network.modules():
        if type(part).__name__ == "ResNet":
            part.register_forward_pre_hook(lambda _, images: (images[0].double(),))
    optimiser = make_optimiser(config.optimiser, network.parameters(), lr=config.learning_rate)
    plan = make_plan(config)
    groups = np.where(np.arange(IMAGES) % 5 == 0, -1, np.arange(IMAGES) % 7) if grouped else None
    return Training(
        network,
        optimiser,
        ImageSet(pixels),
        config.make_correction(),
        plan,
        labels=None if truth else labels,
        truth=labels if truth else None,
        groups=groups,
        excluded=excluded,
    )


def resume_bit_by_bit(make: Callable[[], Training[Tensor]], folder: Path) -> TrainingState:
    """Train 12 steps at once, and in two parts from the middle of an epoch; return the state, which is the same."""
    whole, first, second = (make() for _ in range(3))
    for _ in range(12):
        whole.advance()
    for _ in range(8):
        first.advance()
    torch.save(first.state(), folder / "state")
    second.load(torch.load(folder / "state", weights_only=True))
    for _ in range(4):
        second.advance()
    one, other = whole.state(), second.state()
    for part in ("framework", "correction"):
        assert all(torch.equal(value, other[part][name]) for name, value in one[part].items())
    assert one["tally"] == other["tally"]
    return one


def learn_in(framework: str, **changes: Any) -> dict[str, Any]:
    """Eight steps: the losses, the mean of tau', and the state of the correction in the end."""
    training = make_image_training(framework, epochs=4, **changes)
    losses = []
    for _ in range(8):
        before = training.tally.sums.get("loss", 0.0)
        training.advance()
        losses.append(training.tally.sums.get("loss", 0.0) - before)
    assert training.learnt is not None
    state = {name: value.flatten().tolist() for name, value in training.learnt.state_dict().items()}
    return {"losses": losses, "state": state, "tau_plus": training.tally.means()["tau_plus"]}
