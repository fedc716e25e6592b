"""Handwritten digits, 8 x 8, which come with scikit-learn: small enough to try everything in seconds."""

import numpy as np

from pucl.data.errors import ExtraMissingError
from pucl.data.split import TEST_SHARE, held_back, order_for_split
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.resizing import resize_data
from pucl.images.source import Found, Source

LARGEST = 16  # The digits are counts of dark pixels in 4 x 4 blocks.


def read_digits(found: Found | None = None) -> ImageData:
    """The 1,797 digits in three equal channels, with one fifth of each class held back, always the same.

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
    border = len(every) - held_back(quantiles, TEST_SHARE)
    train = every.span(0, border)
    data = ImageData(name="digits", pretrain=train, train=train, test=every.span(border, len(every)))
    return resize_data(data, found.image_size if found else None)


DIGITS = Source(name="digits", images="1,438 + 359", classes=10, size=8, read=read_digits)
