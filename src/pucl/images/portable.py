"""The encoder of images as one module of torch, with resizing and colours inside, which can be traced and exported."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pucl.modality import Portable
from pucl.samples import Features
from pucl.shapes import Float, Tensor


class PixelEncoder(nn.Module):
    """A trained network that resizes and normalises images itself.

    Args:
        networks: Map prepared images to features; CMC has two, for lightness and colour.
        views: Have the side of prepared images in pixels, and prepare their colours, one tensor for each network.

    Shapes:
        [batch, 3, height, width], uint8 or floats in 0..1, to [batch, features].
    """

    def __init__(self, networks: Sequence[nn.Module], views: Any) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.size: int = views.size
        self.colours: Callable[[Tensor], tuple[Tensor, ...]] = views.colours
        self.train(any(network.training for network in networks))

    def forward(self, images: Tensor) -> Float[Tensor, "batch feature"]:
        """Compute features; those of several networks are concatenated."""
        shares = images.float()
        if images.is_floating_point():  # To bytes, as in `TrainedImages.encode`.
            shares = (shares * 255).round().clamp(0, 255)
        with torch.no_grad():
            parts = self.colours(stretch(shares / 255, self.size))
        return torch.cat([network(part) for network, part in zip(self.networks, parts, strict=True)], dim=1)


def stretch(images: Float[Tensor, "batch 3 height width"], size: int) -> Float[Tensor, "batch 3 {size} {size}"]:
    """Resize whole images to a square, by the formula of `pucl.images.views.planes.crop`.

    It is written without a choice that depends on height or width, so that one trace serves images of all sizes. At
    the size of the result both matrices are exactly the identity.
    """
    return _resampling(images, 2, size) @ images @ _resampling(images, 3, size).T


def _resampling(images: Tensor, axis: int, size: int) -> Float[Tensor, "{size} extent"]:
    position = torch.arange(images.shape[axis], dtype=images.dtype, device=images.device) + 0.5
    extent = position[-1:] + 0.5  # As a tensor, since a number would become a constant of the trace.
    target = torch.arange(size, dtype=images.dtype, device=images.device) + 0.5
    # Beyond the middle of its last pixel an image repeats that pixel.
    centre = torch.minimum((target * (extent / size)).clamp_min(0.5), extent - 0.5)
    reach = (extent / size).clamp_min(1)
    weights = (1 - (position[None, :] - centre[:, None]).abs() / reach).clamp_min(0)
    return weights / weights.sum(1, keepdim=True)


def portable_images(
    encoder: PixelEncoder, encode: Callable[[Tensor], Features], image_size: int, *, floats: bool
) -> Portable:
    """Describe an encoder for ``pucl export``.

    Args:
        encoder: The network.
        encode: Computes the features that it should have.
        image_size: Side of the training images in pixels.
        floats: Whether images are floats from 0 to 1, instead of bytes.
    """

    def draw(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, ...], Features]:
        # One image has another size and shape than those of the training, many have theirs.
        height, width = (2 * image_size + 1, 3 * image_size // 2) if count == 1 else (image_size, image_size)
        images = torch.randint(256, (count, 3, height, width), dtype=torch.uint8, generator=generator)
        given = images / 255 if floats else images
        return (given,), encode(given)

    kind, scale = ("float32", " / np.float32(255)") if floats else ("uint8", "")
    return Portable(
        module=encoder,
        axes={"images": ("batch", 3, "height", "width")},
        draw=draw,
        inputs=f"`images`: {kind} [batch, 3, height, width] from 0 to {1 if floats else 255}, of any size, as red, "
        "green and blue. Resizing and normalisation are inside.",
        usage="import numpy as np\n\n"
        f"pixels = np.random.default_rng(0).integers(0, 256, (2, 3, {image_size}, {image_size})).astype(np.uint8)\n"
        f'inputs = {{"images": pixels{scale}}}  # your pictures',
    )
