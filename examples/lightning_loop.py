"""PyTorch Lightning: the loss is a module like any other, and one hook ends its epoch.

    python examples/lightning_loop.py    # seconds on one core; needs lightning and scikit-learn

The state of the loss (a memory bank, or what the correction has learnt) is in Lightning's checkpoints.
"""

import logging

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pucl


class SimCLR(lightning.LightningModule):
    """An encoder that learns from two noisy views of each image."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
        self.criterion = pucl.AutoLoss(samples, temperature=0.2)  # <- the one line that matters

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        """The loss of two views. The numbers of the samples let the correction remember them."""
        images, ids = batch
        z0, z1 = (self.encoder(images + 0.2 * torch.randn_like(images)) for _ in range(2))
        loss: torch.Tensor = self.criterion(z0, z1, ids=ids)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_end(self) -> None:
        """Let the correction look for communities, and say what it sees."""
        report = self.criterion.end_epoch()
        if report is not None:
            print(f"epoch {self.current_epoch}: loss {self.trainer.callback_metrics['loss']:.3f}; {report.sentence}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main() -> None:
    """Train for a few epochs."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)  # No tips.
    lightning.seed_everything(0, verbose=False)
    images = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    loader = DataLoader(TensorDataset(images, torch.arange(len(images))), batch_size=256, shuffle=True, drop_last=True)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(SimCLR(len(images)), loader)


if __name__ == "__main__":
    main()
