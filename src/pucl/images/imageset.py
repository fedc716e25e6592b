"""Images as one array of bytes, and the parts of a data set: for training, for fitting probes and for tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.labels import are_whole_numbers, check_labels, classes_text
from pucl.shapes import Tensor, UInt8


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size as one uint8 array, with labels if they are known.

    A batch is a slice of the array, so nothing is decoded during training. A set that is larger than memory is a
    read-only memory map.

    Args:
        pixels: uint8 [n, 3, height, width], 0..255; C-contiguous, or a read-only ``np.memmap``.
        labels: int64 [n], each an index into ``classes``; None if unknown.
        classes: Names of the classes; empty without labels.
        names: The origin of each image, such as its path inside a folder; None if its index is enough.

    Example:
        >>> images = ImageSet(np.zeros((4, 3, 8, 8), np.uint8), np.array([0, 1, 1, 0]), ("cat", "dog"))
        >>> len(images), images.subset([1, 2]).labels.tolist()
        (4, [1, 1])
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        shape = self.pixels.shape
        if self.pixels.dtype != np.uint8 or len(shape) != 4 or shape[1] != 3 or 0 in shape:
            raise DataError(
                "pixels are images as bytes: expected uint8 [n, 3, height, width] with at least one image, got "
                f"{self.pixels.dtype} {list(shape)}"
            )
        if isinstance(self.pixels, np.memmap):
            if self.pixels.flags.writeable:
                raise DataError("pixels in a memory map are shared by processes: expected a read-only map (mode 'r')")
        elif not self.pixels.flags.c_contiguous:
            raise DataError("pixels are read image by image: expected a C-contiguous array, see np.ascontiguousarray")
        if self.labels is not None:
            check_labels(self.labels, len(self), self.classes)
        if self.names is not None and len(self.names) != len(self):
            raise DataError(f"names are one for each image: expected {len(self)}, got {len(self.names)}")

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        height, width = self.size
        return f"ImageSet({len(self):,} images of {height} x {width} pixels{classes_text(self.classes)})"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.pixels.shape[2], self.pixels.shape[3]

    def batch(self, indices: NDArray[np.integer[Any]]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these indices as a tensor, in this order, for a step of training."""
        return torch.from_numpy(self.pixels[indices])

    def subset(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> "ImageSet":
        """A copy of the images at these indices, in this order."""
        chosen = np.asarray(indices)
        if chosen.ndim != 1 or not len(chosen) or not are_whole_numbers(chosen):
            raise DataError(
                f"indices choose images: expected whole numbers, at least one, got {chosen.dtype} {list(chosen.shape)}"
            )
        if chosen.min() < 0 or chosen.max() >= len(self):
            raise DataError(f"indices choose images: expected 0..{len(self) - 1}, got {chosen.min()}..{chosen.max()}")
        names = None if self.names is None else tuple(self.names[i] for i in chosen)
        labels = None if self.labels is None else self.labels[chosen]
        return ImageSet(np.asarray(self.pixels)[chosen], labels, self.classes, names)

    def span(self, start: int, stop: int) -> "ImageSet":
        """The images from ``start`` up to ``stop``, without a copy."""
        names = None if self.names is None else self.names[start:stop]
        labels = None if self.labels is None else self.labels[start:stop]
        return ImageSet(self.pixels[start:stop], labels, self.classes, names)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageData:
    """A data set in separate parts, so that nothing is trained on test images.

    Args:
        name: Its name.
        pretrain: Images to train the encoder on. Only the oracle uses their labels.
        train: Images to fit probes on.
        test: Images to score probes on; None without labels.
        folds: Indices into ``train``, if the data set prescribes that probes are fitted on several parts (STL10).
        notes: What a user should know, such as damaged pictures that were skipped.
    """

    name: str
    pretrain: ImageSet
    train: ImageSet
    test: ImageSet | None = None
    folds: tuple[NDArray[np.int64], ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.pretrain) < 2:
            raise DataError(f"{self.name} has one image to train on: expected at least two to compare")
        for part in (self.train, self.test):
            if part is not None and part.size != self.pretrain.size:
                raise DataError(f"{self.name}: parts differ in size, {self.pretrain.size} and {part.size} pixels")
        if self.test is not None and (self.train.labels is None or self.test.labels is None):
            raise DataError(
                f"{self.name} has a test set without labels: expected labels for train and test, or no test set"
            )
        if self.test is not None and self.test.classes != self.train.classes:
            raise DataError(
                f"{self.name}: train and test name different classes, {self.train.classes} and {self.test.classes}"
            )
        for number, fold in enumerate(self.folds or ()):
            if not len(fold) or fold.min() < 0 or fold.max() >= len(self.train):
                raise DataError(f"{self.name}: fold {number} must choose from the {len(self.train)} training images")

    @property
    def parts(self) -> dict[str, ImageSet]:
        """The different parts by name: train, and if they exist test and pretrain."""
        sets = {"train": self.train}
        if self.test is not None:
            sets["test"] = self.test
        if self.pretrain is not self.train:
            sets["pretrain"] = self.pretrain
        return sets

    def __repr__(self) -> str:
        height, width = self.pretrain.size
        counts = [f"{len(self.pretrain):,} pretraining"] if self.pretrain is not self.train else []
        counts.append(f"{len(self.train):,} training")
        if self.test is not None:
            counts.append(f"{len(self.test):,} test")
        return (
            f"ImageData({self.name!r}: {' + '.join(counts)} images of {height} x {width} pixels"
            f"{classes_text(self.train.classes)})"
        )


def split_tail(name: str, every: ImageSet, tests: int, notes: tuple[str, ...] = ()) -> ImageData:
    """Make a data set whose last images, if ``tests`` is not 0, are the test set."""
    border = len(every) - tests
    train = every.span(0, border)
    test = every.span(border, len(every)) if tests else None
    return ImageData(name=name, pretrain=train, train=train, test=test, notes=notes)
