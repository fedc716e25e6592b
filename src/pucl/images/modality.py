"""Images as a modality: this file names all its parts.

Data sources are in `registry` and `sources`, random views in `views`, encoders in `encoders`. `config` has the settings
of a run and the probes that do not fit. `task` has the data of a run and the thumbnails of a page. `trained` has the
encoder of a finished run.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

from pucl.images.config import RECIPES_OF_IMAGES, ImageConfig, ImageViewConfig
from pucl.images.encoders.registry import Encoder, make_encoder
from pucl.images.registry import SOURCES
from pucl.images.task import ImageShape, ImageTask
from pucl.images.trained import TrainedImages
from pucl.images.views.augmentations import SimCLRViews
from pucl.modality import EncoderSource, Modality
from pucl.records import conform


class _About(TypedDict):
    image_size: int
    features: int


def _shape_of(about: Mapping[str, Any]) -> ImageShape:
    return ImageShape(size=conform(about, _About, "its note")["image_size"], samples=2)  # Finished runs need no bank.


def _revive(config: ImageConfig, framework: Any, about: Mapping[str, Any]) -> TrainedImages:
    return TrainedImages(config, framework, image_size=about["image_size"], features=about["features"])


def _make_encoder(config: ImageConfig, shape: ImageShape, source: EncoderSource | None) -> Encoder:
    source = config.encoder if source is None else source
    return make_encoder(
        source,
        stem=config.stem,
        width=config.width,
        scales=config.scales,
        image_sizes=config.sizes_to_see(shape.size),
        pretrained=config.pretrained,
    )


def _make_views(config: ImageViewConfig, shape: ImageShape) -> SimCLRViews:
    expected = config.expected_images
    colours = {} if expected is None else {"mean": expected.mean, "std": expected.std}
    size = config.size_to_see(shape.size)
    return SimCLRViews(size=size, crop=config.crop, flip=config.flip, coarse=config.coarse, blur=config.blur, **colours)


IMAGES = Modality(
    name="images",
    unit="image",
    word="pictures",
    config=ImageViewConfig,
    sources=SOURCES,
    find_source=SOURCES.get,
    paths="a folder of pictures (its sub-folders are classes), or a .npz file",
    columns=("training + test images", "classes", "size"),
    reads=lambda path: path.is_dir() or path.suffix == ".npz",
    open=ImageTask,
    shape_of=_shape_of,
    revive=_revive,
    make_encoder=_make_encoder,
    make_views=_make_views,
    probed_on="the test images",
    labels_needed="in training and test images",
    hub_task="image-feature-extraction",
    recipes=RECIPES_OF_IMAGES,
)

__all__ = ["IMAGES", "ImageShape"]
