"""Training at the temperatures of text and CLIP: the default floor learns where exp(-1/t) stands still."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import pucl
from pucl.adapters import TwoTowerLoss

LOGIT_SCALE = 20.0
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")]


@dataclass(frozen=True)
class Result:
    """How a training went.

    Args:
        before: Share of samples whose partner is the nearest of all, by untrained towers.
        after: The same by trained towers.
        gradient: Sum of the absolute gradients in the last step.
    """

    before: float
    after: float
    gradient: float


def train(
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    draw: Callable[[torch.Generator], tuple[torch.Tensor, torch.Tensor]],
    towers: tuple[nn.Module, nn.Module],
    optimiser: torch.optim.Optimizer,
    steps: int,
) -> Result:
    """Batches of 128 of the partners that `draw` gives, one side to each tower."""
    generator = torch.Generator().manual_seed(4)
    held_out = draw(generator)

    def retrieved() -> float:
        with torch.no_grad():
            left, right = (
                nn.functional.normalize(tower(side), dim=1) for tower, side in zip(towers, held_out, strict=True)
            )
        return (left @ right.T).argmax(dim=1).eq(torch.arange(len(left))).double().mean().item()

    before = retrieved()
    for _ in range(steps):
        left, right = draw(generator)
        batch = torch.randperm(len(left), generator=generator)[:128]
        optimiser.zero_grad()
        loss(towers[0](left[batch]), towers[1](right[batch])).backward()
        optimiser.step()
    gradient = sum(float(each.grad.abs().sum()) for each in towers[0].parameters() if each.grad is not None)
    return Result(before=before, after=retrieved(), gradient=gradient)


def train_text(loss: pucl.ContrastiveLoss) -> Result:
    """One linear encoder, two noisy views of samples in eight tight classes, as sentences with dropout are."""
    known = torch.Generator().manual_seed(0)
    samples = torch.randn(8, 64, generator=known)[torch.arange(256) % 8] + 0.1 * torch.randn(256, 64, generator=known)
    noise = 0.3 * torch.randn(16, 64, generator=known) / 4

    def draw(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = (samples + torch.randn(256, 16, generator=generator) @ noise for _ in range(2))
        return first, second

    encoder = nn.Linear(64, 32)
    return train(loss, draw, (encoder, encoder), torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9), 100)


def train_two_towers(loss: pucl.ContrastiveLoss) -> Result:
    """Two linear towers for two kinds of data that share what they describe: samples of twenty classes."""
    known = torch.Generator().manual_seed(0)
    meaning = torch.randn(20, 16, generator=known)[torch.arange(512) % 20] + 0.7 * torch.randn(512, 16, generator=known)
    images = meaning @ torch.randn(16, 48, generator=known) + torch.randn(512, 48, generator=known)
    texts = meaning @ torch.randn(16, 40, generator=known) + torch.randn(512, 40, generator=known)
    towers = nn.Linear(48, 32), nn.Linear(40, 32)
    two = TwoTowerLoss(loss)
    return train(
        lambda left, right: two(left, right, LOGIT_SCALE),
        lambda _: (images, texts),
        towers,
        torch.optim.Adam([*towers[0].parameters(), *towers[1].parameters()], lr=3e-3),
        200,
    )


def test_one_encoder_at_the_temperature_of_text() -> None:
    # The true prior of eight classes is 0.125; this one is twice as large, as a guess may be.
    result = train_text(pucl.PUCLLoss(alpha=0.25, c=0.0, temperature=0.05))
    assert result.before < 0.1
    assert result.after > 0.7
    assert result.gradient > 0.1
    stopped = train_text(pucl.PUCLLoss(alpha=0.25, c=0.0, temperature=0.05, floor="temperature"))
    assert stopped.after < 0.2


def test_two_towers_at_the_scale_of_clip() -> None:
    result = train_two_towers(pucl.PUCLLoss(alpha=0.12, c=0.0))
    assert result.before < 0.05
    assert result.after > 0.95
    assert result.gradient > 0.1
    stopped = train_two_towers(pucl.PUCLLoss(alpha=0.12, c=0.0, floor="temperature"))
    assert stopped.after < 0.9
    assert stopped.gradient < 1e-9
