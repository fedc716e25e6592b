"""One picture file as bytes of one size, whatever its mode, rotation and proportions."""

import ctypes
import io
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
"""Names of picture files end so; others in a folder are left alone."""

WHITE = (255, 255, 255, 255)
DRAFT = 2  # A JPEG may be decoded at a fraction of its size, as long as this many times the wanted size is left.


def need_pillow() -> None:
    """Say what is missing before work is begun."""
    try:
        import PIL  # noqa: F401, PLC0415
    except ImportError as error:
        raise ExtraMissingError("reading pictures", "Pillow") from error


@contextmanager
def quiet_decoders() -> Iterator[None]:
    """Print nothing of the oddities that decoders warn of, such as damaged EXIF: what matters is raised as an error.

    Warnings are a setting of the whole process, so enter this outside of the threads that decode.
    """
    silent, logger = logging.NullHandler(), logging.getLogger("PIL")
    logger.addHandler(silent)  # A program that set up logging still gets these messages.
    try:
        with warnings.catch_warnings(), _quiet_libtiff():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeHandler(silent)


@contextmanager
def _quiet_libtiff() -> Iterator[None]:
    """Turn off what libtiff writes straight to the error stream; it returns errors as well, and those are raised.

    Pillow's own module is linked with libtiff, so the function is found through it. On Windows it is not found, and
    libtiff writes on.
    """
    try:
        from PIL import _imaging  # noqa: PLC0415

        set_handler = ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler
    except (ImportError, OSError, AttributeError):
        yield
        return
    set_handler.argtypes, set_handler.restype = [ctypes.c_void_p], ctypes.c_void_p
    before = set_handler(None)
    try:
        yield
    finally:
        set_handler(before)


@contextmanager
def decoding(path: Path, source: io.BytesIO | None = None) -> "Iterator[Image.Image]":
    """An open picture. Whatever is wrong with it is a DataError, also inside the block.

    Args:
        path: The file.
        source: Its content, where that was read already.

    Raises:
        DataError: If it cannot be decoded.
        OSError: If the disk does not answer.
    """
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        with Image.open(source or path) as picture:
            yield picture
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)  # Up to twice as many it warns.
        reason = f"it has more than {most:,} pixels, or pretends to; scale it down if it is a picture"
        raise DataError(f"{path}: {reason}") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{path}: it is not a picture that can be read, whatever its name says") from error
    except MemoryError as error:
        raise DataError(f"{path}: it is too large to be decoded in this memory") from error
    except Exception as error:  # Decoders fail in many ways, and each means that this picture is damaged,
        if isinstance(error, OSError) and error.errno is not None:  # unless it is the disk that does not answer.
            raise
        raise DataError(f"{path}: {reason_of(error)}") from error


def shorter_side(path: Path) -> int:
    """The shorter side of a picture in pixels, from its header alone."""
    with decoding(path) as picture:
        return min(picture.size)


def read_picture(path: Path, size: int) -> NDArray[np.uint8]:
    """A picture as uint8 [3, size, size]: turned upright, in RGB, shorter side to ``size``, the square in the middle.

    Grey becomes three equal channels, 16 bits become 8, what is transparent becomes white, CMYK and palettes become
    RGB; of several frames the first is taken. Errors are those of `decoding`.
    """
    from PIL import ImageOps  # noqa: PLC0415

    with decoding(path) as picture:
        picture.draft(picture.mode, (DRAFT * size, DRAFT * size))  # Only JPEG can; the others ignore it.
        return fit_square(ImageOps.exif_transpose(picture), size)


def fit_square(picture: "Image.Image", size: int) -> NDArray[np.uint8]:
    """An upright picture as uint8 [3, size, size]: shorter side to ``size``, then the square in the middle."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    fitted = ImageOps.fit(to_rgb(picture), (size, size), Image.Resampling.BILINEAR)
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
