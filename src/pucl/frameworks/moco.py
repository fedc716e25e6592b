"""MoCo: a queue of recent keys is unlabelled."""

import copy

import torch
from torch import nn

from pucl import processes
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks.framework import ImageBatch, see
from pucl.frameworks.momentum import follow
from pucl.images.views.recipes import SimCLRViews
from pucl.memory import Queue
from pucl.shapes import Float, Int, Tensor, UInt8


class MoCo(nn.Module):
    """A query against the key of another view, which a slowly moving copy of the encoder makes, and a queue of keys.

    Args:
        encoder: Images to features.
        head: Features to the embeddings that are compared.
        views: How an image is augmented.
        temperature: What cosines are divided by.
        queue_size: How many keys are remembered.
        dim: Dimension of the embeddings.
        momentum: Share of the copy that stays at each step.
        symmetric: Compare both ways, and remember the keys of both views.
        splits: Into how many parts a batch is divided for its batch statistics, keys in another order than queries.
            Statistics of the whole batch would tell which key belongs to which query. Processes share the parts among
            them; each has one at least.

    Reference:
        He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", CVPR 2020.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        views: SimCLRViews,
        *,
        temperature: float = 0.1,
        queue_size: int = 4096,
        dim: int = 128,
        momentum: float = 0.99,
        symmetric: bool = False,
        splits: int = 8,
    ) -> None:
        super().__init__()
        if splits < 1:
            raise ValueError(f"splits is into how many parts a batch is divided: expected at least 1, got {splits}")
        self.encoder = encoder
        self.head = head
        self.slow_encoder = copy.deepcopy(encoder).requires_grad_(False)
        self.slow_head = copy.deepcopy(head).requires_grad_(False)
        self.queue = Queue(queue_size, dim)
        self.views = views
        self.temperature = temperature
        self.momentum = momentum
        self.symmetric = symmetric
        self.splits = splits
        self._pending: tuple[Tensor, Tensor] | None = None

    @property
    def ready(self) -> bool:
        """Once the queue is full."""
        return bool(self.queue.filled == self.queue.size)

    def pairs(self, batch: ImageBatch) -> list[Pairs]:
        """Queries against the keys of the other view and the queue as it was before this batch."""
        views = [see(batch, self.views) for _ in range(2)]
        order = torch.randperm(batch.whole, generator=batch.generator).to(batch.ids.device)
        sizes = processes.gather_sizes(len(batch.ids), batch.ids.device)
        directions = [(0, 1), (1, 0)] if self.symmetric else [(0, 1)]
        keys = {other: self._keys(processes.gather(views[other], sizes), order, batch) for _, other in directions}
        self._pending = torch.cat(list(keys.values())), processes.gather(batch.ids, sizes).repeat(len(keys))
        remembered, remembered_ids = self.queue.contents()
        if len(remembered) == 0:
            return []
        pairs = [
            pair_up(
                self.head(in_parts(self.encoder, views[one], self._own_splits(batch))),
                keys[other][batch.part],
                remembered,
                temperature=self.temperature,
                query_ids=batch.ids,
                unlabelled_ids=remembered_ids,
            )
            for one, other in directions
        ]
        if batch.labels is None:
            return pairs
        labels = batch.labels
        return [without_false_negatives(each, labels[batch.ids], labels[remembered_ids]) for each in pairs]

    def commit(self) -> None:
        """The copy follows the encoder, and the keys of this step are remembered, those of all processes."""
        follow(self.slow_encoder, self.encoder, self.momentum)
        follow(self.slow_head, self.head, self.momentum)
        if self._pending is not None:
            self.queue.push(*self._pending)
            self._pending = None
        if self.splits > 1:  # Each process saw the statistics of its own parts.
            processes.average(_running_statistics(self))

    def forward(self, samples: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch feature"]:
        """The query encoder's output for the image as it is."""
        features: Tensor = self.encoder(self.views.plain(samples))
        return features

    @torch.no_grad()
    def _keys(
        self, view: Float[Tensor, "whole channel height width"], order: Int[Tensor, " whole"], batch: ImageBatch
    ) -> Float[Tensor, "whole dim"]:
        """The keys of the whole batch, of which each process makes a part: not of its own images, but of any."""
        own = order[batch.part]
        made = self.slow_head(in_parts(self.slow_encoder, view[own], self._own_splits(batch)))
        shuffled = processes.gather(nn.functional.normalize(made, dim=1), processes.gather_sizes(len(own), own.device))
        keys = torch.empty_like(shuffled)
        keys[order] = shuffled
        return keys

    def _own_splits(self, batch: ImageBatch) -> int:
        """Parts of the whole batch that this process has; never so many that one has fewer than two images."""
        return max(1, min(self.splits, batch.whole // 2) // processes.world_size())


def in_parts(
    encoder: nn.Module, images: Float[Tensor, "batch channel height width"], splits: int
) -> Float[Tensor, "batch feature"]:
    """The encoder applied to equal parts of a batch, each with batch statistics of its own."""
    return torch.cat([encoder(part) for part in images.tensor_split(splits)])


def _running_statistics(module: nn.Module) -> list[Tensor]:
    return [buffer for name, buffer in module.named_buffers() if name.endswith(("running_mean", "running_var"))]
