"""One picture file as bytes of one size, whatever its mode, rotation and proportions."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pucl.data.images import ExtraMissingError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".jp2", ".pbm", ".pgm", ".png", ".ppm", ".tga", ".tif", ".tiff", ".webp", ".avif")
)
"""Names of picture files end so; others in a folder are left alone."""

WHITE = (255, 255, 255, 255)
DRAFT = 2  # A JPEG may be decoded at a fraction of its size, as long as this many times the wanted size is left.


def need_pillow() -> None:
    """Say what is missing before work is begun."""
    try:
        import PIL  # noqa: F401, PLC0415
    except ImportError as error:
        raise ExtraMissingError("reading pictures", "Pillow") from error


def shorter_side(path: Path) -> int:
    """The shorter side of a picture in pixels, from its header alone."""
    from PIL import Image  # noqa: PLC0415

    with Image.open(path) as picture:
        return min(picture.size)


def read_picture(path: Path, size: int) -> NDArray[np.uint8]:
    """A picture as uint8 [3, size, size]: turned upright, in RGB, shorter side to ``size``, the square in the middle.

    Grey becomes three equal channels, 16 bits become 8, what is transparent becomes white, CMYK and palettes become
    RGB; of several frames the first is taken.
    """
    from PIL import Image, ImageOps  # noqa: PLC0415

    with Image.open(path) as picture:
        picture.draft(picture.mode, (DRAFT * size, DRAFT * size))  # Only JPEG can; the others ignore it.
        upright = to_rgb(ImageOps.exif_transpose(picture))
    fitted = ImageOps.fit(upright, (size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))


def to_rgb(picture: "Image.Image") -> "Image.Image":
    """The picture in RGB; raises ValueError for modes without a known range of values."""
    from PIL import Image  # noqa: PLC0415

    if picture.mode == "RGB":
        return picture
    if picture.mode.startswith("I"):  # 16 bits, or 32 that hold 16: Pillow itself would cut them off at 255.
        values = np.asarray(picture).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError(f"grey values of 16 bits are expected, got {values.min()}..{values.max()}")
        return Image.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if picture.mode == "F":
        raise ValueError("pixels are floats, and what is white is not known; save it with 8 or 16 bits")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, WHITE), picture).convert("RGB")
    return picture.convert("RGB")
