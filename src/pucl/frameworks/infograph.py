"""InfoGraph: the other graphs of the batch are unlabelled."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from pucl import processes
from pucl.config import ORACLES, RAW, check_known
from pucl.contrast.compat import COMPATS, Compat
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairing import check_temperature, pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind
from pucl.graphs.config import GraphConfig
from pucl.graphs.encoders.gin import GIN, SummedFeatures
from pucl.graphs.encoders.heads import ResidualHead
from pucl.graphs.graphset import GraphBatch
from pucl.graphs.modality import GRAPHS, GraphShape
from pucl.modality import EncoderSource
from pucl.recipe import Recipes
from pucl.settings import setting
from pucl.shapes import Float, Tensor
from pucl.training.framework import Batch, Framework

Share = Literal["graph", "node", "batch"]
"""Which nodes share one estimate of the mean over negatives, and one floor: the nodes of a graph, no nodes, or all."""

SHARES: tuple[Share, ...] = ("graph", "node", "batch")


@dataclass(frozen=True, kw_only=True)
class InfoGraphConfig(GraphConfig):
    """InfoGraph: nodes against whole graphs; the other graphs of the batch are unlabelled."""

    framework: str = "infograph"
    objective: ObjectiveName = "jensen_shannon"
    share: Share = setting(
        "graph",
        "which nodes share one estimate over negatives: those of a graph, none (node), or those of a batch",
        group="loss",
    )
    temperature: float | None = setting(
        None, "cosines are divided by it; default: inner products, as in InfoGraph", group="loss"
    )
    compat: Compat | None = setting(
        None, "hcl: the loss as HCL's authors published it, with wrong signs; default: correct signs", group="loss"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("share", self.share, SHARES)
        if self.temperature is not None:
            check_temperature(self.temperature)
        elif self.objective == "infonce":
            raise ValueError(
                "InfoNCE compares by cosines: expected a temperature to divide them by, such as 0.5, got none"
            )
        if self.compat is not None:
            check_known("compat", self.compat, COMPATS)
            self._check_compat()

    def _check_compat(self) -> None:
        if self.objective != "jensen_shannon" or self.temperature is not None or self.correction in ORACLES:
            raise ValueError(
                "compat='hcl' is the published loss of HCL: expected the Jensen-Shannon objective without a "
                f"temperature, and a correction, got {self.objective}, {self.temperature} and {self.correction}"
            )
        correction = self.make_correction()
        if correction.learns or not correction.is_tilted or correction.stop_gradient:
            raise ValueError(
                f"compat='hcl' is for corrections with a tilt: expected plain, deb, hard or pucl, got {self.correction}"
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

    The encoder, such as `GIN`, returns a vector for each node and for each graph. Nodes and graphs have a head each.

    Reference:
        Sun et al., "InfoGraph: Unsupervised and Semi-supervised Graph-Level Representation Learning via Mutual
        Information Maximization", ICLR 2020.
    """

    encodes = ("encoder", "local_head", "whole_head")
    local_head: nn.Module
    whole_head: nn.Module

    def __init__(self, config: InfoGraphConfig, shape: GraphShape, encoder: EncoderSource | None = None) -> None:
        super().__init__()
        if encoder is not None:
            raise ValueError("InfoGraph has an encoder of its own: expected no other encoder")
        if processes.world_size() > 1:
            raise ValueError(
                "InfoGraph is trained by one process: expected no torchrun, got "
                f"{processes.world_size()} processes; `pucl compare --workers N` runs several trainings side by side"
            )
        self.config = config
        torch.manual_seed(config.seed)
        if config.correction == RAW:
            self.encoder, self.local_head, self.whole_head = SummedFeatures(shape.inputs), nn.Identity(), nn.Identity()
        else:
            self.encoder = network = GIN(shape.inputs, hidden=config.hidden, layers=config.layers)
            self.local_head, self.whole_head = ResidualHead(network.features), ResidualHead(network.features)

    def pairs(self, batch: Batch[GraphBatch]) -> list[Pairs]:
        """All nodes against all graphs. A node of a folded graph counts as often as it has copies."""
        graphs, graph_of = batch.samples, batch.samples.graph_of
        local, whole = self.encoder(graphs)
        pairs = pair_local_global(
            self.local_head(local), self.whole_head(whole), graph_of, temperature=self.config.temperature
        )
        groups = {"node": None, "graph": graph_of, "batch": torch.zeros_like(graph_of)}
        return [
            replace(
                pairs,
                query_samples=batch.ids[graph_of],
                key_samples=batch.ids,
                group=groups[self.config.share],
                copies=graphs.copies,
            )
        ]

    def forward(self, samples: GraphBatch) -> Float[Tensor, "graph feature"]:
        """The vector of each graph, before the head."""
        features: Tensor = self.encoder(samples)[1]
        return features

    def parts_to_compile(self) -> list[nn.Module]:
        """The heads. The compiler cannot translate the sums over neighbours."""
        return [self.local_head, self.whole_head]


INFOGRAPH = FrameworkKind(
    config=InfoGraphConfig,
    build=InfoGraph,
    modality=GRAPHS,
    recipes=Recipes(
        # InfoGraph's README and HCL's launch script, except its 200 epochs: Adam without decay, three layers of 32.
        reference={"optimiser": "adam", "learning_rate": 1e-3, "weight_decay": 0.0, "hidden": 32, "layers": 3},
    ),
)
