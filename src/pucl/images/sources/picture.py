"""Decode a picture file to a square array of bytes, whatever its mode, rotation and shape."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError, ExtraMissingError, reason_of

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".jp2", ".pbm", ".pgm", ".png", ".ppm", ".tga", ".tif", ".tiff", ".webp", ".avif")
)
"""Suffixes of picture files. Other files in a folder are skipped."""

WHITE = (255, 255, 255, 255)
DRAFT = 2  # A JPEG is decoded at a reduced size of at least this many times the target, which is faster.


def need_pillow() -> None:
    """Raise if Pillow is not installed, before work begins."""
    try:
        import PIL  # noqa: F401, PLC0415
    except ImportError as error:
        raise ExtraMissingError("reading pictures", "Pillow") from error


@contextmanager
def quiet_decoders() -> Iterator[None]:
    """Silence Pillow's warnings, for example about damaged EXIF. Serious damage still raises an error.

    Warning filters belong to the whole process, so enter this outside the threads that decode.
    """
    silent, logger = logging.NullHandler(), logging.getLogger("PIL")
    logger.addHandler(silent)  # A program with its own logging still gets the messages.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeHandler(silent)


@contextmanager
def decoding(path: Path) -> "Iterator[Image.Image]":
    """Open a picture. A damaged one raises DataError, also inside the block. If the disk fails, OSError is raised."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        with Image.open(path) as picture:
            yield picture
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)  # Pillow warns of half as many.
        reason = f"it has more than {most:,} pixels, or its header says so; if it is a picture, make it smaller"
        raise DataError(f"{path}: {reason}") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{path}: it is not a picture that Pillow can read") from error
    except MemoryError as error:
        raise DataError(f"{path}: there is not enough memory to decode it") from error
    except Exception as error:  # A damaged picture may raise any exception.
        if isinstance(error, OSError) and error.errno is not None:  # The disk failed.
            raise
        raise DataError(f"{path}: {reason_of(error)}") from error


def shorter_side(path: Path) -> int:
    """The shorter side of a picture in pixels, from its header alone."""
    with decoding(path) as picture:
        return min(picture.size)


def read_picture(path: Path, size: int) -> NDArray[np.uint8]:
    """Read a picture as uint8 [3, size, size]: upright, in RGB, its shorter side resized, its middle cut out.

    Grey becomes three equal channels, 16 bits become 8, transparent pixels become white, CMYK and palettes become RGB.
    Of several frames the first is taken. For errors see `decoding`.
    """
    from PIL import ImageOps  # noqa: PLC0415

    with decoding(path) as picture:
        picture.draft(picture.mode, (DRAFT * size, DRAFT * size))  # Only for JPEG; other formats ignore it.
        return fit_square(ImageOps.exif_transpose(picture), size)


def fit_square(picture: "Image.Image", size: int) -> NDArray[np.uint8]:
    """Convert an upright picture to uint8 [3, size, size]: resize its shorter side, then cut out the middle."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    fitted = ImageOps.fit(to_rgb(picture), (size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))


def to_rgb(picture: "Image.Image") -> "Image.Image":
    """Convert a picture to RGB. Raises ValueError for modes without a known range of values."""
    from PIL import Image  # noqa: PLC0415

    if picture.mode == "RGB":
        return picture
    if picture.mode.startswith("I"):  # 16 bits, possibly stored in 32. Pillow itself would clip them at 255.
        values = np.asarray(picture).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError(f"expected grey values of 16 bits, got {values.min()}..{values.max()}")
        return Image.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if picture.mode == "F":
        raise ValueError("pixels are floats of an unknown range; save it with 8 or 16 bits")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, WHITE), picture).convert("RGB")
    return picture.convert("RGB")
