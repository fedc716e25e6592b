"""Images as a modality."""

from collections.abc import Mapping
from typing import Any, TypedDict

from pucl.images.config import FIRST_LOOK, ImageConfig
from pucl.images.registry import SOURCES
from pucl.images.task import ImageShape, ImageTask
from pucl.images.trained import TrainedImages
from pucl.modality import Modality
from pucl.records import conform


class _About(TypedDict):
    image_size: int
    features: int


def _shape_of(about: Mapping[str, Any]) -> ImageShape:
    return ImageShape(size=conform(about, _About, "its note")["image_size"], samples=2)  # A bank is of no use any more.


def _revive(config: ImageConfig, framework: Any, about: Mapping[str, Any]) -> TrainedImages:
    return TrainedImages(config, framework, image_size=about["image_size"], features=about["features"])


IMAGES = Modality(
    name="images",
    unit="image",
    word="pictures",
    knows=SOURCES.__contains__,
    open=ImageTask,
    shape_of=_shape_of,
    revive=_revive,
    probed_on="the test images",
    labels_needed="in training and test images",
    first_look=FIRST_LOOK,
)

__all__ = ["IMAGES", "ImageShape"]
