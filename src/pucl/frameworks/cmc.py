"""CMC: lightness and colour of an image are its two views; the other images of a memory bank are unlabelled."""

from dataclasses import dataclass

import torch
from torch import nn

from pucl import processes
from pucl.config import CosineConfig
from pucl.contrast.pairing import pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind
from pucl.images.config import ImageConfig
from pucl.images.encoders.registry import ARCHITECTURES, make_encoder
from pucl.images.modality import IMAGES, ImageShape
from pucl.images.views.augmentations import CMCViews
from pucl.memory import Bank
from pucl.modality import EncoderSource
from pucl.recipe import Recipes
from pucl.settings import setting
from pucl.shapes import Float, Int, Tensor, UInt8
from pucl.training.framework import Batch, Framework


@dataclass(frozen=True, kw_only=True)
class CMCConfig(ImageConfig, CosineConfig):
    """CMC: lightness against colour; a bank with the other part of all images is unlabelled."""

    framework: str = "cmc"
    draws: int = setting(4096, "bank entries that are drawn at each step")
    bank_momentum: float = setting(0.5, "share of a bank entry that stays when its image is seen again")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < 1:
            raise ValueError(
                f"draws is the number of bank entries that an anchor meets: expected at least 1, got {self.draws}"
            )

    @property
    def known_positives(self) -> str:
        """What a known positive is, in words."""
        return "lightness and colour of one image"

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """The other part of the image, and the entries that are drawn."""
        return 1, self.draws if samples > self.draws else max(1, samples - 1)


class CMC(Framework[Tensor]):
    """The lightness of an image against the colours of images, and its colour against their lightness.

    One encoder sees lightness (one channel), the other colour (two channels). Each has a memory bank with an embedding
    of every image. An anchor is compared with entries of the other encoder's bank: the entry of its own image is its
    positive, and entries that are drawn at each step, for the whole batch, are unlabelled.

    Reference:
        Tian et al., "Contrastive Multiview Coding", ECCV 2020.
    """

    encodes = ("encoders", "heads")

    def __init__(self, config: CMCConfig, shape: ImageShape, encoder: EncoderSource | None = None) -> None:
        super().__init__()
        source = config.encoder if encoder is None else encoder
        if isinstance(source, nn.Module):
            raise ValueError("CMC has two encoders: expected a class or function that makes them, got one module")
        torch.manual_seed(config.seed)
        self.config = config
        size = config.size_to_see(shape.size)
        light, colour = (
            make_encoder(
                source,
                stem=config.stem,
                in_channels=channels,
                width=_half(config),
                scales=config.scales,
                image_sizes=config.sizes_to_see(shape.size),
                pretrained=config.pretrained,
            )
            for channels in (1, 2)
        )
        self.encoders = nn.ModuleList([light, colour])
        self.heads = nn.ModuleList([nn.Linear(light.features, config.dim), nn.Linear(colour.features, config.dim)])
        self.light_bank, self.colour_bank = (Bank(shape.samples, config.dim, config.bank_momentum) for _ in range(2))
        self.views = CMCViews(size=size, crop=config.crop, flip=config.flip, coarse=config.coarse)
        self.samples = shape.samples
        self._pending: tuple[list[Tensor], Tensor] | None = None  # Embeddings of this step, and ids of their images.

    def pairs(self, batch: Batch[Tensor]) -> list[Pairs]:
        """Lightness against the bank of colours, and colour against the bank of lightness."""
        embeddings = [nn.functional.normalize(each, dim=1) for each in self._project(self.views.see(batch))]
        self._pending = [embedding.detach() for embedding in embeddings], batch.ids
        drawn = self._draw(batch)
        return [
            pair_up(
                embedding,
                bank.entries[batch.ids],
                bank.entries[drawn],
                temperature=self.config.temperature,
                query_ids=batch.ids,
                unlabelled_ids=drawn,
            )
            for embedding, bank in zip(embeddings, (self.colour_bank, self.light_bank), strict=True)
        ]

    def commit(self) -> None:
        """Update the banks with the embeddings of this step, of all processes."""
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
        """The embeddings of lightness and colour of one random view."""
        return self._project(self.views(samples, generator))

    def networks(self) -> list[nn.Module]:
        """The encoders of lightness and colour."""
        return list(self.encoders)

    def parts_to_compile(self) -> list[nn.Module]:
        """Encoders and heads."""
        return [*self.encoders, *self.heads]

    def _project(self, parts: tuple[Tensor, Tensor]) -> list[Tensor]:
        """Embed lightness and colour, each by its own encoder and head."""
        return [head(encoder(part)) for head, encoder, part in zip(self.heads, self.encoders, parts, strict=True)]

    def _draw(self, batch: Batch[Tensor]) -> Int[Tensor, " drawn"]:
        """The images whose entries the batch is compared with: all of a small data set, random ones of a large one."""
        device = batch.ids.device
        if self.samples <= self.config.draws:
            return torch.arange(self.samples, device=device)
        return torch.randint(self.samples, (self.config.draws,), generator=batch.generator).to(device)


def _half(config: CMCConfig) -> int | None:
    """Half of an encoder's width: both encoders together then have as many features as one."""
    usual = ARCHITECTURES[config.encoder].width if config.encoder in ARCHITECTURES else None
    width = usual if config.width is None else config.width
    return None if width is None else max(1, width // 2)


CMC_KIND = FrameworkKind(
    config=CMCConfig,
    build=CMC,
    modality=IMAGES,
    recipes=Recipes(
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
        paper={"draws": 4096},
        # Each entry of a bank is updated once an epoch. With SGD, eight epochs are too few for CMC to learn much.
        small={"optimiser": "adam", "learning_rate": 2e-3, "epochs": 12},
    ),
)
