"""The settings of runs on graphs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pucl.config import RunConfig, check_known
from pucl.graphs.features import CHOICES
from pucl.settings import setting


@dataclass(frozen=True, kw_only=True)
class GraphConfig(RunConfig):
    """A run on graphs: the settings that all frameworks for graphs have."""

    keep_rest: ClassVar[bool] = True
    raw_features: ClassVar[bool] = True
    unfit_probes: ClassVar[tuple[str, ...]] = ("linear-reference",)  # Its recipe needs 10,000 samples.
    probe_settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {"knn": {"k": 10}}  # 200 would be half of PTC.

    modality: str = "graphs"
    epochs: int = 20
    batch_size: int = 128
    weight_decay: float = 0.0
    features: str = setting(
        "default",
        "features of a node; default: labels, without labels attributes, without either the degree",
        group="data",
        choices=lambda _: CHOICES,
    )
    hidden: int = setting(32, "dimension of each layer of the encoder", group="encoder")
    layers: int = setting(3, "layers of the encoder; a node sees neighbours up to this distance", group="encoder")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("features", self.features, CHOICES)
        if self.seed >= 2**32:
            raise ValueError(f"seed is also the seed of the folds: expected below 2^32 for graphs, got {self.seed}")
        if self.precision != "float32":
            raise ValueError(
                "sums over the nodes of a graph are too large for half precision: expected precision float32, got "
                f"{self.precision}"
            )
