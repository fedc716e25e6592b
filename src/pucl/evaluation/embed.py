"""Embedding in evaluation mode, for all modalities."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.shapes import Tensor


def finite_rows(encoder: nn.Module, vectors: Tensor, unit: str) -> NDArray[np.float32]:
    """Features of a batch as an array, float32 [sample, dim].

    Raises:
        ValueError: If features are not finite. The message says whether the weights of the encoder are the cause.
    """
    rows: NDArray[np.float32] = vectors.float().cpu().numpy()
    wrong = int((~np.isfinite(rows)).any(axis=1).sum())
    if wrong == 0:
        return rows
    weights = [name for name, value in encoder.state_dict().items() if not bool(torch.isfinite(value).all())]
    if weights:
        cause = (
            f"{len(weights)} of the encoder's weights are not finite either, the first is {weights[0]}: the training "
            "diverged, or the file is damaged. Train again, with a lower learning rate or in float32"
        )
    else:
        cause = f"its weights are finite, so numbers overflow inside the encoder: look for extreme values in the {unit}"
    raise ValueError(
        f"features are numbers that can be compared: expected finite ones, got NaN or infinity for {wrong} of "
        f"{len(rows)} {unit}; {cause}"
    )


@contextmanager
def evaluation_mode(encoder: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; module by module, since a part may have been frozen on purpose."""
    training = [(module, module.training) for module in encoder.modules()]
    encoder.eval()
    try:
        yield
    finally:
        for module, was in training:
            module.training = was
