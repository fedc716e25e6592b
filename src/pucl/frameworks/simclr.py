"""SimCLR: the other samples of the batch are unlabelled."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from pucl import processes
from pucl.config import CosineConfig
from pucl.contrast.pairing import pair_views
from pucl.contrast.pairs import Pairs
from pucl.frameworks.kind import FrameworkKind, encoder_and_views
from pucl.modality import EncoderSource
from pucl.recipe import Recipes
from pucl.settings import setting
from pucl.together import pair_views_together
from pucl.training.framework import Batch, Framework

HIDDEN = 512  # The width of the head's hidden layer, as in the DCL and HCL programs.


@dataclass(frozen=True, kw_only=True)
class SimCLRConfig(CosineConfig):
    """SimCLR: all other samples of the batch are unlabelled."""

    framework: str = "simclr"
    view_count: int = setting(2, "views of each sample; more than two give several positives", group="views")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.view_count < 2:
            raise ValueError(
                f"views of one sample are each other's positives: expected at least 2, got {self.view_count}"
            )

    def pairs_met(self, samples: int) -> tuple[int, int]:
        """The other views of the sample, and all views of the other samples."""
        _, others = super().pairs_met(samples)
        return self.view_count - 1, self.view_count * others


class SimCLR(Framework[Any]):
    """Two or more random views of each sample; all views of all other samples are unlabelled.

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020.
    """

    def __init__(self, config: SimCLRConfig, shape: Any, encoder: EncoderSource | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.views, features = encoder_and_views(config, shape, encoder)
        self.head = nn.Sequential(
            nn.Linear(features, HIDDEN, bias=False),  # The batch norm has a bias.
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(inplace=True),
            nn.Linear(HIDDEN, config.dim),
        )

    def pairs(self, batch: Batch[Any]) -> list[Pairs]:
        """Compare every view with all views, of all processes. Batch norm sees one view at a time."""
        embeddings = [self.head(self.encoder(self.views.see(batch))) for _ in range(self.config.view_count)]
        pair = pair_views_together if processes.world_size() > 1 else pair_views
        return [pair(embeddings, temperature=self.config.temperature, samples=batch.ids)]


SIMCLR = FrameworkKind(
    config=SimCLRConfig,
    build=SimCLR,
    recipes=Recipes(
        # chingyaoc/DCL and joshr17/HCL: Adam without a schedule, temperature 0.5, batch 256.
        reference={"temperature": 0.5, "optimiser": "adam", "learning_rate": 1e-3, "weight_decay": 1e-6},
        # Chosen on validation images of CIFAR10 (docs/decisions.md).
        small={
            "blur": 0.0,
            "learning_rate": 2e-3,
            "epochs": 30,
            "temperature": 0.2,
            "crop": 0.3,
            "coarse": 0.8,
            "scales": 3,
        },
    ),
)
