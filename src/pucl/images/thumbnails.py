"""Images, each small enough that thousands fit into a page."""

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.images.resizing import resize_pixels
from pucl.images.sources.picture import need_pillow

SIDES = (32, 24, 16)  # Of a thumbnail, in pixels; the largest that fits.


QUALITIES = (85, 75, 65, 55, 45)


def sheet(pixels: NDArray[np.uint8], budget: int) -> dict[str, Any]:
    """All pictures as one, as well as so many bytes of text allow.

    Args:
        pixels: uint8 [n, 3, height, width].
        budget: Bytes that the text may take.

    Returns:
        ``src``, a data URI; ``side``, of a thumbnail in pixels; ``columns``, how many stand in a row.
    """
    need_pillow()
    from PIL import Image, features  # noqa: PLC0415

    columns = math.ceil(math.sqrt(len(pixels)))
    kind = "webp" if features.check("webp") else "jpeg"
    text = ""
    side = 0
    for side in dict.fromkeys(min(side, *pixels.shape[2:]) for side in SIDES):
        tiles = _tiled(resize_pixels(pixels, side), columns)
        picture = Image.fromarray(tiles)
        # Tiny pictures, such as digits, stay as they are: loss would be seen when they are enlarged.
        tries: list[tuple[str, dict[str, Any]]] = [("png", {"optimize": True})] if side < min(SIDES) else []
        tries += [(kind, {"quality": quality}) for quality in QUALITIES]
        for form, options in tries:
            content = io.BytesIO()
            picture.save(content, form, **options)
            text = f"data:image/{form};base64,{base64.b64encode(content.getvalue()).decode()}"
            if len(text) <= budget:
                return {"src": text, "side": side, "columns": columns}
    return {"src": text, "side": side, "columns": columns}


def _tiled(pixels: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Pictures side by side: [rows * side, columns * side, 3]."""
    side, rows = pixels.shape[2], math.ceil(len(pixels) / columns)
    filled = np.zeros((rows * columns, side, side, 3), np.uint8)
    filled[: len(pixels)] = pixels.transpose(0, 2, 3, 1)
    tiles = filled.reshape(rows, columns, side, side, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(tiles.reshape(rows * side, columns * side, 3))
