"""The settings of runs on images."""

from dataclasses import dataclass
from typing import Any

from pucl.config import RAW, RunConfig
from pucl.contrast.pairing import check_temperature
from pucl.images.encoders.registry import is_foreign
from pucl.images.encoders.resnet import Stem

PAPER: dict[str, Any] = {"encoder": "resnet50", "epochs": 400, "batch_size": 256}
"""The size of the paper's runs, for people with accelerators."""

SMALL: dict[str, Any] = {
    "encoder": "small",
    "stem": "half",
    "epochs": 8,
    "batch_size": 128,
    "schedule": "cosine",
    "crop": 0.2,
}
"""Images of 32 x 32 on two cores in a quarter of an hour: half the resolution inside, and few steps with high rates."""

FIRST_LOOK: dict[str, dict[str, Any]] = {
    "digits": {
        "epochs": 12,
        "batch_size": 128,
        "image_size": 16,
        "stem": "half",
        "queue_size": 1024,
        "flip": 0.0,
        "crop": 0.4,
    }
}
"""By data: settings of a first look, over in a minute on a laptop. Frameworks take those that they have."""


@dataclass(frozen=True, kw_only=True)
class ImageConfig(RunConfig):
    """A run on images: the settings that all frameworks for images have.

    Args:
        image_size: Resize images to this many pixels a side; default: their own size, of pictures in a folder at most
            64.
        encoder: Name of an encoder, or ``"package.module:callable"``.
        stem: ``"small"`` for small images, ``"half"`` for the same at a quarter of the work, ``"ordinary"`` for large
            ones.
        width: Planes of the encoder's first stage; default: its usual number.
        dim: Dimension of the embeddings that are compared.
        temperature: Cosines are divided by it.
        crop: Least share of an image that a view shows.
        flip: Probability that a view is mirrored; 0 where left and right differ in meaning, as in digits.
    """

    image_size: int | None = None
    encoder: str = "small"
    stem: Stem = "small"
    width: int | None = None
    dim: int = 128
    temperature: float = 0.5
    crop: float = 0.08
    flip: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature)
        if self.correction == RAW:
            raise ValueError("raw features are a row for graphs, not for images: expected a correction, got 'raw'")

    @property
    def known_positives(self) -> str:
        """What a known positive is, in words."""
        return "two views of one image"

    @property
    def foreign_encoder(self) -> str | None:
        """The encoder's import path, if it has one."""
        return self.encoder if is_foreign(self.encoder) else None
