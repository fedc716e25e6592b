"""The settings of runs on graphs."""

from dataclasses import dataclass
from typing import ClassVar

from pucl.config import RunConfig, choose
from pucl.graphs.features import CHOICES

GRAPH_PROBES = ("svm", "svm_scaled", "linear", "knn")
"""Classifiers of graphs: the references' support vector machine, the same on scaled features, linear, neighbours."""


@dataclass(frozen=True, kw_only=True)
class GraphConfig(RunConfig):
    """A run on graphs: the settings that all frameworks for graphs have.

    Args:
        features: What is seen of a node: ``"default"``, ``"labels"``, ``"attributes"``, ``"labels+attributes"``,
            ``"degree"`` or ``"ones"``.
        hidden: Dimension of each layer of the encoder.
        layers: Layers of the encoder; a node sees its surroundings as far as so many steps.
        probes: Classifiers that are fitted in the end, separated by commas.
    """

    keep_rest: ClassVar[bool] = True

    epochs: int = 20
    batch_size: int = 128
    weight_decay: float = 0.0
    features: str = "default"
    hidden: int = 32
    layers: int = 3
    probes: str = ",".join(GRAPH_PROBES)

    def __post_init__(self) -> None:
        super().__post_init__()
        for probe in self.probes.split(","):
            choose("classifier of graphs", probe, GRAPH_PROBES)
        choose("features", self.features, CHOICES)
        if self.seed >= 2**32:
            raise ValueError(f"seed is that of the folds too: expected below 2^32 for graphs, got {self.seed}")
        if self.precision != "float32":
            raise ValueError(
                "sums over the nodes of a graph are too large for half precision: expected precision float32, got "
                f"{self.precision}"
            )
