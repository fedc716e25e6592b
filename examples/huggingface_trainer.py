"""Hugging Face's Trainer: the model returns the loss of two views, and one callback ends the loss's epoch.

    python examples/huggingface_trainer.py    # seconds on one core; needs transformers, accelerate, scikit-learn

A model that returns a dictionary with "loss" is all that the Trainer asks for.
"""

import tempfile
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

import pucl


class Digits(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """The digits of scikit-learn, each with its number."""

    def __init__(self) -> None:
        self.images = torch.tensor(load_digits().data / 16, dtype=torch.float32)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"images": self.images[index], "ids": torch.tensor(index)}


class TwoViews(nn.Module):
    """An encoder that is trained on two noisy views."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
        self.criterion = pucl.AutoLoss(samples, temperature=0.2)  # <- the one line that matters

    def forward(self, images: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss of a batch."""
        z0, z1 = (self.encoder(images + 0.2 * torch.randn_like(images)) for _ in range(2))
        return {"loss": self.criterion(z0, z1, ids=ids)}


class EndEpoch(TrainerCallback):
    """Ends the epoch of a correction that learns."""

    def on_epoch_end(self, args: Any, state: Any, control: Any, model: TwoViews, **_: Any) -> None:  # noqa: ARG002
        """Print what the correction sees."""
        report = model.criterion.end_epoch()
        if report is not None:
            print(f"epoch {state.epoch:.0f}: {report.sentence}")


def main() -> None:
    """Train for three epochs."""
    data = Digits()
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            per_device_train_batch_size=256,
            num_train_epochs=3,
            learning_rate=1e-3,
            remove_unused_columns=False,
            dataloader_drop_last=True,
            logging_strategy="epoch",
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=0,
        )
        trainer = Trainer(TwoViews(len(data)), arguments, train_dataset=data, callbacks=[EndEpoch()])
        result = trainer.train()
    print(f"loss over {result.global_step} steps: {result.training_loss:.3f}")


if __name__ == "__main__":
    main()
