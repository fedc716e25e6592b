"""What the table of frameworks knows of each: its configuration, its builder, its modality and its settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pucl.config import RunConfig
from pucl.modality import Modality
from pucl.training.framework import Framework

Settings = Mapping[str, Any]
"""Fields of a configuration."""


@dataclass(frozen=True, kw_only=True)
class FrameworkKind:
    """One line of the table of frameworks.

    Args:
        config: The configuration of its runs.
        build: Makes the framework with fresh weights, on the CPU: ``build(config, shape)``, where the shape is that of
            the samples (`Task.shape`), and for images ``encoder=``, what makes the encoder.
        modality: What its samples are.
        reference: Settings of the reference program, where they differ from the defaults.
        paper: What the paper changes in those.
        small: What two CPU cores change in those.
    """

    config: type[RunConfig]
    build: Callable[..., Framework[Any]]
    modality: Modality
    reference: Settings = field(default_factory=dict)
    paper: Settings = field(default_factory=dict)
    small: Settings = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What users call it."""
        return str(getattr(self.config, "framework"))  # noqa: B009 - the default of a field, which is on the class.
