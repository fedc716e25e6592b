"""The loop: the same end however often it was stopped, and a clear stop where it cannot go on."""

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pucl.corrections import PUCL
from pucl.frameworks.recipes import recipe
from pucl.frameworks.simclr import SimCLR, SimCLRConfig
from pucl.images.imageset import ImageSet
from pucl.images.task import ImageShape
from pucl.records import DamagedError
from pucl.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pucl.training.loop import Training, TrainingStoppedError
from pucl.training.plan import Plan


def make_training(
    *,
    seed: int = 0,
    epochs: int = 3,
    rate: float = 0.05,
    clip: float | None = None,
    images: int = 22,
    keep_rest: bool = False,
) -> Training[torch.Tensor]:
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 12), nn.BatchNorm1d(12), nn.Dropout(0.2))
    config = recipe("simclr", "noise", dim=5, seed=seed)
    assert isinstance(config, SimCLRConfig)
    framework = SimCLR(config, ImageShape(size=8, samples=images), encoder)
    pixels = np.random.default_rng(0).integers(0, 256, (images, 3, 8, 8), dtype=np.uint8)
    plan = Plan(
        epochs=epochs,
        batch_size=6,
        learning_rate=rate,
        schedule="cosine",
        seed=seed,
        clip=clip,
        keep_rest=keep_rest,
    )
    optimiser = torch.optim.Adam(framework.parameters(), lr=rate)
    return Training(framework, optimiser, ImageSet(pixels), PUCL(), plan)


def weights(training: Training[torch.Tensor]) -> list[torch.Tensor]:
    return [value.clone() for value in training.framework.state_dict().values()]


def run_to(training: Training[torch.Tensor], step: int | None = None) -> list[dict[str, float]]:
    class StopError(Exception):
        pass

    def after_step() -> None:
        if training.step == step:
            raise StopError

    lines: list[dict[str, float]] = []
    with contextlib.suppress(StopError):
        for line in training.run(after_step):
            lines.append(line)  # noqa: PERF402 (a list made of the generator would be lost at the stop)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "keep_rest"), [(1, False), (3, False), (8, False), (2, True), (4, True), (7, True)])
def test_stopped_and_continued_is_uninterrupted(stop: int, keep_rest: bool) -> None:
    """After any step, also between epochs: the same weights, bit by bit, and the same metrics."""
    whole = make_training(keep_rest=keep_rest)
    expected = run_to(whole)
    first = make_training(keep_rest=keep_rest)
    lines = run_to(first, stop)
    file = io.BytesIO()
    torch.save(first.state(), file)
    file.seek(0)
    second = make_training(keep_rest=keep_rest)
    second.load(torch.load(file, weights_only=True))
    lines += run_to(second)
    for one, other in zip(weights(whole), weights(second), strict=True):
        assert torch.equal(one, other)
    quantities = ("epoch", "step", "loss", "floored", "learning_rate")
    assert [[line[name] for name in quantities] for line in lines] == [
        [line[name] for name in quantities] for line in expected
    ]


def test_seeds_differ() -> None:
    assert run_to(make_training(seed=0))[-1]["loss"] != run_to(make_training(seed=1))[-1]["loss"]


@pytest.mark.parametrize(
    ("images", "keep_rest", "expected"),
    [
        (22, False, [6, 6, 6]),
        (22, True, [6, 6, 6, 4]),
        (24, True, [6, 6, 6, 6]),
        (20, True, [6, 6, 6, 2]),
        (19, True, [6, 6, 6]),  # One alone has nobody to be compared with.
        (4, True, [4]),
        (2, True, [2]),
    ],
)
def test_the_rest_of_an_epoch(images: int, keep_rest: bool, expected: list[int]) -> None:
    training = make_training(images=images, keep_rest=keep_rest, epochs=2)
    assert training.steps == 2 * len(expected) == 2 * training.plan.steps_per_epoch(images)
    for _ in range(2):
        seen: list[int] = []
        for count in expected:
            batch = training._batch()
            assert len(batch.ids) == len(batch.samples) == batch.whole == count
            assert batch.part == slice(0, count)
            seen += batch.ids.tolist()
            assert training.advance() == count
        assert len(set(seen)) == len(seen) == sum(expected)
    lines = run_to(make_training(images=images, keep_rest=keep_rest, epochs=2))
    assert [line["step"] for line in lines] == [len(expected), 2 * len(expected)]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[0]["tau_plus"] == pytest.approx(PUCL().tau_plus)
    assert all(line["samples_per_second"] > 0 and 0 <= line["floored"] <= 1 for line in lines)
    assert lines[-1]["seconds_left"] == 0


def test_the_time_left_knows_of_the_rest() -> None:
    """Half of the samples are seen after half of the time, also where a batch could hold more than there are."""
    training = make_training(images=4, keep_rest=True, epochs=2)
    training.advance()
    training._speed = 2.0
    assert training.position()["seconds_left"] == 4 / 2
    assert training.position()["samples_per_second"] == 2


def test_a_loss_that_is_no_number_stops_and_spoils_nothing() -> None:
    training = make_training()
    run_to(training, 2)
    with torch.no_grad():
        next(training.framework.parameters()).fill_(torch.nan)
    with pytest.raises(ValueError, match="NaN, infinite or overflowing"):
        run_to(training)
    infinite = make_training()
    before = weights(infinite)
    with pytest.raises(TrainingStoppedError, match=r"the loss is inf at step 1 of 9.*lower learning rate"):
        infinite._descend(torch.tensor(torch.inf, requires_grad=True), torch.inf)
    for one, other in zip(before, weights(infinite), strict=True):
        assert torch.equal(one, other)


def test_clipping_shortens_long_gradients() -> None:
    training = make_training(clip=1e-3)
    run_to(training, 1)
    total = torch.stack([p.grad.norm() for p in training.framework.parameters() if p.grad is not None]).norm()
    assert total <= 1e-3 * 1.001


def test_too_few_images_for_a_batch() -> None:
    training = make_training()
    few = ImageSet(np.zeros((4, 3, 8, 8), dtype=np.uint8))
    with pytest.raises(
        ValueError,
        match="expected at least 6 samples in the training data, got 4; choose a smaller batch size",
    ):
        Training(training.framework, training.optimiser, few, PUCL(), training.plan)
    one = ImageSet(np.zeros((1, 3, 8, 8), dtype=np.uint8))
    plan = replace(training.plan, keep_rest=True)
    with pytest.raises(
        ValueError, match="a step takes 6 samples at once: expected at least 2 samples in the training data, got 1$"
    ):
        Training(training.framework, training.optimiser, one, PUCL(), plan)


def checkpoint_of(training: Training[Any]) -> Checkpoint:
    return {
        **training.state(),
        "warnings": [],
        "data": {"samples": 8},
        "seconds": 1.0,
        "processor_seconds": 1.0,
    }


def test_a_checkpoint_is_whole_or_not_there(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint.pt"
    training = make_training()
    save_checkpoint(path, checkpoint_of(training))
    before = path.read_bytes()

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="the disk is full"):
        save_checkpoint(path, checkpoint_of(training))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert load_checkpoint(path)["step"] == 0


def test_a_damaged_checkpoint_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(DamagedError, match="checkpoint.pt is damaged.* does not end with a digest"):
        load_checkpoint(path)
    good: Any = checkpoint_of(make_training())
    save_checkpoint(path, good | {"format": 99})
    with pytest.raises(ValueError, match="another version of pucl: expected format 5, got 99"):
        load_checkpoint(path)
    save_checkpoint(path, good | {"step": "many"})
    with pytest.raises(DamagedError, match="'step' should be a whole number, got 'many'"):
        load_checkpoint(path)
    del good["tally"]
    save_checkpoint(path, good)
    with pytest.raises(DamagedError, match="the checkpoint lacks 'tally'"):
        load_checkpoint(path)
    real_save = torch.save
    monkeypatch.setattr("torch.save", lambda _, file: real_save([1, 2, 3], file))
    save_checkpoint(path, good)
    with pytest.raises(DamagedError, match="the checkpoint should be an object, got a list"):
        load_checkpoint(path)


def test_every_flipped_bit_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, checkpoint_of(make_training()))
    content = bytearray(path.read_bytes())
    places = np.random.default_rng(0).integers(8 * len(content), size=200)
    for place in [*places, *range(8 * len(content) - 8 * 77, 8 * len(content), 7)]:  # Anywhere, and in the digest.
        byte, bit = divmod(int(place), 8)
        content[byte] ^= 1 << bit
        path.write_bytes(content)
        with pytest.raises(DamagedError, match="digest"):
            load_checkpoint(path)
        content[byte] ^= 1 << bit


def test_torch_reads_a_checkpoint(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "checkpoint.pt", checkpoint_of(make_training()))
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == 0


def test_a_state_that_is_of_no_such_training_is_refused() -> None:
    training = make_training()
    next(training.run())
    state = training.state()
    with pytest.raises(ValueError, match=r"step is the position of the training: expected 0 to \d+, got 1000000"):
        make_training().load({**state, "step": 10**6})
    (group,) = state["optimiser"]["param_groups"]
    for eps in (1.0, "small"):
        groups = [group | {"eps": eps}]
        with pytest.raises(ValueError, match="optimiser with other settings: eps differs"):
            make_training().load({**state, "optimiser": {**state["optimiser"], "param_groups": groups}})
    without = {name: value for name, value in group.items() if name != "eps"}
    with pytest.raises(ValueError, match="optimiser with other settings: eps differs"):
        make_training().load({**state, "optimiser": {**state["optimiser"], "param_groups": [without]}})
    averages = next(iter(state["optimiser"]["state"].values()))
    name = next(name for name, value in averages.items() if torch.is_tensor(value) and value.ndim)
    wrong: list[Any] = [torch.zeros(3, 1, 2), {}, None]
    for other in wrong:
        averages[name] = other
        with pytest.raises(ValueError, match=rf"the optimiser's {name} goes with a parameter"):
            make_training().load(state)
    del averages[name]
    with pytest.raises(ValueError, match="the same averages for all parameters"):
        make_training().load(state)
