"""InfoGraph: the other graphs of the batch are unlabelled."""

from dataclasses import replace
from typing import Literal

import torch
from torch import nn

from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.frameworks.framework import Batch
from pucl.graphs.graphset import GraphBatch
from pucl.shapes import Float, Int, Tensor

Share = Literal["graph", "node", "batch"]
"""Who shares one estimate over negatives, and with it one floor: the nodes of a graph, none, or all of a batch."""

SHARES: tuple[Share, ...] = ("graph", "node", "batch")


class InfoGraph(nn.Module):
    """Each node against its own graph, and against the other graphs of the batch, which are unlabelled.

    Args:
        encoder: Graphs to a vector for each node and each graph, such as `GIN`.
        local_head: Vectors of nodes to what is compared.
        whole_head: Vectors of graphs to what is compared.
        temperature: None: scores are plain inner products, as InfoGraph has them. A number: cosines divided by it.
        share: Who shares one estimate over negatives.

    Reference:
        Sun et al., "InfoGraph: Unsupervised and Semi-supervised Graph-Level Representation Learning via Mutual
        Information Maximization", ICLR 2020.
    """

    def __init__(
        self,
        encoder: nn.Module,
        local_head: nn.Module,
        whole_head: nn.Module,
        *,
        temperature: float | None = None,
        share: Share = "graph",
    ) -> None:
        super().__init__()
        if share not in SHARES:
            raise ValueError(
                f"share is who has one estimate together: expected one of {', '.join(SHARES)}, got {share}"
            )
        self.encoder = encoder
        self.local_head = local_head
        self.whole_head = whole_head
        self.temperature = temperature
        self.share = share

    @property
    def ready(self) -> bool:
        """Always: a batch is a sample of the data."""
        return True

    def pairs(self, batch: Batch[GraphBatch]) -> list[Pairs]:
        """All nodes against all graphs; a node that stands for several counts as so many."""
        graphs = batch.samples
        local, whole = self.encoder(graphs)
        graph_of = graphs.graph_of
        pairs = pair_local_global(
            self.local_head(local), self.whole_head(whole), graph_of, temperature=self.temperature
        )
        if batch.labels is not None:
            labels = batch.labels[batch.ids]
            pairs = without_false_negatives(pairs, labels[graph_of], labels)
        return [
            replace(
                pairs,
                query_samples=batch.ids[graph_of],
                key_samples=batch.ids,
                group=self._groups(graph_of),
                copies=graphs.copies,
            )
        ]

    def commit(self) -> None:
        """Nothing outlives the batch."""

    def forward(self, samples: GraphBatch) -> Float[Tensor, "graph feature"]:
        """The vector of each graph, before the head."""
        features: Tensor = self.encoder(samples)[1]
        return features

    def _groups(self, graph_of: Int[Tensor, " node"]) -> Int[Tensor, " node"] | None:
        if self.share == "node":
            return None
        return graph_of if self.share == "graph" else torch.zeros_like(graph_of)
