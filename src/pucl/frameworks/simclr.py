"""SimCLR: the other samples of the batch are unlabelled."""

from dataclasses import dataclass

import torch
from torch import nn

from pucl import processes
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_views
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind
from pucl.images.batches import ImageBatch, ImageFramework, see
from pucl.images.config import PAPER, SMALL, ImageConfig
from pucl.images.encoders.heads import make_head
from pucl.images.encoders.registry import EncoderSource, import_first, make_encoder
from pucl.images.modality import IMAGES, ImageShape
from pucl.images.views.recipes import SimCLRViews
from pucl.shapes import Float, Tensor, UInt8
from pucl.together import pair_views_together


@dataclass(frozen=True, kw_only=True)
class SimCLRConfig(ImageConfig):
    """A run of SimCLR.

    Args:
        view_count: Views of each image.
        blur: Probability that a view is blurred.
    """

    framework: str = "simclr"
    view_count: int = 2
    blur: float = 0.5

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """The other views of the image, and all views of the other images."""
        _, others = super().pairs_met(samples)
        return self.view_count - 1, self.view_count * others


class SimCLR(ImageFramework):
    """Two or more augmented views of each image; all views of all other images are unlabelled.

    Args:
        encoder: Images to features.
        head: Features to the embeddings that are compared.
        views: How an image is augmented.
        view_count: How many views of each image; more than two give several positives.
        temperature: What cosines are divided by.

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        views: SimCLRViews,
        *,
        view_count: int = 2,
        temperature: float = 0.5,
    ) -> None:
        super().__init__()
        if view_count < 2:
            raise ValueError(f"views of one image are each other's positives: expected at least 2, got {view_count}")
        self.encoder = encoder
        self.head = head
        self.views = views
        self.view_count = view_count
        self.temperature = temperature

    def pairs(self, batch: ImageBatch) -> list[Pairs]:
        """Every view against all views, each view with batch statistics of its own."""
        embeddings = [self.head(self.encoder(see(batch, self.views))) for _ in range(self.view_count)]
        together = processes.world_size() > 1
        pair = pair_views_together if together else pair_views
        pairs = pair(embeddings, temperature=self.temperature, samples=batch.ids)
        if batch.labels is None:
            return [pairs]
        labels = batch.labels[batch.ids]
        of_all = processes.gather(labels, processes.gather_sizes(len(labels), labels.device)) if together else labels
        return [without_false_negatives(pairs, labels.repeat(self.view_count), of_all.repeat(self.view_count))]

    def forward(self, samples: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch feature"]:
        """The encoder's output for the image as it is."""
        features: Tensor = self.encoder(self.views.plain(samples))
        return features

    def look(self, samples: UInt8[Tensor, "batch 3 height width"], generator: torch.Generator) -> list[Tensor]:
        """The embeddings of two views, as the loss compares them."""
        return [self.head(self.encoder(self.views(samples, generator))) for _ in range(2)]

    def networks(self) -> list[nn.Module]:
        """The encoder."""
        return [self.encoder]

    def parts_to_compile(self) -> list[nn.Module]:
        """Encoder and head."""
        return [self.encoder, self.head]


def build(config: SimCLRConfig, shape: ImageShape, encoder: EncoderSource | None = None) -> SimCLR:
    """Make SimCLR with fresh weights, which depend on the seed alone.

    Args:
        config: What to build.
        shape: Number and size of the images.
        encoder: What makes the encoder, in place of what the configuration names.
    """
    source = config.encoder if encoder is None else encoder
    import_first(source, stem=config.stem, image_size=shape.size)
    torch.manual_seed(config.seed)
    network = make_encoder(source, stem=config.stem, width=config.width, image_size=shape.size)
    head = make_head("simclr", network.features, dim=config.dim)
    views = SimCLRViews(size=shape.size, scale=(config.crop, 1.0), flip=config.flip, blur=config.blur)
    return SimCLR(network, head, views, view_count=config.view_count, temperature=config.temperature)


SIMCLR = FrameworkKind(
    config=SimCLRConfig,
    build=build,
    modality=IMAGES,
    # chingyaoc/DCL and joshr17/HCL: Adam without a schedule, temperature 0.5, batch 256.
    reference={"temperature": 0.5, "optimiser": "adam", "learning_rate": 1e-3, "weight_decay": 1e-6},
    paper=PAPER,
    small=SMALL | {"blur": 0.0, "learning_rate": 2e-3},
)
