"""Operators of `pucl.images.views.planes` for images in their usual order of axes, one at a time, for tests."""

import torch
from torch import Tensor

from pucl.images.views import planes
from pucl.images.views.planes import BRIGHTNESS, CONTRAST, HUE, SATURATION

NEUTRAL = {BRIGHTNESS: 1.0, CONTRAST: 1.0, SATURATION: 1.0, HUE: 0.0}


def adjust(images: Tensor, factor: Tensor, operator: int) -> Tensor:
    """Brightness, contrast, saturation or hue alone: a jitter whose other factors change nothing."""
    factors = torch.tensor([NEUTRAL[each] for each in range(4)], dtype=factor.dtype).repeat(len(images), 1)
    factors[:, operator] = factor
    order = torch.arange(4).expand(len(images), 4)
    return jitter(images, factors, order, torch.ones(len(images), dtype=torch.bool))


def flip(images: Tensor, which: Tensor) -> Tensor:
    return torch.where(which[:, None, None, None], images.flip(3), images)


def jitter(images: Tensor, factors: Tensor, order: Tensor, which: Tensor) -> Tensor:
    """Jitter the images that `which` chooses.

    Args:
        images: From 0 to 1.
        factors: Columns `BRIGHTNESS`, `CONTRAST`, `SATURATION` (1 changes nothing) and `HUE` (0 changes nothing).
        order: A permutation of these four column numbers for each image, the first to be applied first.
        which: Images that are adjusted at all.
    """
    sequence, groups = planes.by_turn_of_hue(order, which)
    chosen = sequence[: sum(groups)]
    colours = planes_of(images[chosen])
    planes.jitter(colours, factors[chosen], order[chosen], groups)
    return images.index_copy(0, chosen, colours.transpose(0, 1))


def greyscale(images: Tensor, which: Tensor) -> Tensor:
    colours = planes_of(images)
    planes.greyscale(colours, which)
    return planes.as_images(colours)


def blur(images: Tensor, sigma: Tensor, kernel: int, which: Tensor) -> Tensor:
    colours = planes_of(images)
    planes.blur(colours, sigma, kernel, which)
    return planes.as_images(colours)


def planes_of(images: Tensor) -> Tensor:
    return images.transpose(0, 1).clone(memory_format=torch.contiguous_format)
