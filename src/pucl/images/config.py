"""The settings of runs on images."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pucl.config import RunConfig
from pucl.images.encoders.registry import ARCHITECTURES, is_foreign
from pucl.images.encoders.resnet import Stem
from pucl.images.encoders.timm_models import ExpectedImages, expected_images, is_timm
from pucl.images.views.augmentations import half_of
from pucl.recipe import Recipes
from pucl.settings import setting

RECIPES_OF_IMAGES = Recipes(
    # For accelerators.
    paper={"encoder": "resnet50", "epochs": 400, "batch_size": 256},
    # Images of 32 x 32 pixels on two cores in a quarter of an hour: half the resolution, few steps, high rates.
    small={"encoder": "small", "stem": "half", "epochs": 8, "batch_size": 128, "schedule": "cosine", "crop": 0.2},
    # A minute on a laptop.
    first_look={
        "digits": {
            "epochs": 12,
            "batch_size": 128,
            "image_size": 16,
            "stem": "half",
            "queue_size": 1024,
            "flip": 0.0,
            "crop": 0.4,
        }
    },
)


@dataclass(frozen=True, kw_only=True)
class ImageConfig(RunConfig):
    """A run on images: the settings that all frameworks for images have."""

    unfit_probes: ClassVar[tuple[str, ...]] = ("svm", "svm_scaled")  # Kernels of 50,000 images do not fit in memory.

    modality: str = "images"
    image_size: int | None = setting(
        None,
        "resize images to this many pixels a side; default: their own size, at most 64 for a folder, or that of a "
        "model of timm",
        group="data",
    )
    validation: bool = setting(
        False,
        "test on a fifth of the training images, which are then not trained on: to choose settings without test images",
        group="data",
    )
    encoder: str = setting(
        "small",
        "encoder by name, timm:NAME for a model of timm, or package.module:callable for one of your own",
        group="encoder",
        choices=lambda _: ARCHITECTURES,
    )
    pretrained: bool = setting(
        False, "start from the published weights of a model of timm, which are downloaded", group="encoder"
    )
    stem: Stem = setting(
        "small",
        "first layers: small keeps the resolution, half divides it by 2 (a quarter of the work), ordinary by 4 (for "
        "large images)",
        group="encoder",
    )
    width: int | None = setting(
        None, "channels of the encoder's first stage; default: the architecture's own", group="encoder"
    )
    scales: int = setting(
        1, "how many of the last stages of the encoder give features, their means side by side", group="encoder"
    )
    crop: float = setting(0.08, "smallest share of an image that a view shows", group="views")
    flip: float = setting(
        0.5, "probability that a view is mirrored; 0 where left and right differ, as in digits", group="views"
    )
    coarse: float = setting(
        0.0,
        "share of the training, from its start, whose views have half the side: a step takes about a third of the time",
        group="views",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretrained and not is_timm(self.encoder):
            raise ValueError(
                f"pretrained starts from the published weights of a model of timm: expected encoder timm:NAME, got "
                f"{self.encoder}"
            )

    @property
    def known_positives(self) -> str:
        """What a known positive is, in words."""
        return "two views of one image"

    @property
    def expected_images(self) -> ExpectedImages | None:
        """The images that the encoder was made for; None for an encoder that takes them as they are."""
        return expected_images(self.encoder) if is_timm(self.encoder) else None

    @property
    def size_to_load(self) -> int | None:
        """The side to which images are resized once, before all views; None for none.

        Pictures of a folder are reduced when they are read. An encoder that was made for larger ones needs them.
        """
        expected = self.expected_images if self.image_size is None and Path(self.data).is_dir() else None
        return self.image_size if expected is None else expected.size

    def size_to_see(self, size: int) -> int:
        """The side of the views of images that have this size."""
        expected = self.expected_images if self.image_size is None else None
        return size if expected is None else expected.size

    def sizes_to_see(self, size: int) -> tuple[int, ...]:
        """All sides that the views of images of this size have in a training."""
        seen = self.size_to_see(size)
        return (seen, half_of(seen)) if self.coarse else (seen,)

    @property
    def fetched_model(self) -> str | None:
        """The model of timm, if its published weights are wanted."""
        return self.encoder if self.pretrained else None

    def for_encoding(self) -> RunConfig:
        """Without published weights: those of the run are loaded."""
        return replace(super().for_encoding(), pretrained=False)  # type: ignore[call-arg]

    @property
    def foreign_encoder(self) -> str | None:
        """The encoder's import path, if it has one."""
        return self.encoder if is_foreign(self.encoder) else None


@dataclass(frozen=True, kw_only=True)
class ImageViewConfig(ImageConfig):
    """A run on images whose random views are SimCLR's."""

    blur: float = setting(0.5, "probability that a view is blurred", group="views")
