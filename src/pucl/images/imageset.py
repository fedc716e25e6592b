"""Pictures as one array of bytes, and what a training and its probes take from a data set."""

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
    """Pictures of one size as one uint8 array, with labels where they are known.

    A batch is a slice of the array, so nothing is decoded while training. A set that is larger than memory is a
    read-only memory map.

    Args:
        pixels: uint8 [n, 3, height, width], 0..255; C-contiguous, or a read-only ``np.memmap``.
        labels: int64 [n], each an index into ``classes``; None where they are not known.
        classes: Names of the classes; empty where there are no labels.
        names: Where each picture came from, e.g. its path inside a folder; None where the row number says it all.

    Example:
        >>> pictures = ImageSet(np.zeros((4, 3, 8, 8), np.uint8), np.array([0, 1, 1, 0]), ("cat", "dog"))
        >>> len(pictures), pictures.subset([1, 2]).labels.tolist()
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
                "pixels are pictures as bytes: expected uint8 [n, 3, height, width] with at least one picture, got "
                f"{self.pixels.dtype} {list(shape)}"
            )
        if isinstance(self.pixels, np.memmap):
            if self.pixels.flags.writeable:
                raise DataError(
                    "pixels are shared by all that train on them: expected a read-only memory map (mode 'r')"
                )
        elif not self.pixels.flags.c_contiguous:
            raise DataError("pixels are read row by row: expected a C-contiguous array, see np.ascontiguousarray")
        if self.labels is not None:
            check_labels(self.labels, len(self), self.classes)
        if self.names is not None and len(self.names) != len(self):
            raise DataError(f"names are one for each picture: expected {len(self)}, got {len(self.names)}")

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        height, width = self.size
        return f"ImageSet({len(self):,} pictures of {height} x {width} pixels{classes_text(self.classes)})"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.pixels.shape[2], self.pixels.shape[3]

    def batch(self, indices: NDArray[np.integer[Any]]) -> UInt8[Tensor, "batch 3 height width"]:
        """The pictures with these numbers as a tensor, in this order: what a step of a training takes."""
        return torch.from_numpy(self.pixels[indices])

    def subset(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> "ImageSet":
        """The pictures with these numbers, copied, in this order."""
        chosen = np.asarray(indices)
        if chosen.ndim != 1 or not len(chosen) or not are_whole_numbers(chosen):
            raise DataError(
                "indices choose pictures: expected whole numbers, at least one, got "
                f"{chosen.dtype} {list(chosen.shape)}"
            )
        if chosen.min() < 0 or chosen.max() >= len(self):
            raise DataError(f"indices choose pictures: expected 0..{len(self) - 1}, got {chosen.min()}..{chosen.max()}")
        return ImageSet(
            np.ascontiguousarray(np.asarray(self.pixels)[chosen]),
            None if self.labels is None else self.labels[chosen],
            self.classes,
            None if self.names is None else tuple(self.names[i] for i in chosen),
        )

    def span(self, start: int, stop: int) -> "ImageSet":
        """The pictures from ``start`` up to ``stop``, without a copy."""
        return ImageSet(
            self.pixels[start:stop],
            None if self.labels is None else self.labels[start:stop],
            self.classes,
            None if self.names is None else self.names[start:stop],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageData:
    """A data set in the parts that an experiment needs, so that no one trains on what is tested.

    Args:
        name: What the user called it.
        pretrain: What the encoder is trained on; its labels are not looked at, save by the oracle.
        train: What probes are fitted on.
        test: What probes are scored on; None where there are no labels.
        folds: Rows of ``train``, where the data set prescribes on which parts probes are fitted in turn (STL10).
        notes: What a user should know, e.g. damaged pictures that were skipped.
    """

    name: str
    pretrain: ImageSet
    train: ImageSet
    test: ImageSet | None = None
    folds: tuple[NDArray[np.int64], ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.pretrain) < 2:
            raise DataError(
                f"{self.name} has one picture to train on; a picture is compared with others: expected two at least"
            )
        for part in (self.train, self.test):
            if part is not None and part.size != self.pretrain.size:
                raise DataError(f"{self.name}: parts differ in size, {self.pretrain.size} and {part.size} pixels")
        if self.test is not None and (self.train.labels is None or self.test.labels is None):
            raise DataError(f"{self.name}: to be tested, pictures to fit on and to score on must both have labels")
        if self.test is not None and self.test.classes != self.train.classes:
            raise DataError(
                f"{self.name}: train and test name different classes, {self.train.classes} and {self.test.classes}"
            )
        for number, fold in enumerate(self.folds or ()):
            if not len(fold) or fold.min() < 0 or fold.max() >= len(self.train):
                raise DataError(f"{self.name}: fold {number} must choose from the {len(self.train)} training pictures")

    def __repr__(self) -> str:
        height, width = self.pretrain.size
        counts = [f"{len(self.pretrain):,} pretraining"] if self.pretrain is not self.train else []
        counts.append(f"{len(self.train):,} training")
        if self.test is not None:
            counts.append(f"{len(self.test):,} test")
        return (
            f"ImageData({self.name!r}: {' + '.join(counts)} pictures of {height} x {width} pixels"
            f"{classes_text(self.train.classes)})"
        )
