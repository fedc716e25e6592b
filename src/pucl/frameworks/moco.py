"""MoCo: a queue of recent keys is unlabelled."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from pucl import processes
from pucl.batch_norm import in_parts, part_batch_norms
from pucl.config import CosineConfig
from pucl.contrast.pairing import pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind, encoder_and_views
from pucl.memory import Queue
from pucl.modality import EncoderSource
from pucl.recipe import Recipes
from pucl.settings import setting
from pucl.shapes import Float, Int, Tensor
from pucl.training.framework import Batch, Framework


@dataclass(frozen=True, kw_only=True)
class MoCoConfig(CosineConfig):
    """MoCo: a queue of recent keys, made by a slow copy of the encoder, is unlabelled."""

    framework: str = "moco"
    queue_size: int = setting(4096, "keys in the queue")
    key_momentum: float = setting(0.99, "share of the key encoder that each step keeps")
    symmetric: bool = setting(default=False, meaning="compare both ways: each view is query once and key once")
    splits: int = setting(8, "parts of a batch that have their own batch-norm statistics")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.key_momentum <= 1:
            raise ValueError(
                f"key_momentum is the share of the key encoder that stays: expected 0 to 1, got {self.key_momentum}"
            )
        if self.splits < 1:
            raise ValueError(f"splits is the number of parts of a batch: expected at least 1, got {self.splits}")

    def for_encoding(self) -> "MoCoConfig":
        """The same with the smallest queue."""
        return replace(self, queue_size=1)

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """The key of the other view, and the queue."""
        del samples
        return 1, self.queue_size


class MoCo(Framework[Any]):
    """A query against the key of another view, which a slowly moving copy of the encoder makes, and a queue of keys.

    Each batch is divided into `splits` parts that have their own batch statistics, and keys are divided in another
    order than queries. Statistics of the whole batch would reveal which key belongs to which query. Processes share the
    parts among them; each has one at least.

    Reference:
        He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", CVPR 2020.
    """

    def __init__(self, config: MoCoConfig, shape: Any, encoder: EncoderSource | None = None) -> None:
        super().__init__()
        self.config = config
        whole, self.views, features = encoder_and_views(config, shape, encoder)
        self.encoder = part_batch_norms(whole) if config.splits > 1 else whole
        self.head = nn.Linear(features, config.dim)
        self.slow_encoder = copy.deepcopy(self.encoder).requires_grad_(False)
        self.slow_head = copy.deepcopy(self.head).requires_grad_(False)
        self.queue = Queue(config.queue_size, config.dim)
        self.separate_statistics = config.splits > 1
        self._pending: tuple[Tensor, Tensor] | None = None  # Keys of this step, and the ids of their samples.

    @property
    def ready(self) -> bool:
        """Once the queue is full."""
        return bool(self.queue.filled == self.queue.size)

    def pairs(self, batch: Batch[Any]) -> list[Pairs]:
        """Queries against the keys of the other view and the queue as it was before this batch."""
        views = [self.views.see(batch) for _ in range(2)]
        order = torch.randperm(batch.whole, generator=batch.generator).to(batch.ids.device)
        sizes = processes.gather_sizes(len(batch.ids), batch.ids.device)
        directions = [(0, 1), (1, 0)] if self.config.symmetric else [(0, 1)]
        keys = {other: self._keys(processes.gather(views[other], sizes), order, batch) for _, other in directions}
        self._pending = torch.cat(list(keys.values())), processes.gather(batch.ids, sizes).repeat(len(keys))
        remembered = self.queue.contents()
        if len(remembered.keys) == 0:
            return []
        return [
            pair_up(
                self.head(in_parts(self.encoder, views[one], self._own_splits(batch))),
                keys[other][batch.part],
                remembered.keys,
                temperature=self.config.temperature,
                query_ids=batch.ids,
                unlabelled_ids=remembered.ids,
            )
            for one, other in directions
        ]

    def commit(self) -> None:
        """Move the key encoder towards the encoder, and add the keys of this step, of all processes, to the queue."""
        move_towards(self.slow_encoder, self.encoder, self.config.key_momentum)
        move_towards(self.slow_head, self.head, self.config.key_momentum)
        if self._pending is not None:
            self.queue.push(*self._pending)
            self._pending = None
        if self.separate_statistics:
            names = ("running_mean", "running_var")
            processes.average(buffer for name, buffer in self.named_buffers() if name.endswith(names))

    def parts_to_compile(self) -> list[nn.Module]:
        """Encoders and heads."""
        return [self.encoder, self.head, self.slow_encoder, self.slow_head]

    def never_ready(self, steps: int, batch_size: int) -> str | None:
        """Say so if the queue is not full before the end: until then nothing is corrected."""
        keys = (steps - 1) * batch_size * (2 if self.config.symmetric else 1)  # Before the last step.
        if keys >= self.queue.size:
            return None
        return (
            f"nothing will be corrected: the queue of {self.queue.size} keys is not full before the end. "
            f"Try a smaller queue_size, or more epochs"
        )

    @torch.no_grad()
    def _keys(self, view: Tensor, order: Int[Tensor, " whole"], batch: Batch[Any]) -> Float[Tensor, "whole dim"]:
        """The keys of the whole batch. Each process makes a part of them: not of its own samples, but of any."""
        own = order[batch.part]
        made = self.slow_head(in_parts(self.slow_encoder, view[own], self._own_splits(batch)))
        shuffled = processes.gather(nn.functional.normalize(made, dim=1), processes.gather_sizes(len(own), own.device))
        keys = torch.empty_like(shuffled)
        keys[order] = shuffled
        return keys

    def _own_splits(self, batch: Batch[Any]) -> int:
        """Number of parts of the batch in this process. Each part has at least two samples."""
        return max(1, min(self.config.splits, batch.whole // 2) // processes.world_size())


@torch.no_grad()
def move_towards(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    r"""Move every parameter of a slow copy towards the trained encoder.

    .. math:: \theta_k \leftarrow m\, \theta_k + (1 - m)\, \theta_q

    Args:
        slow: The copy, with parameters theta_k. It is changed. It keeps its own statistics of batch norms.
        fast: The trained encoder, with parameters theta_q.
        momentum: m, the share of the copy that is kept, 0 <= m <= 1.
    """
    for kept, new in zip(slow.parameters(), fast.parameters(), strict=True):
        kept.mul_(momentum).add_(new, alpha=1 - momentum)


MOCO = FrameworkKind(
    config=MoCoConfig,
    build=MoCo,
    recipes=Recipes(
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
        paper={"queue_size": 4096},
        small={"blur": 0.0},
    ),
)
