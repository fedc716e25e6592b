"""Thumbnails of images for a page: all in one file, of limited size."""

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.images.resizing import resize_pixels
from pucl.images.sources.picture import need_pillow
from pucl.samples import Sheet

SIDES = (32, 24, 16)  # Sides of a thumbnail in pixels; the largest that fits is used.
QUALITIES = (85, 75, 65, 55, 45)


def sheet(pixels: NDArray[np.uint8], budget: int) -> Sheet:
    """Put all images on one sheet, in the best quality that fits.

    Args:
        pixels: uint8 [n, 3, height, width].
        budget: Largest size of the text in bytes.
    """
    need_pillow()
    from PIL import Image, features  # noqa: PLC0415

    columns = math.ceil(math.sqrt(len(pixels)))
    kind = "webp" if features.check("webp") else "jpeg"
    made = Sheet(src="", side=0, columns=columns)
    for side in dict.fromkeys(min(side, *pixels.shape[2:]) for side in SIDES):
        picture = Image.fromarray(_tiled(resize_pixels(pixels, side), columns))
        # Tiny images, such as digits, are kept without loss: it would be visible when they are enlarged.
        tries: list[tuple[str, dict[str, Any]]] = [("png", {"optimize": True})] if side < min(SIDES) else []
        tries += [(kind, {"quality": quality}) for quality in QUALITIES]
        for form, options in tries:
            content = io.BytesIO()
            picture.save(content, form, **options)
            text = base64.b64encode(content.getvalue()).decode()
            made = Sheet(src=f"data:image/{form};base64,{text}", side=side, columns=columns)
            if len(made.src) <= budget:
                return made
    return made


def _tiled(pixels: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Arrange images in rows and columns: [rows * side, columns * side, 3]."""
    side, rows = pixels.shape[2], math.ceil(len(pixels) / columns)
    filled = np.zeros((rows * columns, side, side, 3), np.uint8)
    filled[: len(pixels)] = pixels.transpose(0, 2, 3, 1)
    tiles = filled.reshape(rows, columns, side, side, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(tiles.reshape(rows * side, columns * side, 3))
