"""The images of a run, and what is done with them before and after the training."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl import processes
from pucl.data.choosing import checksum, evenly
from pucl.evaluation import Monitor, accuracies, embed
from pucl.images.config import ImageConfig
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.registry import load
from pucl.images.thumbnails import sheet
from pucl.modality import EmbeddedSamples

MONITOR_BYTES = 2**27  # That the monitor's images may take; large images are looked at in smaller number.


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """For which images a framework is built.

    Args:
        size: Side in pixels.
        samples: Images in the data, of which a bank has an entry each.
    """

    size: int
    samples: int


class ImageTask:
    """Images, and what is made of them; see `Task`.

    Args:
        config: What to run.
        root: Where data are.
    """

    def __init__(self, config: ImageConfig, root: Path | None = None) -> None:
        self.config = config
        self.data = limited(load(config.data, root=root, image_size=config.image_size), config.limit)
        self.samples = self.data.pretrain
        self.labels = self.data.pretrain.labels
        self.notes = self.data.notes

    @property
    def shape(self) -> ImageShape:
        """Number and size of the images."""
        return ImageShape(samples=len(self.samples), size=self.samples.size[0])

    @property
    def embedded(self) -> EmbeddedSamples:
        """The training images."""
        images = self.data.train
        return EmbeddedSamples(count=len(images), labels=images.labels, classes=images.classes)

    def fingerprint(self) -> dict[str, Any]:
        """What tells these images from others, without reading them all."""
        data = self.data
        return {
            "samples": len(self.samples),
            "size": list(self.samples.size),
            "crc": checksum(_some(self.samples)),
            "labels": checksum(self.samples.labels, data.train.labels),
            "test": None if data.test is None else checksum(_some(data.test), data.test.labels),
        }

    def need_packages(self) -> None:
        """Probes of images are torch's alone."""

    def monitor(self, framework: nn.Module) -> Callable[[], float] | None:
        """Nearest neighbours among the training images."""
        images = self.data.train
        if images.labels is None:
            return None
        monitor = Monitor(images.labels, most=MONITOR_BYTES // images.pixels[0].nbytes)
        if not monitor.possible:
            return None
        held = images.pixels[monitor.places]
        return lambda: monitor.accuracy(_embed_together(framework, held))

    def can_be_probed(self) -> bool:
        """Whether there are labels to go by: of two classes at least, in training and test images."""
        if self.data.test is None or self.data.test.labels is None or self.data.train.labels is None:
            return False
        return len(np.unique(self.data.train.labels)) > 1

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        """Linear classifier and nearest neighbours on the test images, and the features themselves."""
        data = self.data
        train = _embed_together(framework, data.train.pixels)
        embeddings: dict[str, Any] = {"train": train}
        if data.test is None or data.train.labels is None or data.test.labels is None or not self.can_be_probed():
            return {}, embeddings
        test = _embed_together(framework, data.test.pixels)
        embeddings |= {"test": test, "train_labels": data.train.labels, "test_labels": data.test.labels}
        labels, test_labels = data.train.labels, data.test.labels
        scores = processes.from_first(lambda: accuracies(train, labels, test, test_labels, folds=data.folds))
        return dict(scores), embeddings

    def about(self, framework: Any) -> dict[str, Any]:
        """Encoder, sizes and colours."""
        size = self.shape.size
        black = np.zeros((1, 3, size, size), dtype=np.uint8)
        return {
            "encoder": self.config.encoder,
            "stem": self.config.stem,
            "image_size": size,
            "features": embed(framework, black, lambda pixels: pixels).shape[1],
            **framework.views.about(),
        }

    def thumbnails(self, indices: NDArray[np.int64], budget: int) -> tuple[dict[str, Any], str]:
        """The images on one sheet."""
        return {"kind": "sheet"} | sheet(np.asarray(self.data.train.pixels[indices]), budget), ""


def limited(data: ImageData, limit: int | None) -> ImageData:
    """The data with at most so many images to train on, as evenly over the classes as they come."""
    if limit is None or limit >= len(data.pretrain):
        return data
    part = data.pretrain.subset(evenly(data.pretrain.labels, len(data.pretrain), limit))
    return replace(data, pretrain=part, train=part if data.pretrain is data.train else data.train)


def _some(images: ImageSet) -> NDArray[np.uint8]:
    """64 images out of all; a set of another size has other ones."""
    places = np.unique(np.linspace(0, len(images) - 1, 64).astype(np.int64))
    chosen: NDArray[np.uint8] = images.pixels[places]
    return chosen


def _embed_together(framework: nn.Module, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The features of images with this framework, as it now is; processes share the work."""
    device = next(framework.parameters()).device
    count, number = processes.world_size(), processes.rank()
    if len(pixels) < count:
        return embed(framework, pixels, lambda batch: batch)
    start, stop = len(pixels) * number // count, len(pixels) * (number + 1) // count
    own = torch.from_numpy(embed(framework, pixels[start:stop], lambda batch: batch)).to(device)
    features: NDArray[np.float32] = processes.gather(own, processes.gather_sizes(len(own), device)).cpu().numpy()
    return features
