"""Several processes train as one does."""

from typing import Any

import numpy as np
import pytest
import torch

from image_trainings import make_image_training
from pucl.training.loop import Tally
from worlds import results_together

STEPS = 20
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "simclr": ("simclr", {}),
    "simclr, three views, oracle": ("simclr", {"view_count": 3, "correction": "oracle"}),
    "simclr, groups": ("simclr", {"grouped": True}),
    "moco": ("moco", {}),
    "moco, groups": ("moco", {"grouped": True}),
    "moco, whole batches, both ways": ("moco", {"splits": 1, "symmetric": True}),
    "cmc": ("cmc", {}),
}


def train(name: str) -> dict[str, Any]:
    """Losses of the first steps, the gradient of the first one that has a loss, and the state in the end."""
    framework, changes = KINDS[name]
    training = make_image_training(framework, epochs=STEPS, **changes)
    losses: list[float] = []
    gradient: list[float] = []
    while len(losses) < STEPS:
        training.tally = Tally()
        training.advance()
        losses += [training.tally.sums["loss"]] if training.tally.steps else []  # A queue is empty at first.
        if losses and not gradient:
            parts = [p.grad.flatten() for p in training.framework.parameters() if p.grad is not None]
            gradient = torch.cat(parts).tolist()
    state = {name: value.double().flatten().tolist() for name, value in training.framework.state_dict().items()}
    return {"losses": losses, "gradient": gradient, "state": state}


def train_all() -> dict[str, Any]:
    """Each kind."""
    return {kind: train(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    return results_together(__file__, "train_all", 2)


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
