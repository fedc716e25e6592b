"""The images of a run: how they are loaded, embedded, probed and shown."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pucl import processes
from pucl.data.choosing import checksum, evenly
from pucl.evaluation import PROBES, Labelled, Monitor, measure, train_and_test
from pucl.evaluation.monitor import held_out
from pucl.images.config import ImageConfig
from pucl.images.embedding import embed, embed_together
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.registry import load
from pucl.images.thumbnails import sheet
from pucl.samples import EmbeddedSamples, Sheet

MONITOR_BYTES = 2**27  # Memory for the images of the monitor; it limits the number of large images.


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """The shape of images, for which a framework is built.

    Args:
        size: Side in pixels.
        samples: Number of images in the data. A bank has an entry for each.
    """

    size: int
    samples: int


class ImageTask:
    """The images of a run; see `pucl.modality.Task`."""

    def __init__(self, config: ImageConfig, root: Path | None = None) -> None:
        self.config = config
        data = load(config.data, root=root, image_size=config.size_to_load)
        self.data = limited(with_validation(data) if config.validation else data, config.limit)
        self.samples = self.data.pretrain
        self.labels = self.data.pretrain.labels
        self.names = self.samples.names
        self.notes = self.data.notes + (config.skipped_probes() if self.can_be_probed() else ())

    @property
    def shape(self) -> ImageShape:
        """Number and size of the images."""
        return ImageShape(samples=len(self.samples), size=self.samples.size[0])

    @property
    def embedded(self) -> EmbeddedSamples:
        """The training images."""
        images = self.data.train
        return EmbeddedSamples(count=len(images), labels=images.labels, classes=images.classes, names=images.names)

    def fingerprint(self) -> dict[str, Any]:
        """Numbers that distinguish these images from others, without reading them all."""
        data = self.data
        return {
            "samples": len(self.samples),
            "size": list(self.samples.size),
            "crc": checksum(_some(self.samples)),
            "labels": checksum(self.samples.labels, data.train.labels),
            "test": None if data.test is None else checksum(_some(data.test), data.test.labels),
        }

    def need_packages(self) -> None:
        """Raise if a package is missing that a probe needs."""
        if self.can_be_probed():
            for probe in self.config.choose_probes().values():
                probe.need_packages()

    def monitor(self, framework: nn.Module) -> Callable[[], dict[str, float]] | None:
        """Measure embeddings of training images."""
        images = self.data.train
        if images.labels is None:
            return None
        monitor = Monitor(images.labels, most=MONITOR_BYTES // images.pixels[0].nbytes)
        if not monitor.possible:
            return None
        pixels = images.pixels[monitor.indices]
        return lambda: monitor.measure(embed_together(framework, pixels), PROBES)

    def can_be_probed(self) -> bool:
        """Whether training and test images have labels, of at least two classes."""
        if self.data.test is None or self.data.test.labels is None or self.data.train.labels is None:
            return False
        return len(np.unique(self.data.train.labels)) > 1

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fit probes on the training images and test them on the test images; return the features too."""
        data = self.data
        train = embed_together(framework, data.train.pixels)
        embeddings: dict[str, Any] = {"train": train}
        if data.test is None or data.train.labels is None or data.test.labels is None or not self.can_be_probed():
            return {}, embeddings
        test = embed_together(framework, data.test.pixels)
        embeddings |= {"test": test, "train_labels": data.train.labels, "test_labels": data.test.labels}
        samples = train_and_test(Labelled(train, data.train.labels), Labelled(test, data.test.labels), data.folds)
        scores = processes.from_first(lambda: measure(samples, self.config.choose_probes()))
        return scores, embeddings

    def about(self, framework: Any) -> dict[str, Any]:
        """Encoder, image size, dimension of the features, and colours."""
        size = self.shape.size
        black = np.zeros((1, 3, size, size), dtype=np.uint8)
        return {
            "encoder": self.config.encoder,
            "stem": self.config.stem,
            "image_size": size,
            "features": embed(framework, black).shape[1],
            **framework.views.about(),
        }

    def thumbnails(self, indices: NDArray[np.int64], budget: int) -> tuple[Sheet, str]:
        """Put images on one sheet."""
        return sheet(np.asarray(self.data.train.pixels[indices]), budget), ""


def with_validation(data: ImageData) -> ImageData:
    """Test on one in five training images of each class, which are then not trained on, instead of the test images."""
    if data.train.labels is None or data.pretrain is not data.train:
        raise ValueError(
            f"validation holds some of the labelled images out of the training: expected data whose training images "
            f"all have labels, got {data.name}; leave --validation out"
        )
    held = held_out(data.train.labels)
    rest = data.train.subset(np.flatnonzero(~held))
    return replace(data, pretrain=rest, train=rest, test=data.train.subset(np.flatnonzero(held)))


def limited(data: ImageData, limit: int | None) -> ImageData:
    """Keep at most ``limit`` images to train on, evenly from all classes; None keeps all."""
    if limit is None or limit >= len(data.pretrain):
        return data
    part = data.pretrain.subset(evenly(data.pretrain.labels, len(data.pretrain), limit))
    return replace(data, pretrain=part, train=part if data.pretrain is data.train else data.train)


def _some(images: ImageSet) -> NDArray[np.uint8]:
    """64 of all images, evenly spaced."""
    indices = np.unique(np.linspace(0, len(images) - 1, 64).astype(np.int64))
    chosen: NDArray[np.uint8] = images.pixels[indices]
    return chosen
