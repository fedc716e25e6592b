"""An entry of the table of frameworks, and the parts of a framework that a modality provides."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from pucl.config import AUTO, RunConfig
from pucl.modalities import MODALITIES
from pucl.modality import EncoderSource, Modality, Views
from pucl.recipe import Recipes
from pucl.training.framework import Framework


@dataclass(frozen=True, kw_only=True)
class FrameworkKind:
    """An entry of the table of frameworks.

    Args:
        config: The settings of its runs. The settings of a modality are added to them.
        build: The framework's class. ``build(config, shape, encoder)`` makes it with fresh weights on the CPU. The
            shape is that of the samples (`Task.shape`). The encoder is an `EncoderSource`, or None for the configured
            one.
        modality: The modality of its samples; None for every modality that has random views.
        recipes: The settings that its runs start from, where they differ from the defaults.
        correction: What its runs are corrected by, where nothing else is asked for.
    """

    config: type[RunConfig]
    build: Callable[..., Framework[Any]]
    modality: Modality | None = None
    recipes: Recipes = field(default_factory=Recipes)
    correction: str = AUTO

    @property
    def name(self) -> str:
        """The name on the command line."""
        return str(getattr(self.config, "framework"))  # noqa: B009 - the default of a field, which is on the class.

    def takes(self, modality: Modality) -> bool:
        """Whether it can be trained on samples of this modality."""
        return modality.make_views is not None if self.modality is None else modality is self.modality


def encoder_and_views(config: RunConfig, shape: Any, source: EncoderSource | None) -> tuple[nn.Module, Views, int]:
    """Make the encoder of a run, whose weights depend on the seed alone, and its random views.

    Args:
        config: The run.
        shape: The shape of the samples; see `pucl.modality.Task.shape`.
        source: Builds the encoder, instead of the one that the configuration names.

    Returns:
        Encoder, views, and the dimension of the encoder's output.
    """
    modality = MODALITIES[config.modality]
    if modality.make_views is None or modality.make_encoder is None:
        raise ValueError(
            f"{config.framework} compares random views: expected samples that have some, got {modality.name}"
        )
    torch.manual_seed(config.seed)
    encoder = modality.make_encoder(config, shape, source)
    return encoder, modality.make_views(config, shape), int(encoder.features)  # type: ignore[arg-type]
