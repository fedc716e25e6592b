"""Who meets whom in each framework, and when memory moves."""

from typing import Any

import pytest
import torch
from torch import nn

from pucl.batch_norm import PartedBatchNorm, in_parts, part_batch_norms, synchronise_batch_norms
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.cmc import CMC
from pucl.frameworks.moco import MoCo
from pucl.frameworks.recipes import recipe
from pucl.functional import corrected_loss
from pucl.images.task import ImageShape
from pucl.training.framework import Batch
from small_runs import fitting

SAMPLES, SIZE = 40, 8


class Flat(nn.Module):
    """The smallest encoder: pixels to features."""

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        self.layer = nn.Linear(in_channels * SIZE * SIZE, 10)
        self.norm = nn.BatchNorm1d(10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.norm(self.layer(images.flatten(1)))
        return features


def make(name: str, **changes: Any) -> Any:
    own = fitting(name, queue_size=24, splits=2, draws=16)
    config = recipe(name, "noise", dim=6, **own, **changes)
    return FRAMEWORKS[name].build(config, ImageShape(size=SIZE, samples=SAMPLES), Flat)


def batch(start: int = 0, count: int = 8, seed: int = 0) -> Batch[torch.Tensor]:
    pixels = torch.randint(0, 256, (SAMPLES, 3, SIZE, SIZE), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    ids = torch.arange(start, start + count) % SAMPLES
    return Batch(
        samples=pixels[ids],
        ids=ids,
        generator=torch.Generator().manual_seed(seed),
        part=slice(0, count),
        whole=count,
    )


def met(pairs: Pairs) -> torch.Tensor:
    """How many unlabelled samples each anchor meets."""
    return pairs.comparison().count


every = pytest.mark.parametrize("name", ["simclr", "moco", "cmc"])


@every
def test_features_are_those_of_the_encoders(name: str) -> None:
    assert make(name).eval()(batch().samples).shape == (8, 20 if name == "cmc" else 10)


@every
def test_gradients_reach_what_is_trained_and_nothing_else(name: str) -> None:
    framework = make(name)
    framework.pairs(batch(0))
    framework.commit()
    torch.stack([corrected_loss(pairs, PUCL()).loss.mean() for pairs in framework.pairs(batch(8))]).sum().backward()
    for parameter_name, parameter in framework.named_parameters():
        if parameter_name.startswith("slow"):
            assert parameter.grad is None
        else:
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("views", [2, 3])
def test_simclr_meets_all_views_of_all_others(views: int) -> None:
    (pairs,) = make("simclr", view_count=views).pairs(batch(count=8))
    assert met(pairs).tolist() == [7.0 * views] * (8 * views)
    assert pairs.positive.shape == (8 * views, views - 1)


def test_moco_compares_with_the_queue_as_it_was() -> None:
    framework: MoCo = make("moco")
    assert framework.pairs(batch(0)) == []
    assert len(framework.queue.contents()[0]) == 0
    framework.commit()
    assert sorted(framework.queue.contents()[1].tolist()) == list(range(8))
    (pairs,) = framework.pairs(batch(4))
    # Samples 4 to 7 are in the queue and leave themselves out.
    assert met(pairs).tolist() == [7.0] * 4 + [8.0] * 4
    assert not framework.ready
    for start in (8, 16):
        framework.pairs(batch(start))
        framework.commit()
    assert framework.ready


def test_moco_copy_follows() -> None:
    framework: MoCo = make("moco")
    with torch.no_grad():
        for parameter in framework.encoder.parameters():
            parameter.add_(1.0)
    before = [parameter.clone() for parameter in framework.slow_encoder.parameters()]
    framework.commit()
    for old, new in zip(before, framework.slow_encoder.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.01)


def test_split_statistics_are_of_each_part() -> None:
    """In one pass, and in a pass for each part if batch norms are of another kind."""
    images, outcomes = torch.randn(9, 3, SIZE, SIZE), []
    for convert in (False, True):
        torch.manual_seed(0)
        encoder = Flat()
        if convert:
            part_batch_norms(encoder)
        parts = in_parts(encoder, images, 4)
        parts.square().sum().backward()
        outcomes.append([parts, *(each.grad for each in encoder.parameters()), *encoder.buffers()])
        assert not torch.allclose(parts, in_parts(encoder, images, 1))
        encoder.eval()
        torch.testing.assert_close(in_parts(encoder, images, 4), encoder(images))
    torch.testing.assert_close(outcomes[0], outcomes[1])
    torch.manual_seed(0)
    encoder = Flat()
    expected = torch.cat([encoder(part) for part in images.tensor_split(4)])
    torch.testing.assert_close(outcomes[0][0], expected)


def test_parts_keep_names_parameters_and_what_other_norms_do() -> None:
    class WithActivation(nn.BatchNorm2d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
            return super().forward(input).relu()

    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), WithActivation(4))
    weight = network[1].weight
    names = list(network.state_dict())
    assert part_batch_norms(network) is network
    assert list(network.state_dict()) == names
    assert type(network[1]) is PartedBatchNorm
    assert network[1].weight is weight
    assert type(network[2]) is WithActivation
    assert in_parts(network, torch.randn(8, 3, 2, 2), 2).min() == 0
    with pytest.raises(ValueError, match="expected those of torch, got WithActivation; train this encoder in one"):
        synchronise_batch_norms(nn.Sequential(WithActivation(4)), torch.device("cpu"))


def test_cmc_meets_the_bank_of_the_other_view_and_moves_its_own() -> None:
    framework: CMC = make("cmc")
    light, colour = framework.light_bank.entries.clone(), framework.colour_bank.entries.clone()
    forth, back = framework.pairs(batch(0))
    torch.testing.assert_close(forth.positive[:, 0], (forth.query * colour[:8]).sum(dim=1))
    torch.testing.assert_close(back.positive[:, 0], (back.query * light[:8]).sum(dim=1))
    for pairs in (forth, back):
        assert (met(pairs) <= 16).all()
    framework.commit()
    changed = (framework.light_bank.entries != light).any(dim=1)
    assert changed.tolist() == [True] * 8 + [False] * (SAMPLES - 8)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("simclr", {"view_count": 1}, "each other's positives: expected at least 2, got 1"),
        ("simclr", {"dim": 0}, "dim is the dimension of the embeddings: expected at least 1, got 0"),
        ("moco", {"splits": 0}, "the number of parts of a batch: expected at least 1, got 0"),
        ("moco", {"key_momentum": 1.5}, "share of the key encoder that stays: expected 0 to 1, got 1.5"),
        ("cmc", {"draws": 0}, "bank entries that an anchor meets: expected at least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe(name, "noise", **changes)
