"""Resize images that are in memory, in the same way as the pictures of a folder."""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from pucl.images.imageset import ImageData, ImageSet

CHUNK = 1024  # Images at a time: a whole set as floats would need four times its memory.


def check_image_size(image_size: int) -> None:
    """Refuse an impossible size."""
    if image_size < 2:
        raise ValueError(f"image_size is the side of an image in pixels: expected 2 or more, got {image_size}")


def resize_pixels(pixels: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize the shorter side to ``size`` (bilinear, with antialiasing), then take the square in the middle."""
    height, width = pixels.shape[2:]
    if (height, width) == (size, size):
        return pixels
    scale = size / min(height, width)
    tall, wide = max(size, round(height * scale)), max(size, round(width * scale))
    top, left = (tall - size) // 2, (wide - size) // 2
    resized = np.empty((len(pixels), 3, size, size), np.uint8)
    for start in range(0, len(pixels), CHUNK):
        chunk = torch.from_numpy(np.array(pixels[start : start + CHUNK])).float()
        chunk = F.interpolate(chunk, size=(tall, wide), mode="bilinear", antialias=True, align_corners=False)
        chunk = chunk[:, :, top : top + size, left : left + size].round_().clamp_(0, 255)
        resized[start : start + CHUNK] = chunk.to(torch.uint8).numpy()
    return resized


def resize_data(data: ImageData, size: int | None) -> ImageData:
    """Resize all parts; None changes nothing. Parts that share an array still share one."""
    if size is None or data.pretrain.size == (size, size):
        return data
    done: dict[int, ImageSet] = {}
    for part in (data.pretrain, data.train, data.test):
        if part is not None and id(part) not in done:
            done[id(part)] = replace(part, pixels=resize_pixels(part.pixels, size))
    test = None if data.test is None else done[id(data.test)]
    return replace(data, pretrain=done[id(data.pretrain)], train=done[id(data.train)], test=test)
