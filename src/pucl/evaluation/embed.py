"""Embedding in evaluation mode, for all modalities."""

from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import TypeVar

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


_Set = TypeVar("_Set", bound=Sized)


def embed_each(
    sets: Mapping[str, _Set],
    embed: Callable[[_Set, Callable[[int], None]], NDArray[np.float32]],
    *,
    progress: Callable[[int, int], None],
) -> dict[str, NDArray[np.float32]]:
    """The features of several sets of samples, by name.

    Args:
        sets: Samples by name.
        embed: Computes the features of one set. It is also given a function to call with the number that is done.
        progress: Called with the number of samples that are done, and of all.
    """
    rows: dict[str, NDArray[np.float32]] = {}
    before, total = 0, sum(map(len, sets.values()))
    for name, samples in sets.items():
        rows[name] = embed(samples, lambda done, before=before: progress(before + done, total))  # type: ignore[misc]
        before += len(samples)
    progress(total, total)
    return rows


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
