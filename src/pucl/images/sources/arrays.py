"""Data sets from the user's arrays and ``.npz`` files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.choosing import TEST_SHARE, check_share, count_held_out, order_for_split
from pucl.data.errors import DataError
from pucl.data.labels import are_whole_numbers, check_labels
from pucl.data.npz import read_npz_arrays
from pucl.images.imageset import ImageData, ImageSet, split_tail
from pucl.images.resizing import check_image_size, resize_data

IMAGE_KEYS = ("images", "x")
LABEL_KEYS = ("labels", "y")
CLASSES_KEY = "classes"
SHOWN_KEYS = 10  # Names of arrays in an error.
MOST_CLASSES = 100_000  # Labels that are dates or hashes would need too many names.


def to_pixels(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert images in any usual layout to uint8 [n, 3, height, width].

    Args:
        images: [n, h, w], [n, h, w, c] or [n, c, h, w] with 1 or 3 channels; uint8, or floats in 0..1.

    Example:
        >>> to_pixels(np.ones((5, 8, 8))).shape
        (5, 3, 8, 8)
    """
    return _in_colour(_as_bytes(images))


def _as_bytes(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert images to uint8 [n, 1 or 3, height, width]."""
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4:
        first, last = images.shape[1] in (1, 3), images.shape[3] in (1, 3)
        if first == last:
            problem = "both axes could be the channels" if first else "neither axis has length 1 or 3"
            raise DataError(
                f"images have 1 or 3 channels as second or last axis, got the shape {list(images.shape)}: {problem}"
            )
        images = images if first else images.transpose(0, 3, 1, 2)
    else:
        raise DataError(
            f"images are [n, h, w], [n, h, w, c] or [n, c, h, w]: expected 3 or 4 axes, got {list(images.shape)}"
        )
    if 0 in images.shape:
        raise DataError(f"images are at least one, of at least one pixel, got the shape {list(images.shape)}")
    if np.issubdtype(images.dtype, np.floating):
        lowest, highest = images.min(), images.max()
        if not (lowest >= 0 and highest <= 1):  # In this form it refuses NaN too.
            raise DataError(f"images as floats lie in 0..1, as bytes in 0..255; got floats in {lowest:g}..{highest:g}")
        images = np.round(images * images.dtype.type(255)).astype(np.uint8)
    elif images.dtype != np.uint8:
        raise DataError(f"images are uint8 in 0..255 or floats in 0..1, got {images.dtype}")
    return images


def _in_colour(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.broadcast_to(pixels, (len(pixels), 3, *pixels.shape[2:])))


def from_array(
    images: NDArray[Any],
    labels: NDArray[Any] | Sequence[int] | None = None,
    *,
    classes: Sequence[str] | None = None,
    name: str = "array",
    image_size: int | None = None,
    test_share: float = TEST_SHARE,
) -> ImageData:
    """Make a data set from arrays. If there are labels, a share of each class is held out for tests.

    Args:
        images: See `to_pixels`.
        labels: The class of each image, counted from 0.
        classes: Names of the classes; default: the numbers up to the highest label.
        name: Name of the data set in reports.
        image_size: Resize images to this many pixels a side; default: their own size.
        test_share: Share of each class to hold out, 0 <= share < 1.

    Example:
        >>> data = from_array(np.zeros((10, 8, 8, 3), np.uint8), [0, 1] * 5)
        >>> len(data.pretrain), len(data.test)
        (8, 2)
    """
    check_share(test_share)
    if image_size is not None:
        check_image_size(image_size)
    pixels = _as_bytes(images)
    if labels is None:
        every = ImageSet(_in_colour(pixels))
        return resize_data(ImageData(name=name, pretrain=every, train=every), image_size)
    numbers = np.asarray(labels)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if not are_whole_numbers(numbers) or numbers.shape != (len(pixels),):
        raise DataError(
            f"labels are one whole number for each image: expected [{len(pixels)}], got {numbers.dtype} "
            f"{list(numbers.shape)}"
        )
    if numbers.max() > np.iinfo(np.int64).max:
        raise DataError(f"labels count classes from 0: expected less than {MOST_CLASSES:,}, got {numbers.max()}")
    if classes is None:
        if numbers.min() < 0:
            raise DataError(f"labels count classes from 0, got {numbers.min()}; leave out images without a label")
        if numbers.max() >= MOST_CLASSES:
            raise DataError(f"labels count classes from 0: expected less than {MOST_CLASSES:,}, got {numbers.max()}")
        classes = [str(number) for number in range(int(numbers.max()) + 1)]
    numbers = numbers.astype(np.int64)
    check_labels(
        numbers, len(pixels), tuple(classes)
    )  # Before the order changes, so that an error has the user's index.
    order, quantiles = order_for_split(numbers)
    # Reorder before grey becomes three channels: this needs a third of the memory.
    every = ImageSet(_in_colour(pixels[order]), numbers[order], tuple(classes), tuple(map(str, order)))
    return resize_data(split_tail(name, every, count_held_out(quantiles, test_share)), image_size)


def read_npz(path: Path, image_size: int | None = None, test_share: float = TEST_SHARE) -> ImageData:
    """Read a ``.npz`` file with arrays ``images`` or ``x`` and optionally ``labels`` or ``y``, and ``classes``."""
    arrays, keys = read_npz_arrays(path, {*IMAGE_KEYS, *LABEL_KEYS, CLASSES_KEY})
    images = next((arrays[key] for key in IMAGE_KEYS if key in arrays), None)
    if images is None:
        raise DataError(f"{path} has no images: expected an array {' or '.join(IMAGE_KEYS)}, got {_some_of(keys)}")
    labels = next((arrays[key] for key in LABEL_KEYS if key in arrays), None)
    try:
        classes = _class_names(arrays[CLASSES_KEY]) if CLASSES_KEY in arrays else None
        return from_array(images, labels, classes=classes, name=path.stem, image_size=image_size, test_share=test_share)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except MemoryError as error:
        raise DataError(f"{path}: its {len(images):,} images do not fit into memory") from error


def _class_names(classes: NDArray[Any]) -> list[str]:
    """Read names of classes from an array of text or whole numbers."""
    if classes.ndim != 1 or not (classes.dtype.kind in "SU" or are_whole_numbers(classes)):
        raise DataError(
            f"classes are the names of the classes: expected text [classes], got {classes.dtype} {list(classes.shape)}"
        )
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"classes are the names of the classes: expected at most {MOST_CLASSES:,}, got {len(classes):,}"
        )
    try:
        names = [each.decode() if isinstance(each, bytes) else str(each) for each in classes.tolist()]
        "".join(names).encode()
    except (ValueError, SystemError) as error:  # Invalid bytes or code points.
        raise DataError(f"classes are the names of the classes: expected text in Unicode: {error}") from error
    return names


def _some_of(keys: Sequence[str]) -> str:
    shown = ", ".join(ascii(key)[1:-1] for key in keys[:SHOWN_KEYS])
    return f"{shown} and {len(keys) - SHOWN_KEYS} more" if len(keys) > SHOWN_KEYS else shown or "none"
