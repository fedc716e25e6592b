"""Features of many images, batch by batch."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl import processes
from pucl.evaluation.embed import evaluation_mode, finite_rows
from pucl.shapes import Tensor

BATCH = 512


@torch.no_grad()
def embed(
    encoder: nn.Module,
    pixels: NDArray[np.uint8],
    batch_size: int = BATCH,
    report: Callable[[int], None] = lambda _done: None,
) -> NDArray[np.float32]:
    """Compute the features of images in evaluation mode. Afterwards the encoder is as it was before.

    Args:
        encoder: Maps bytes [batch, channel, height, width] to features [batch, dim].
        pixels: Images as bytes, [images, channel, height, width]; possibly a memory map that is larger than memory.
        batch_size: Images at a time. It changes speed and memory only.
        report: Called with the number of images that are done, before each batch.

    Raises:
        ValueError: If features are NaN or infinite; see `finite_rows`.
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or len(pixels) == 0:
        raise ValueError(
            f"pixels are images as bytes: expected uint8 of shape [images, channel, height, width] with at least one "
            f"image, got {pixels.dtype} of shape {list(pixels.shape)}"
        )
    device = next((parameter.device for parameter in encoder.parameters()), torch.device("cpu"))
    features = np.empty((0, 0), np.float32)
    with evaluation_mode(encoder):
        for start in range(0, len(pixels), batch_size):
            report(start)
            # A copy: torch takes no read-only arrays, such as memory maps.
            batch = torch.from_numpy(np.array(pixels[start : start + batch_size]))
            vectors: Tensor = encoder(batch.to(device))
            if vectors.ndim != 2 or len(vectors) != len(batch):
                raise ValueError(
                    f"the encoder returns one vector for each image: expected the shape [{len(batch)}, dim], "
                    f"got {list(vectors.shape)}"
                )
            if start == 0:
                features = np.empty((len(pixels), vectors.shape[1]), np.float32)
            features[start : start + len(batch)] = finite_rows(encoder, vectors, "images")
    return features


def embed_together(encoder: nn.Module, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Compute the features of images; processes share the work, and each returns all features."""
    count, rank = processes.world_size(), processes.rank()
    if len(pixels) < count:
        return embed(encoder, pixels)
    device = next(encoder.parameters()).device
    start, stop = len(pixels) * rank // count, len(pixels) * (rank + 1) // count
    own = torch.from_numpy(embed(encoder, pixels[start:stop])).to(device)
    features: NDArray[np.float32] = processes.gather(own, processes.gather_sizes(len(own), device)).cpu().numpy()
    return features
