"""CMC: a bank of all samples, seen from the other view, is unlabelled."""

import torch
from torch import nn

from pucl import processes
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks.framework import ImageBatch, see
from pucl.images.views.recipes import CMCViews
from pucl.memory import Bank
from pucl.shapes import Float, Int, Tensor, UInt8


class CMC(nn.Module):
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

    @property
    def ready(self) -> bool:
        """Always: the bank has an entry for each sample."""
        return True

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

    def _draw(self, batch: ImageBatch) -> Int[Tensor, " drawn"]:
        """Samples to compare with, shared by the batch: all of a small set, a random part of a large one."""
        device = batch.ids.device
        if self.samples <= self.draws:
            return torch.arange(self.samples, device=device)
        return torch.randint(self.samples, (self.draws,), generator=batch.generator).to(device)
