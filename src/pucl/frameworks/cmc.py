"""CMC: a bank of all samples, seen from the other view, is unlabelled."""

from dataclasses import dataclass

import torch
from torch import nn

from pucl import processes
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind
from pucl.images.batches import ImageBatch, ImageFramework, see
from pucl.images.config import PAPER, SMALL, ImageConfig
from pucl.images.encoders.heads import make_head
from pucl.images.encoders.registry import ARCHITECTURES, EncoderSource, import_first, make_encoder
from pucl.images.modality import IMAGES, ImageShape
from pucl.images.views.recipes import CMCViews
from pucl.memory import Bank
from pucl.shapes import Float, Int, Tensor, UInt8


@dataclass(frozen=True, kw_only=True)
class CMCConfig(ImageConfig):
    """A run of CMC.

    Args:
        draws: Entries of the bank that are drawn at each step.
        bank_momentum: Share of a bank's entry that stays.
    """

    framework: str = "cmc"
    draws: int = 4096
    bank_momentum: float = 0.5

    @property
    def known_positives(self) -> str:
        """What a known positive is, in words."""
        return "lightness and colour of one image"

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """The other part of the image, and the entries that are drawn."""
        return 1, self.draws if samples > self.draws else max(1, samples - 1)


class CMC(ImageFramework):
    """Lightness against colour: each part of an image is compared with a bank of the other part.

    Args:
        light_encoder: Lightness images (one channel) to features.
        colour_encoder: Colour images (two channels) to features.
        light_head: Features of the first to embeddings.
        colour_head: Features of the second to embeddings.
        views: How an image is cropped and split.
        samples: Number of images in the data.
        dim: Dimension of the embeddings.
        draws: How many entries of the bank are drawn at each step, for the whole batch. An anchor never meets its own.
        temperature: What cosines are divided by.
        momentum: Share of a bank's entry that stays when its sample is seen again.
        generator: Source of the banks' first, random entries.

    Reference:
        Tian et al., "Contrastive Multiview Coding", ECCV 2020.
    """

    def __init__(
        self,
        light_encoder: nn.Module,
        colour_encoder: nn.Module,
        light_head: nn.Module,
        colour_head: nn.Module,
        views: CMCViews,
        *,
        samples: int,
        dim: int = 128,
        draws: int = 4096,
        temperature: float = 0.07,
        momentum: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if draws < 1:
            raise ValueError(f"draws is how many entries of the bank are met: expected at least 1, got {draws}")
        self.encoders = nn.ModuleList([light_encoder, colour_encoder])
        self.heads = nn.ModuleList([light_head, colour_head])
        self.light_bank, self.colour_bank = (Bank(samples, dim, momentum, generator) for _ in range(2))
        self.views = views
        self.samples = samples
        self.draws = draws
        self.temperature = temperature
        self._pending: tuple[list[Tensor], Tensor] | None = None

    def pairs(self, batch: ImageBatch) -> list[Pairs]:
        """Lightness against the bank of colours, and colour against the bank of lightness."""
        parts = see(batch, self.views)
        embeddings = [
            nn.functional.normalize(head(encoder(part)), dim=1)
            for head, encoder, part in zip(self.heads, self.encoders, parts, strict=True)
        ]
        self._pending = [embedding.detach() for embedding in embeddings], batch.ids
        drawn = self._draw(batch)
        pairs = []
        for embedding, bank in zip(embeddings, (self.colour_bank, self.light_bank), strict=True):
            pairs.append(
                pair_up(
                    embedding,
                    bank.entries[batch.ids],
                    bank.entries[drawn],
                    temperature=self.temperature,
                    query_ids=batch.ids,
                    unlabelled_ids=drawn,
                )
            )
        if batch.labels is None:
            return pairs
        labels = batch.labels
        return [without_false_negatives(each, labels[batch.ids], labels[drawn]) for each in pairs]

    def commit(self) -> None:
        """The banks take in the embeddings of this step, those of all processes."""
        if self._pending is None:
            return
        embeddings, ids = self._pending
        sizes = processes.gather_sizes(len(ids), ids.device)
        for bank, embedding in zip((self.light_bank, self.colour_bank), embeddings, strict=True):
            bank.update(processes.gather(ids, sizes), processes.gather(embedding, sizes))
        self._pending = None

    def forward(self, samples: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch feature"]:
        """The outputs of both encoders side by side."""
        parts = self.views.plain(samples)
        return torch.cat([encoder(part) for encoder, part in zip(self.encoders, parts, strict=True)], dim=1)

    def look(self, samples: UInt8[Tensor, "batch 3 height width"], generator: torch.Generator) -> list[Tensor]:
        """The embeddings of lightness and colour of one view."""
        parts = zip(self.heads, self.encoders, self.views(samples, generator), strict=True)
        return [head(encoder(part)) for head, encoder, part in parts]

    def networks(self) -> list[nn.Module]:
        """The encoders of lightness and colour."""
        return list(self.encoders)

    def parts_to_compile(self) -> list[nn.Module]:
        """Encoders and heads."""
        return [*self.encoders, *self.heads]

    def _draw(self, batch: ImageBatch) -> Int[Tensor, " drawn"]:
        """Samples to compare with, shared by the batch: all of a small set, a random part of a large one."""
        device = batch.ids.device
        if self.samples <= self.draws:
            return torch.arange(self.samples, device=device)
        return torch.randint(self.samples, (self.draws,), generator=batch.generator).to(device)


def build(config: CMCConfig, shape: ImageShape, encoder: EncoderSource | None = None) -> CMC:
    """Make CMC with fresh weights, which depend on the seed alone; see `pucl.frameworks.simclr.build`."""
    source = config.encoder if encoder is None else encoder
    if isinstance(source, nn.Module):
        raise ValueError("CMC has two encoders: expected a class or function that makes them, got one module")
    import_first(source, stem=config.stem, image_size=shape.size)
    torch.manual_seed(config.seed)
    light, colour = (
        make_encoder(source, stem=config.stem, in_channels=channels, width=_half(config), image_size=shape.size)
        for channels in (1, 2)
    )
    return CMC(
        light,
        colour,
        make_head("cmc", light.features, dim=config.dim),
        make_head("cmc", colour.features, dim=config.dim),
        CMCViews(size=shape.size, scale=(config.crop, 1.0), flip=config.flip),
        samples=shape.samples,
        dim=config.dim,
        draws=config.draws,
        temperature=config.temperature,
        momentum=config.bank_momentum,
    )


def _half(config: CMCConfig) -> int | None:
    """Half of an encoder's width: both encoders together then have as many features as one."""
    usual = ARCHITECTURES[config.encoder].width if config.encoder in ARCHITECTURES else None
    width = usual if config.width is None else config.width
    return None if width is None else max(1, width // 2)


CMC_KIND = FrameworkKind(
    config=CMCConfig,
    build=build,
    modality=IMAGES,
    # CMC with its softmax form, batch 128 to 256.
    reference={
        "temperature": 0.1,
        "optimiser": "sgd",
        "learning_rate": 0.03,
        "weight_decay": 1e-4,
        "schedule": "step",
        "bank_momentum": 0.5,
        "crop": 0.2,
    },
    paper=PAPER | {"draws": 4096},
    # A bank is renewed once an epoch: in eight of them, with SGD, CMC hardly begins to learn.
    small=SMALL | {"optimiser": "adam", "learning_rate": 2e-3, "epochs": 12},
)
