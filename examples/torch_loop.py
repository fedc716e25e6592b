"""A plain torch loop: SimCLR on the digits of scikit-learn, once with InfoNCE and once with a corrected loss.

    python examples/torch_loop.py        # seconds on one core; needs scikit-learn

Both trainings see the same batches. Retrieval says how many of a sample's nearest neighbours are of its class: false
negatives push exactly those away.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import pucl
from pucl.evaluation.retrieval import rank_neighbours

EPOCHS, BATCH = 15, 256


def view(images: torch.Tensor) -> torch.Tensor:
    """A random view of each image: moved by up to one pixel, with noise and another contrast."""
    height, width = (int(torch.randint(-1, 2, ())) for _ in range(2))
    moved = torch.roll(images, (height, width), dims=(1, 2))
    contrast = 0.6 + 0.8 * torch.rand(len(images), 1, 1)
    return contrast * moved + 0.1 * torch.randn_like(images)


def train(criterion: pucl.ContrastiveLoss, images: torch.Tensor) -> nn.Module:
    """Train an encoder with this loss, and return it."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    head = nn.Linear(256, 64)
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH)[:-1]:
            z0, z1 = (head(encoder(view(images[batch]))) for _ in range(2))
            loss = criterion(z0, z1, ids=batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        criterion.end_epoch()  # Corrections that learn do their work here; all others do nothing.
    return encoder


def retrieval(encoder: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Mean average precision of a search with every image for the others of its class."""
    with torch.no_grad():
        return float(rank_neighbours(encoder(images), labels).average_precision.mean())


def main() -> None:
    """Compare InfoNCE with a loss that finds false negatives by itself."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)

    plain = pucl.NTXentLoss(temperature=0.2)
    corrected = pucl.AutoLoss(temperature=0.2, samples=len(images))  # <- the one line that matters

    before, after = (retrieval(train(criterion, images), images, labels) for criterion in (plain, corrected))
    if corrected.last is not None and corrected.last.report is not None:
        print(f"what the corrected loss saw: {corrected.last.report.sentence}")
    print(f"retrieval of digits: {before:.3f} with InfoNCE, {after:.3f} corrected")


if __name__ == "__main__":
    main()
