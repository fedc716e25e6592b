"""Handwritten digits, 8 x 8 pixels, which come with scikit-learn: small enough to try everything in seconds."""

import numpy as np

from pucl.data.choosing import TEST_SHARE, count_held_out, order_for_split
from pucl.data.errors import ExtraMissingError
from pucl.data.source import Found, Source
from pucl.images.imageset import ImageData, ImageSet, split_tail
from pucl.images.resizing import resize_data

LARGEST = 16  # A value counts the dark pixels in a block of 4 x 4.


def read_digits(_found: Found | None = None, image_size: int | None = None) -> ImageData:
    """The 1,797 digits in three equal channels. A fifth of each class is the test set, always the same.

    Example:
        >>> data = read_digits()
        >>> len(data.train), len(data.test), data.train.size
        (1438, 359, (8, 8))
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("the digits", "scikit-learn") from error
    bunch = load_digits()
    grey = np.round(bunch.images * (255 / LARGEST)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    order, quantiles = order_for_split(labels)
    pixels = np.repeat(grey[order, None], 3, axis=1)
    every = ImageSet(pixels, labels[order], tuple(map(str, bunch.target_names)))
    return resize_data(split_tail("digits", every, count_held_out(quantiles, TEST_SHARE)), image_size)


DIGITS = Source(
    name="digits",
    samples="1,438 + 359",
    classes=10,
    size="8 x 8",
    read=read_digits,
    without_files="comes with scikit-learn",
)
