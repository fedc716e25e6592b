"""lightly: its transform, its head and its loop, with our loss in place of its NTXentLoss.

    python examples/lightly_loop.py      # a minute on one core; needs lightly (with torchvision) and scikit-learn

Our losses are called as lightly's are, so no adapter is needed; `memory_bank_size` and `gather_distributed` mean the
same. Without lightly, the file says what is missing and stops.
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

import pucl

try:
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
    from PIL import Image
except (ImportError, RuntimeError, OSError) as error:  # A torchvision for another build of torch fails in many ways.
    sys.exit(f"this example needs lightly with a torchvision that fits torch {torch.__version__}: {error}")


class Digits(Dataset[list[torch.Tensor]]):
    """Two views of each digit of scikit-learn, as lightly's transform makes them."""

    def __init__(self) -> None:
        self.images = (load_digits().images * 15).astype(np.uint8)
        self.transform = SimCLRTransform(input_size=16, gaussian_blur=0.0)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        views: list[torch.Tensor] = self.transform(Image.fromarray(self.images[index]).convert("RGB").resize((16, 16)))
        return views


def main() -> None:
    """Train for three epochs."""
    torch.manual_seed(0)
    backbone = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
    )
    model = nn.Sequential(backbone, SimCLRProjectionHead(1024, 128, 64))

    # from lightly.loss import NTXentLoss
    # criterion = NTXentLoss(temperature=0.5)
    criterion = pucl.PUCLLoss(alpha=0.1, c=0.0, temperature=0.5)  # <- the one line that matters

    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Digits(), batch_size=256, shuffle=True, drop_last=True)
    for epoch in range(3):
        losses = []
        for x0, x1 in loader:
            loss = criterion(model(x0), model(x1))
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}; last step: {criterion.last}")


if __name__ == "__main__":
    main()
