"""Operators of `pucl.images.views` as functions of images [batch, 3, height, width], one at a time, for tests."""

import torch
from torch import Tensor

from pucl.images.views import planes
from pucl.images.views.planes import BRIGHTNESS, CONTRAST, HUE, SATURATION, Crops

NEUTRAL = {BRIGHTNESS: 1.0, CONTRAST: 1.0, SATURATION: 1.0, HUE: 0.0}


def crop(images: Tensor, crops: Crops, size: int) -> Tensor:
    return planes.as_images(planes.crop(images, crops, size))


def same_box(count: int, top: int, left: int, height: int, width: int, *, flip: Tensor | None = None) -> Crops:
    """The same box of all images."""
    sides = {"top": top, "left": left, "height": height, "width": width}
    edges = {name: torch.full((count,), value) for name, value in sides.items()}
    return Crops(**edges, flip=torch.zeros(count, dtype=torch.bool) if flip is None else flip)


def flip(images: Tensor, which: Tensor) -> Tensor:
    """Mirror some square images: a crop of the whole image at its own size."""
    side = images.shape[3]
    return crop(images, same_box(len(images), 0, 0, side, side, flip=which), side)


def adjust(images: Tensor, factor: Tensor, operator: int) -> Tensor:
    """Brightness, contrast, saturation or hue alone: a jitter whose other factors change nothing."""
    factors = torch.tensor([NEUTRAL[each] for each in range(4)], dtype=factor.dtype).repeat(len(images), 1)
    factors[:, operator] = factor
    order = torch.arange(4).expand(len(images), 4)
    return jitter(images, factors, order, torch.ones(len(images), dtype=torch.bool))


def jitter(images: Tensor, factors: Tensor, order: Tensor, which: Tensor) -> Tensor:
    """Jitter the images that `which` chooses; see `planes.jitter` for factors and order."""
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
