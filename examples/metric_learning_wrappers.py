"""pytorch-metric-learning: its wrappers, for two views and for a memory of earlier batches, around our loss.

python examples/metric_learning_wrappers.py    # seconds on one core; needs pytorch-metric-learning, scikit-learn
"""

import torch
from pytorch_metric_learning.losses import CrossBatchMemory, SelfSupervisedLoss
from sklearn.datasets import load_digits
from torch import nn

from pucl import PUCLLoss
from pucl.adapters import MetricLearningLoss
from pucl.evaluation.retrieval import rank_neighbours

DIM, STEPS, BATCH = 32, 100, 64


def train(images: torch.Tensor, *, with_memory: bool) -> nn.Module:
    """Train an encoder on two noisy views of each image."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, DIM))
    ours = MetricLearningLoss(PUCLLoss(alpha=0.1, c=0.1, temperature=0.5))  # <- the one line that matters
    two_views, memory = SelfSupervisedLoss(ours), CrossBatchMemory(ours, DIM, memory_size=8 * BATCH)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for _ in range(STEPS):
        batch = torch.randint(len(images), (BATCH,)).unique()
        z0, z1 = (encoder(images[batch] + 0.2 * torch.randn(len(batch), 64)) for _ in range(2))
        if with_memory:  # The label of a row is its sample: older views of the sample are positives, too.
            keys = torch.arange(2 * len(batch)) >= len(batch)
            loss = memory(torch.cat([z0, z1]), batch.repeat(2), enqueue_mask=keys)
        else:
            loss = two_views(z0, z1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"{'a memory' if with_memory else 'two views'}: {ours.last}")
    return encoder


def main() -> None:
    """Train with each wrapper, and print retrieval of digits."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    scores = []
    for with_memory in (False, True):
        encoder = train(images, with_memory=with_memory)
        with torch.no_grad():
            embeddings = encoder(images)
        scores.append(rank_neighbours(embeddings, torch.tensor(digits.target)).average_precision.mean())
    print(f"retrieval of digits: {scores[0]:.3f} with SelfSupervisedLoss, {scores[1]:.3f} with CrossBatchMemory")


if __name__ == "__main__":
    main()
