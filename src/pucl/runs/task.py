"""What a run does that depends on its kind of data: one protocol for images and graphs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.frameworks.framework import Framework
from pucl.runs.config import GraphConfig, ImageConfig, RunConfig
from pucl.training.loop import SampleSet


@runtime_checkable
class Task(Protocol):
    """Data, and what is made of them before and after the training."""

    @property
    def unit(self) -> str:
        """What a sample is, as one says it of many: ``"images"`` or ``"graphs"``."""
        ...

    @property
    def samples(self) -> SampleSet[Any]:
        """What is trained on."""
        ...

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Their classes, for the oracle; None where they are not known."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the data."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """What tells these data from others, with their labels, without reading them all."""
        ...

    def build(self, device: torch.device, *, compiled: bool) -> Framework[Any]:
        """The framework with fresh weights, which depend on the seed alone."""
        ...

    def need_packages(self) -> None:
        """Say what is not installed that evaluation will need, before a training is begun."""
        ...

    def never_corrects(self, steps: int) -> str | None:
        """Why nothing would be corrected in a training of so many steps; None if something will."""
        ...

    def monitor(self, framework: Framework[Any]) -> Callable[[], float] | None:
        """What tells the accuracy of nearest neighbours within the training samples; None without labels."""
        ...

    def can_be_probed(self) -> bool:
        """Whether there are labels to go by: of two classes at least."""
        ...

    def evaluate(self, framework: Framework[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Accuracies of classifiers on frozen features, 0 to 1, and the features themselves."""
        ...

    def about(self, framework: Framework[Any]) -> dict[str, Any]:
        """What someone needs to know who has nothing but the weights."""
        ...


def make_task(config: RunConfig, root: Path | None = None) -> Task:
    """Load the data of a run.

    Args:
        config: What to run.
        root: Where data are; see `pucl.images.registry.load` and `pucl.images.registry.load_graphs`.
    """
    if isinstance(config, GraphConfig):
        from pucl.graphs.task import GraphTask  # noqa: PLC0415 - it imports its protocol from here.

        return GraphTask(config, root)
    if isinstance(config, ImageConfig):
        from pucl.images.task import ImageTask  # noqa: PLC0415

        return ImageTask(config, root)
    raise TypeError(f"a run is on images or on graphs, got a {type(config).__name__}")
