"""Embeddings of a whole set of images."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.shapes import Tensor


@torch.no_grad()
def embed(
    encoder: nn.Module,
    pixels: NDArray[np.uint8],
    prepare: Callable[[Tensor], Tensor],
    batch_size: int = 512,
    device: torch.device | str | None = None,
) -> NDArray[np.float32]:
    """The encoder's view of every image, as it will be used: in evaluation mode, each image for itself.

    Batch by batch, so the images may be a memory map larger than memory. Every module of the encoder is
    afterwards in the mode in which it was, and batch norm's statistics are as they were.

    Args:
        encoder: Takes images [batch, channel, height, width], gives [batch, dim].
        pixels: Images as bytes, [images, channel, height, width].
        prepare: What makes a batch of bytes, on the device, into what the encoder takes: scaled and normalised.
        batch_size: Images at a time. Changes nothing but speed and memory.
        device: Where the encoder is; None asks its first parameter.

    Shapes:
        [images, channel, height, width] to [images, dim].

    Raises:
        ValueError: If features come out as NaN or infinity; see `finite_rows`.
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or len(pixels) == 0:
        raise ValueError(
            f"pixels are images as bytes: expected uint8 of shape [images, channel, height, width] with at least one "
            f"image, got {pixels.dtype} of shape {list(pixels.shape)}"
        )
    if batch_size < 1:
        raise ValueError(f"batch_size is how many images are embedded at a time: expected at least 1, got {batch_size}")
    if device is None:
        device = next((parameter.device for parameter in encoder.parameters()), torch.device("cpu"))
    embeddings: NDArray[np.float32] | None = None
    with evaluation_mode(encoder):
        for start in range(0, len(pixels), batch_size):
            # A copy of its own, since torch takes no array that is read-only, as memory maps are.
            batch = torch.from_numpy(np.array(pixels[start : start + batch_size]))
            vectors: Tensor = encoder(prepare(batch.to(device)))
            if vectors.ndim != 2 or len(vectors) != len(batch):
                raise ValueError(
                    f"the encoder gives one vector for each image: expected the shape [{len(batch)}, dim], "
                    f"got {list(vectors.shape)}"
                )
            if embeddings is None:
                embeddings = np.empty((len(pixels), vectors.shape[1]), dtype=np.float32)
            embeddings[start : start + len(batch)] = finite_rows(encoder, vectors, "images")
    assert embeddings is not None  # noqa: S101 - for the type checker: there is at least one image.
    return embeddings


def finite_rows(encoder: nn.Module, vectors: Tensor, unit: str) -> NDArray[np.float32]:
    """Features of a batch as an array.

    Args:
        encoder: What made them.
        vectors: [sample, dim].
        unit: What samples are called in the error.

    Raises:
        ValueError: If features are not finite. The message says whether the weights are the cause.
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
