"""A correction that learns, in one file: samples in the anchor's own cluster are probably positives.

It remembers the last embedding of every sample and computes clusters anew when an epoch ends.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pucl.contrast.correction import check_range
from pucl.contrast.pairs import Comparison, Pairs
from pucl.corrections import Correction, CorrectionState, ExtraPositives, Reading, StateReport


@dataclass(frozen=True, kw_only=True)
class Clusters(Correction):
    """Give less weight to unlabelled samples of the anchor's own cluster.

    Args:
        clusters: Number of clusters, >= 2.
        hidden_share: Assumed share of hidden positives in the anchor's own cluster, 0 <= hidden_share < 1.
        form: "soft", or "hard" to leave out all samples of the own cluster.
        attract: Count the most similar sample of the own cluster as half a positive.
        keep: Share of the remembered embedding that stays at an update; None for 0.
    """

    clusters: int = 3
    hidden_share: float = 0.8
    form: str = "soft"
    attract: bool = False
    keep: float | None = None

    def __post_init__(self) -> None:
        check_range("clusters", "the number of clusters", self.clusters, "at least 2", self.clusters >= 2)

    def start(self, samples: int | None) -> "ClusterState":
        if samples is None:
            raise ValueError("Clusters remembers every sample: expected their number, got none; pass samples=")
        return ClusterState(self, samples)


class ClusterState(CorrectionState):
    embeddings: Tensor
    cluster: Tensor

    def __init__(self, settings: Clusters, samples: int) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("embeddings", torch.empty(samples, 0))  # The dimension is known after the first step.
        self.register_buffer("cluster", torch.full((samples,), -1))

    def read(self, pairs: Pairs) -> Reading:
        queries, _ = pairs.sample_ids()
        settings, cluster = self.settings, self.cluster.clone()

        def in_own_cluster(comparison: Comparison) -> Tensor:
            anchors, keys = comparison.sample_ids()
            own, other = cluster[anchors][:, None], torch.where(keys >= 0, cluster[keys], -1)
            return (own == other) & (own >= 0)

        def weigh(comparison: Comparison) -> Tensor:
            less = -math.inf if settings.form == "hard" else math.log1p(-settings.hidden_share)
            return torch.zeros_like(comparison.unlabelled).masked_fill(in_own_cluster(comparison), less)

        def attract(comparison: Comparison) -> ExtraPositives:
            logits = comparison.visible.detach().masked_fill(~in_own_cluster(comparison), -math.inf)
            highest, indices = logits.max(dim=1, keepdim=True)
            return ExtraPositives(indices, 0.5 * highest.isfinite().to(logits.dtype))

        sizes = torch.bincount(cluster + 1, minlength=settings.clusters + 1) / len(cluster)
        sizes[0] = 0.0  # Samples without a cluster.
        odds = 0.1 * sizes[cluster[queries] + 1].to(pairs.query.dtype)
        return Reading(weigh, odds, attract if settings.attract else None)

    def see(self, pairs: Pairs) -> Tensor:
        return pairs.embeddings()

    def commit(self, ids: Tensor | None, seen: Tensor) -> None:
        assert ids is not None
        if self.embeddings.shape[1] == 0:
            self.embeddings = seen.new_zeros(len(self.embeddings), seen.shape[1])
        times = seen.new_zeros(len(self.embeddings)).index_add_(0, ids, seen.new_ones(len(ids)))[:, None]
        mean = torch.zeros_like(self.embeddings).index_add_(0, ids, seen) / times.clamp_min(1)
        moved = mean.lerp(self.embeddings, self.settings.keep or 0.0)
        self.embeddings.copy_(torch.where(times > 0, moved, self.embeddings))

    def end_epoch(self) -> None:
        known = self.embeddings.square().sum(dim=1).nonzero()[:, 0]
        if len(known) >= self.settings.clusters:
            self.cluster[known] = k_means(self.embeddings[known].double(), self.settings.clusters)

    def report(self) -> StateReport:
        sizes = torch.bincount(self.cluster + 1, minlength=self.settings.clusters + 1)[1:] / len(self.cluster)
        clustered, largest = float(sizes.sum()), float(sizes.max())
        sentence = f"{self.settings.clusters} clusters hold {clustered:.0%} of the samples, the largest {largest:.0%}"
        return StateReport({"clustered": clustered, "largest": largest}, sentence)


def k_means(points: Tensor, count: int, iterations: int = 10) -> Tensor:
    """The cluster of each point. The first centres are far from each other, so nothing is random."""
    centres = points[:1]
    for _ in range(count - 1):
        centres = torch.cat([centres, points[torch.cdist(points, centres).amin(dim=1).argmax()][None]])
    for _ in range(iterations):
        nearest = torch.cdist(points, centres).argmin(dim=1)
        sizes = torch.bincount(nearest, minlength=count)[:, None]
        means = torch.zeros_like(centres).index_add_(0, nearest, points) / sizes.clamp_min(1)
        centres = torch.where(sizes > 0, means, centres)
    return nearest
