"""InfoGraph: the other graphs of the batch are unlabelled."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from pucl import processes
from pucl.config import ORACLE, RAW, choose
from pucl.contrast.compare import ObjectiveName
from pucl.contrast.compat import COMPATS, Compat
from pucl.contrast.oracle import without_false_negatives
from pucl.contrast.pairing import check_temperature, pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind
from pucl.graphs.config import GraphConfig
from pucl.graphs.encoders.gin import GIN
from pucl.graphs.encoders.heads import ResidualHead
from pucl.graphs.encoders.summed import SummedFeatures
from pucl.graphs.graphset import GraphBatch
from pucl.graphs.modality import GRAPHS, GraphShape
from pucl.shapes import Float, Int, Tensor
from pucl.training.framework import Batch, Framework

Share = Literal["graph", "node", "batch"]
"""Who shares one estimate over negatives, and with it one floor: the nodes of a graph, none, or all of a batch."""

SHARES: tuple[Share, ...] = ("graph", "node", "batch")


@dataclass(frozen=True, kw_only=True)
class InfoGraphConfig(GraphConfig):
    """A run of InfoGraph.

    Args:
        share: Who shares one estimate over negatives, and one floor: the nodes of a ``"graph"``, no ``"node"`` with
            another, or the whole ``"batch"``.
        temperature: Cosines are divided by it; default: scores are plain inner products, as InfoGraph has them.
        compat: ``"hcl"`` takes the loss as HCL's authors published it, with its signs; default: as it is meant.
    """

    framework: str = "infograph"
    objective: ObjectiveName = "jensen_shannon"
    share: Share = "graph"
    temperature: float | None = None
    compat: Compat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("share", self.share, SHARES)
        if self.temperature is not None:
            check_temperature(self.temperature)
        elif self.objective == "infonce":
            raise ValueError(
                "InfoNCE compares by cosines: expected a temperature to divide them by, such as 0.5, got none"
            )
        if self.compat is not None:
            choose("compat", self.compat, COMPATS)
            self._check_compat()

    def _check_compat(self) -> None:
        if self.objective != "jensen_shannon" or self.temperature is not None or self.correction == ORACLE:
            raise ValueError(
                "compat='hcl' is the published loss of HCL: expected the Jensen-Shannon objective without a "
                f"temperature, and a correction, got {self.objective}, {self.temperature} and {self.correction}"
            )
        if not self.make_correction().is_tilted:
            raise ValueError(
                f"compat='hcl' is for corrections with a tilt (plain, deb, hard, pucl), got {self.correction}"
            )

    @property
    def compares_cosines(self) -> bool:
        """With a temperature alone."""
        return self.temperature is not None

    def as_published(self) -> Compat | None:
        """HCL's, if it is asked for."""
        return self.compat


class InfoGraph(Framework[GraphBatch]):
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

    def forward(self, samples: GraphBatch) -> Float[Tensor, "graph feature"]:
        """The vector of each graph, before the head."""
        features: Tensor = self.encoder(samples)[1]
        return features

    def parts_to_compile(self) -> list[nn.Module]:
        """The heads: sparse products are not for the compiler."""
        return [self.local_head, self.whole_head]

    def _groups(self, graph_of: Int[Tensor, " node"]) -> Int[Tensor, " node"] | None:
        if self.share == "node":
            return None
        return graph_of if self.share == "graph" else torch.zeros_like(graph_of)


def build(config: InfoGraphConfig, shape: GraphShape) -> InfoGraph:
    """Make InfoGraph with fresh weights, which depend on the seed alone.

    Args:
        config: What to build.
        shape: How many features a node has.
    """
    if processes.world_size() > 1:
        raise ValueError(
            "InfoGraph is trained by one process: expected no torchrun, got "
            f"{processes.world_size()} processes; `pucl compare --workers N` runs several trainings side by side"
        )
    torch.manual_seed(config.seed)
    if config.correction == RAW:
        return InfoGraph(SummedFeatures(shape.inputs), nn.Identity(), nn.Identity())
    encoder = GIN(shape.inputs, hidden=config.hidden, layers=config.layers)
    heads = ResidualHead(encoder.features), ResidualHead(encoder.features)
    return InfoGraph(encoder, *heads, temperature=config.temperature, share=config.share)


INFOGRAPH = FrameworkKind(
    config=InfoGraphConfig,
    build=build,
    modality=GRAPHS,
    # InfoGraph's README and HCL's launch script, but for its 200 epochs: Adam without decay, three layers of 32.
    reference={"optimiser": "adam", "learning_rate": 1e-3, "weight_decay": 0.0, "hidden": 32, "layers": 3},
)
