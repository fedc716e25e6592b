"""MoCo: a queue of recent keys is unlabelled."""

import copy
from dataclasses import dataclass, replace

import torch
from torch import nn

from pucl import processes
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind
from pucl.frameworks.momentum import follow
from pucl.images.batches import ImageBatch, ImageFramework, see
from pucl.images.config import PAPER, SMALL, ImageConfig
from pucl.images.encoders.heads import make_head
from pucl.images.encoders.registry import EncoderSource, import_first, make_encoder
from pucl.images.modality import IMAGES, ImageShape
from pucl.images.views.recipes import SimCLRViews
from pucl.memory import Queue
from pucl.shapes import Float, Int, Tensor, UInt8


@dataclass(frozen=True, kw_only=True)
class MoCoConfig(ImageConfig):
    """A run of MoCo.

    Args:
        blur: Probability that a view is blurred.
        queue_size: Keys that are remembered.
        key_momentum: Share of the key encoder that stays at each step.
        symmetric: Compare both ways.
        splits: Parts of a batch with batch statistics of their own.
    """

    framework: str = "moco"
    blur: float = 0.5
    queue_size: int = 4096
    key_momentum: float = 0.99
    symmetric: bool = False
    splits: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.key_momentum <= 1:
            raise ValueError(
                f"key_momentum is the share of the key encoder that stays: expected 0 to 1, got {self.key_momentum}"
            )

    def for_encoding(self) -> "MoCoConfig":
        """The same with the smallest queue."""
        return replace(self, queue_size=1)

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """The key of the other view, and the queue."""
        del samples
        return 1, self.queue_size


class MoCo(ImageFramework):
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
        self.separate_statistics = splits > 1  # The parts of a batch are the processes' own.
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

    def look(self, samples: UInt8[Tensor, "batch 3 height width"], generator: torch.Generator) -> list[Tensor]:
        """The embeddings of two views, both by the encoder, which its slow copy has followed."""
        return [self.head(self.encoder(self.views(samples, generator))) for _ in range(2)]

    def networks(self) -> list[nn.Module]:
        """The query encoder."""
        return [self.encoder]

    def parts_to_compile(self) -> list[nn.Module]:
        """Encoders and heads."""
        return [self.encoder, self.head, self.slow_encoder, self.slow_head]

    def never_ready(self, steps: int, batch_size: int) -> str | None:
        """Say so if the queue is not full before the end: until then nothing is corrected."""
        keys = (steps - 1) * batch_size * (2 if self.symmetric else 1)  # Before the last step.
        if keys >= self.queue.size:
            return None
        return (
            f"nothing will be corrected: the queue of {self.queue.size} keys is not full before the end. "
            f"Try a smaller queue_size, or more epochs"
        )

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


def build(config: MoCoConfig, shape: ImageShape, encoder: EncoderSource | None = None) -> MoCo:
    """Make MoCo with fresh weights, which depend on the seed alone; see `pucl.frameworks.simclr.build`."""
    source = config.encoder if encoder is None else encoder
    import_first(source, stem=config.stem, image_size=shape.size)
    torch.manual_seed(config.seed)
    network = make_encoder(source, stem=config.stem, width=config.width, image_size=shape.size)
    return MoCo(
        network,
        make_head("moco-v1", network.features, dim=config.dim),
        SimCLRViews(size=shape.size, scale=(config.crop, 1.0), flip=config.flip, blur=config.blur),
        temperature=config.temperature,
        queue_size=config.queue_size,
        dim=config.dim,
        momentum=config.key_momentum,
        symmetric=config.symmetric,
        splits=config.splits,
    )


MOCO = FrameworkKind(
    config=MoCoConfig,
    build=build,
    modality=IMAGES,
    # MoCo's CIFAR10 recipe: learning rate 0.03 at batch 256, cosine, split batch norm.
    reference={
        "temperature": 0.1,
        "optimiser": "sgd",
        "learning_rate": 0.03,
        "weight_decay": 5e-4,
        "schedule": "cosine",
        "key_momentum": 0.99,
        "crop": 0.2,
        "blur": 0.0,
    },
    paper=PAPER | {"queue_size": 4096},
    small=SMALL | {"blur": 0.0},
)
