"""Who meets whom in each framework, and when memory moves."""

import pytest
import torch
from torch import nn

from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL
from pucl.frameworks.cmc import CMC
from pucl.frameworks.moco import MoCo, in_parts
from pucl.frameworks.simclr import SimCLR
from pucl.functional import compare
from pucl.images.views.recipes import CMCViews, SimCLRViews
from pucl.training.framework import Batch, Framework

SAMPLES, SIZE, DIM = 40, 8, 6


class Flat(nn.Module):
    """The smallest encoder: pixels to features."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.layer = nn.Linear(channels * SIZE * SIZE, 10)
        self.norm = nn.BatchNorm1d(10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.norm(self.layer(images.flatten(1)))
        return features


def make(name: str) -> SimCLR | MoCo | CMC:
    torch.manual_seed(0)
    head = nn.Linear(10, DIM)
    if name == "simclr":
        return SimCLR(Flat(), head, SimCLRViews(size=SIZE))
    if name == "moco":
        return MoCo(Flat(), head, SimCLRViews(size=SIZE), queue_size=24, dim=DIM, splits=2)
    return CMC(Flat(1), Flat(2), head, nn.Linear(10, DIM), CMCViews(size=SIZE), samples=SAMPLES, dim=DIM, draws=16)


def batch(start: int = 0, count: int = 8, labels: torch.Tensor | None = None, seed: int = 0) -> Batch[torch.Tensor]:
    pixels = torch.randint(0, 256, (SAMPLES, 3, SIZE, SIZE), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    ids = torch.arange(start, start + count) % SAMPLES
    return Batch(
        samples=pixels[ids],
        ids=ids,
        make_generator=lambda: torch.Generator().manual_seed(seed),
        part=slice(0, count),
        whole=count,
        labels=labels,
    )


def met(pairs: Pairs) -> torch.Tensor:
    """How many unlabelled samples each anchor meets."""
    return pairs.comparison().count


every = pytest.mark.parametrize("name", ["simclr", "moco", "cmc"])


@every
def test_is_a_framework_and_encodes(name: str) -> None:
    framework = make(name).eval()
    assert isinstance(framework, Framework)
    features = framework(batch().samples)
    assert features.shape == (8, 20 if name == "cmc" else 10)


@every
def test_same_numbers_same_pairs(name: str) -> None:
    losses = []
    for _ in range(2):
        framework = make(name)
        framework.pairs(batch(0))
        framework.commit()
        losses.append([compare(pairs, PUCL()).loss for pairs in framework.pairs(batch(8, seed=5))])
    for one, other in zip(*losses, strict=True):
        assert torch.equal(one, other)


@every
def test_gradients_reach_what_is_trained_and_nothing_else(name: str) -> None:
    framework = make(name)
    framework.pairs(batch(0))
    framework.commit()
    torch.stack([compare(pairs, PUCL()).loss.mean() for pairs in framework.pairs(batch(8))]).sum().backward()
    for parameter_name, parameter in framework.named_parameters():
        if parameter_name.startswith("slow"):
            assert parameter.grad is None
        else:
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all()


def test_simclr_meets_both_views_of_all_others() -> None:
    (pairs,) = make("simclr").pairs(batch(count=8))
    assert met(pairs).tolist() == [14.0] * 16
    assert pairs.positive.shape == (16, 1)


def test_simclr_with_more_views_has_more_positives() -> None:
    framework = SimCLR(Flat(), nn.Linear(10, DIM), SimCLRViews(size=SIZE), view_count=3)
    (pairs,) = framework.pairs(batch(count=8))
    assert pairs.positive.shape == (24, 2)
    assert met(pairs).tolist() == [21.0] * 24


def test_oracle_leaves_out_the_own_class() -> None:
    labels = torch.arange(SAMPLES) % 2
    for name in ("simclr", "moco", "cmc"):
        framework = make(name)
        framework.pairs(batch(0))
        framework.commit()
        plain = framework.pairs(batch(8, seed=3))
        oracle = framework.pairs(batch(8, seed=3, labels=labels))
        for one, other in zip(plain, oracle, strict=True):
            assert (met(other) < met(one)).all()
            assert other.drawn is not None
            torch.testing.assert_close(other.drawn, met(one))


def test_moco_compares_with_the_queue_as_it_was() -> None:
    framework = make("moco")
    assert isinstance(framework, MoCo)
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
    framework = make("moco")
    assert isinstance(framework, MoCo)
    with torch.no_grad():
        for parameter in framework.encoder.parameters():
            parameter.add_(1.0)
    before = [parameter.clone() for parameter in framework.slow_encoder.parameters()]
    framework.commit()
    for old, new in zip(before, framework.slow_encoder.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.01)


def test_split_statistics_are_of_each_part() -> None:
    images = torch.randn(8, 3, SIZE, SIZE)
    encoder = Flat()
    parts = in_parts(encoder, images, 4)
    expected = torch.cat([encoder(images[i : i + 2]) for i in range(0, 8, 2)])
    torch.testing.assert_close(parts, expected)
    assert not torch.allclose(parts, encoder(images))


def test_cmc_meets_the_bank_of_the_other_view_and_moves_its_own() -> None:
    framework = make("cmc")
    assert isinstance(framework, CMC)
    light, colour = framework.light_bank.entries.clone(), framework.colour_bank.entries.clone()
    forth, back = framework.pairs(batch(0))
    torch.testing.assert_close(forth.positive[:, 0], (forth.query * colour[:8]).sum(dim=1))
    torch.testing.assert_close(back.positive[:, 0], (back.query * light[:8]).sum(dim=1))
    for pairs in (forth, back):
        assert (met(pairs) <= 16).all()
    framework.commit()
    changed = (framework.light_bank.entries != light).any(dim=1)
    assert changed.tolist() == [True] * 8 + [False] * (SAMPLES - 8)
