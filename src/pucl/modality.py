"""What a modality is: a kind of sample, with its data, its words, and what a run does with them.

A modality is a folder. It has a `Task` for the data of a run, a `Trained` for the encoder of a finished one, and one
`Modality` that names them; frameworks refer to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.config import RunConfig
from pucl.training.framework import Framework
from pucl.training.loop import SampleSet

Labels = NDArray[np.int64]
Indices = NDArray[np.int64]
Features = NDArray[np.float32]

Progress = Callable[[int, int], None]
"""Told how many samples are done, and of how many."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbeddedSamples:
    """The samples whose features a run keeps under the name ``train``.

    Args:
        count: How many.
        labels: Their classes; None where they are not known.
        classes: Names of the classes.
    """

    count: int
    labels: Labels | None
    classes: tuple[str, ...]


@runtime_checkable
class Task(Protocol):
    """The data of a run, and what is done with them before and after the training."""

    @property
    def samples(self) -> SampleSet[Any]:
        """The samples to train on."""
        ...

    @property
    def labels(self) -> Labels | None:
        """Their classes, for the oracle; None where they are not known."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the data."""
        ...

    @property
    def shape(self) -> Any:
        """The shape of the samples, for which a framework is built."""
        ...

    @property
    def embedded(self) -> EmbeddedSamples:
        """The samples whose features are kept."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """What distinguishes these data from others, with their labels, without reading them all."""
        ...

    def need_packages(self) -> None:
        """Raise if a package is missing that evaluation will need, before a training begins."""
        ...

    def monitor(self, framework: nn.Module) -> Callable[[], float] | None:
        """A function that measures the accuracy of nearest neighbours among training samples; None without labels."""
        ...

    def can_be_probed(self) -> bool:
        """Whether there are labels of at least two classes to measure by."""
        ...

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        """Accuracies of classifiers on frozen features, 0 to 1, and the features themselves."""
        ...

    def about(self, framework: Framework[Any]) -> dict[str, Any]:
        """What someone needs to know who has nothing but the weights: ``features``, and more."""
        ...

    def thumbnails(self, indices: Indices, budget: int) -> tuple[dict[str, Any], str]:
        """Some of the embedded samples, drawn small for a page, and a note on them.

        Args:
            indices: Which samples.
            budget: Bytes that they may take.
        """
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbeddedData:
    """The features of a data set.

    Args:
        arrays: By name: features, labels, names and classes, as a ``.npz`` file holds them.
        rows: All features as one array, [sample, feature].
        parts: How many samples each part has; empty for data that are not in parts.
    """

    arrays: dict[str, NDArray[Any]]
    rows: Features
    parts: dict[str, int]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownSamples:
    """Some samples and their features, for a figure.

    Args:
        part: Which samples they are chosen from, such as ``"test"``.
        indices: Which of those.
        rows: Their features.
        labels: Their classes; None where they are not known.
        classes: Names of the classes.
    """

    part: str
    indices: Indices
    rows: Features
    labels: Labels | None
    classes: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedSamples:
    """All pairs of some training samples, compared as in training.

    Args:
        cosines: [anchor, anchor].
        pairs: Which of them are pairs of different samples, each once.
        positive: Cosines of known positives; None where there are none.
        labels: Classes of the anchors; None where they are not known.
        samples: How many samples the anchors were chosen from.
    """

    cosines: Tensor
    pairs: Tensor
    positive: Features | None
    labels: Tensor | None
    samples: int


@runtime_checkable
class Trained(Protocol):
    """The encoder of a finished run, in evaluation mode."""

    @property
    def config(self) -> RunConfig:
        """The run."""
        ...

    @property
    def module(self) -> nn.Module:
        """The framework."""
        ...

    @property
    def features(self) -> int:
        """The dimension of the features."""
        ...

    def encode(self, samples: Any, /) -> Features:
        """One row of features for each sample."""
        ...

    def embed_data(
        self, source: str | Path, *, root: Path | None, progress: Progress, note: Callable[[str], None]
    ) -> EmbeddedData:
        """Embed a data set.

        Args:
            source: A known name or a path.
            root: Where data are.
            progress: Told how far the work is.
            note: Told what a user should know of the data.
        """
        ...

    def evaluate(
        self, probes: Sequence[str] | None, *, source: str | None, root: Path | None, progress: Progress
    ) -> tuple[dict[str, float], int]:
        """Fit classifiers anew; their accuracies, 0 to 1, and on how many samples they were fitted.

        Args:
            probes: Which; None for the usual ones.
            source: A known name or a path; None for the run's own data.
            root: Where data are.
            progress: Told how far the embedding is.
        """
        ...

    def choose_to_show(self, choose: Callable[[Labels | None, int], Indices], *, root: Path | None) -> ShownSamples:
        """Choose samples of the run's data and embed them.

        Args:
            choose: Chooses indices, given labels and count.
            root: Where data are.
        """
        ...

    def compare_samples(
        self, choose: Callable[[int], Indices], *, root: Path | None, generator: torch.Generator
    ) -> ComparedSamples:
        """Compare training samples with each other, in the space in which the loss compares.

        Args:
            choose: Chooses indices, given the count.
            root: Where data are.
            generator: Source of random views.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Modality:
    """A kind of sample.

    Args:
        name: What many of them are called in results: ``"images"``.
        unit: What one is called: ``"image"``.
        word: What users call data of this kind: ``"pictures"``.
        knows: Whether data of this name are known.
        open: Opens the data of a run: ``open(config, root)``.
        shape_of: The shape that an encoder file tells of; see `Task.shape`. Raises `MismatchError`.
        revive: Makes the `Trained` of a framework with its weights: ``revive(config, framework, about)``.
        probed_on: What accuracies are measured on, in words.
        labels_needed: What it takes to measure them, in words.
        first_look: By data: settings of a first look.
        extra_rows: Rows of a comparison beside those that all modalities have.
        side_by_side: Whether runs are so small that several are best run at a time.
        most_maps: Maps of embeddings that a page has at most.
        most_points: Samples that a map has at most.
    """

    name: str
    unit: str
    word: str
    knows: Callable[[str], bool]
    open: Callable[[Any, Path | None], Task]
    shape_of: Callable[[Mapping[str, Any]], Any]
    revive: Callable[[Any, Any, Mapping[str, Any]], Trained]
    probed_on: str
    labels_needed: str
    first_look: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    extra_rows: tuple[str, ...] = ()
    side_by_side: bool = False
    most_maps: int = 8
    most_points: int = 100_000
