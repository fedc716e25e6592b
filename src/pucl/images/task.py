"""Runs on images: SimCLR, MoCo and CMC."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl import processes
from pucl.data.split import draw_some
from pucl.evaluation import Monitor, accuracies, embed
from pucl.frameworks.cmc import CMC
from pucl.frameworks.framework import ImageFramework
from pucl.frameworks.moco import MoCo
from pucl.frameworks.simclr import SimCLR
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.registry import load
from pucl.images.views.operators import LAB_MEAN, LAB_STD
from pucl.runs.build import build_framework
from pucl.runs.config import ORACLE, PLAIN, ImageConfig
from pucl.training.loop import module_of

MONITOR_BYTES = 2**27  # That the monitor's images may take; large images are looked at in smaller number.


class ImageTask:
    """Images, and what is made of them; see `Task`.

    Args:
        config: What to run.
        root: Where data are.
    """

    unit = "images"

    def __init__(self, config: ImageConfig, root: Path | None = None) -> None:
        self.config = config
        self.data = limited(load(config.data, root=root, image_size=config.image_size), config.limit)
        self.samples = self.data.pretrain
        self.labels = self.data.pretrain.labels
        self.notes = self.data.notes

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

    def build(self, device: torch.device, *, compiled: bool) -> ImageFramework:
        """The framework with fresh weights, which depend on the seed alone."""
        return build_framework(
            self.config, samples=len(self.samples), size=self.samples.size[0], device=device, compiled=compiled
        )

    def need_packages(self) -> None:
        """Probes of images are torch's alone."""

    def never_corrects(self, steps: int) -> str | None:
        """Say so if MoCo's queue, before which nothing is corrected, is not full before the end."""
        config = self.config
        keys = (steps - 1) * config.batch_size * (2 if config.symmetric else 1)  # Before the last step.
        if config.framework != "moco" or config.correction in (PLAIN, ORACLE) or keys >= config.queue_size:
            return None
        return (
            f"nothing will be corrected: the queue of {config.queue_size} keys is not full before the end. "
            f"Try a smaller queue_size, or more epochs"
        )

    def monitor(self, framework: ImageFramework) -> Callable[[], float] | None:
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

    def evaluate(self, framework: ImageFramework) -> tuple[dict[str, Any], dict[str, Any]]:
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

    def about(self, framework: ImageFramework) -> dict[str, Any]:
        """Encoder, sizes and colours."""
        return about_images(framework, self.config)


def about_images(framework: ImageFramework, config: ImageConfig) -> dict[str, Any]:
    """What someone needs to know who has nothing but the weights of this framework."""
    if not isinstance(framework, SimCLR | MoCo | CMC):
        raise TypeError(f"weights are kept of SimCLR, MoCo and CMC, got {type(framework).__name__}")
    size = framework.views.size
    black = np.zeros((1, 3, size, size), dtype=np.uint8)
    if isinstance(framework, CMC):
        colours, mean, std = "CIELAB: L to encoders.0, a and b to encoders.1", LAB_MEAN, LAB_STD
    else:
        colours, mean, std = "RGB in 0..1", framework.views.mean, framework.views.std
    return {
        "encoder": config.encoder,
        "stem": config.stem,
        "image_size": size,
        "features": embed(framework, black, lambda pixels: pixels).shape[1],
        "colours": colours,
        "mean": list(mean),
        "std": list(std),
    }


def limited(data: ImageData, limit: int | None) -> ImageData:
    """The data with at most so many images to train on, as evenly over the classes as they come."""
    if limit is None or limit >= len(data.pretrain):
        return data
    part = data.pretrain.subset(evenly(data.pretrain.labels, len(data.pretrain), limit))
    return replace(data, pretrain=part, train=part if data.pretrain is data.train else data.train)


def evenly(labels: NDArray[np.int64] | None, count: int, limit: int) -> NDArray[np.int64]:
    """The places of so many samples out of all, as evenly over the classes as they come."""
    if limit < 2:
        raise ValueError(f"limit is how many samples are used: expected at least 2, got {limit}")
    chosen = np.linspace(0, count - 1, limit).astype(np.int64)
    if labels is None:
        return chosen
    # By rank within the class, so that every class has its share.
    return np.sort(np.argsort(labels, kind="stable")[chosen])


def to_show(labels: NDArray[np.int64] | None, count: int, most: int) -> NDArray[np.int64]:
    """Indices of the samples that a figure shows: all, or at most so many; evenly over the classes where known.

    Unlike `evenly`, it draws unlabelled samples at random: samples that are stored class by class in turn would
    otherwise show some of their classes only.
    """
    if labels is None or count <= most:
        return draw_some(count, most)
    return evenly(labels, count, most)


def checksum(*tables: NDArray[Any] | None) -> int:
    """A number that tells these tables from others; what is not known is passed over."""
    crc = 0
    for table in tables:
        if table is not None:
            crc = zlib.crc32(np.ascontiguousarray(table).tobytes(), crc)
    return crc


def _some(images: ImageSet) -> NDArray[np.uint8]:
    """64 images out of all; a set of another size has other ones."""
    places = np.unique(np.linspace(0, len(images) - 1, 64).astype(np.int64))
    chosen: NDArray[np.uint8] = images.pixels[places]
    return chosen


def _embed_together(framework: ImageFramework, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The features of images with this framework, as it now is; processes share the work."""
    module, device = module_of(framework), next(module_of(framework).parameters()).device
    count, number = processes.world_size(), processes.rank()
    if len(pixels) < count:
        return embed(module, pixels, lambda batch: batch)
    start, stop = len(pixels) * number // count, len(pixels) * (number + 1) // count
    own = torch.from_numpy(embed(module, pixels[start:stop], lambda batch: batch)).to(device)
    features: NDArray[np.float32] = processes.gather(own, processes.gather_sizes(len(own), device)).cpu().numpy()
    return features
