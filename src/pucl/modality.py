"""What a modality is: a kind of sample, with its data, views, encoders and words.

A modality is a folder. It has a configuration, a `Task` for the data of a run, a `Trained` for the encoder of a
finished run, and a `Modality` that names them. `pucl.modalities` has the table of modalities.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pucl.config import RunConfig
from pucl.data.source import Source
from pucl.recipe import Recipes
from pucl.samples import (
    ComparedSamples,
    EmbeddedData,
    EmbeddedSamples,
    Features,
    Indices,
    Labels,
    ShownSamples,
    Thumbnails,
)
from pucl.training.framework import Batch, Framework
from pucl.training.loop import SampleSet

EncoderSource = str | nn.Module | Callable[..., nn.Module]
"""What makes an encoder: a name or import path, a class or function, or a module that is used as it is."""

ReportProgress = Callable[[int, int], None]
"""Called with the number of samples that are done, and of all."""


@runtime_checkable
class Task(Protocol):
    """The data of a run: how they are trained on, measured and shown."""

    @property
    def samples(self) -> SampleSet[Any]:
        """The samples to train on."""
        ...

    @property
    def labels(self) -> Labels | None:
        """Their classes, for the oracle; None if unknown."""
        ...

    @property
    def names(self) -> tuple[str, ...] | None:
        """Where each sample to train on is from, or what it is, in words; None if its index is enough."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the data for the user."""
        ...

    @property
    def shape(self) -> Any:
        """The shape of the samples, which a framework needs when it is built."""
        ...

    @property
    def embedded(self) -> EmbeddedSamples:
        """The samples whose features are kept."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Counts and checksums that distinguish these data and their labels from others. It need not read all."""
        ...

    def need_packages(self) -> None:
        """Raise if a package is missing that evaluation needs. It is called before the training."""
        ...

    def monitor(self, framework: nn.Module) -> Callable[[], dict[str, float]] | None:
        """A function that measures embeddings of training samples, by probe; None without labels."""
        ...

    def can_be_probed(self) -> bool:
        """Whether there are the labels that probes need, of at least two classes."""
        ...

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        """The numbers of the probes, and the features themselves."""
        ...

    def about(self, framework: Framework[Any]) -> dict[str, Any]:
        """The note of the encoder file, for users who have only that file: ``features``, and more."""
        ...

    def thumbnails(self, indices: Indices, budget: int) -> tuple[Thumbnails, str]:
        """Some of the embedded samples, small enough for a page, and a note on them.

        Args:
            indices: Indices of the samples.
            budget: Number of bytes that they may take.
        """
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Portable:
    """An encoder as a module that takes tensors alone, so that it runs without pucl.

    Args:
        module: Takes the inputs in their order, and returns features [sample, feature]. All that it does to them can be
            traced, with any number of samples.
        axes: The axes of each input by name. A name of an axis stands for any length.
        draw: Makes inputs at random, and the rows that pucl itself has for them: ``draw(count, generator)``.
        inputs: What the inputs are, in words.
        usage: Lines of Python that make ``inputs``, a dictionary of arrays, without pucl.
    """

    module: nn.Module
    axes: Mapping[str, tuple[str | int, ...]]
    draw: Callable[[int, torch.Generator], tuple[tuple[Tensor, ...], Features]]
    inputs: str
    usage: str


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnFormat:
    """A format of another library, in which an encoder of this kind is usually kept.

    Args:
        library: What Hugging Face's hub calls that library.
        write: Writes the encoder to an existing directory, reads it with that library, and returns rows of features as
            the library computes them and as pucl does.
        usage: Lines of Python that read the directory and embed something.
    """

    library: str
    write: Callable[[Path], tuple[Features, Features]]
    usage: str


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
        self, source: str | Path, *, root: Path | None, progress: ReportProgress, note: Callable[[str], None]
    ) -> EmbeddedData:
        """Embed a data set.

        `source` is a known name or a path. `progress` is called after each batch, `note` with each note on the data.
        """
        ...

    def evaluate(
        self, probes: Sequence[str] | None, *, source: str | None, root: Path | None, progress: ReportProgress
    ) -> tuple[dict[str, float], int]:
        """Measure with probes: their numbers, and the number of training samples.

        By default the probes and the data are those of the run.
        """
        ...

    def choose_to_show(self, choose: Callable[[Labels | None, int], Indices], *, root: Path | None) -> ShownSamples:
        """Embed some samples of the run's data; `choose` returns their indices, given labels and count."""
        ...

    def compare_samples(
        self, choose: Callable[[int], Indices], *, root: Path | None, generator: torch.Generator
    ) -> ComparedSamples:
        """Embed some training samples in the space in which the loss compares them.

        `choose` returns their indices, given the count. The generator is the source of random views.
        """
        ...

    def portable(self, *, floats: bool = False) -> Portable:
        """The encoder without pucl, for ``pucl export``; `floats` for images that are floats from 0 to 1.

        Raises:
            ValueError: If there is no such form. The message says what to do instead.
        """
        ...

    @property
    def own_formats(self) -> Mapping[str, OwnFormat]:
        """Formats of other libraries that the encoder can be written in, by name; often none."""
        ...


@runtime_checkable
class Views(Protocol):
    """Random views of samples, for frameworks that compare two views of a sample."""

    def see(self, batch: Batch[Any], /) -> Any:
        """One random view of each sample of a step, ready for the encoder.

        Every process draws the random numbers of the whole step, and uses those of its own part of the batch.
        """
        ...

    def __call__(self, samples: Any, generator: torch.Generator, /) -> Any:
        """One random view of each of these samples."""
        ...

    def plain(self, samples: Any, /) -> Any:
        """Prepare samples for the encoder without random choices, for evaluation."""
        ...


@dataclass(frozen=True, kw_only=True)
class Modality:
    """A kind of sample.

    Args:
        name: What several samples are called: ``"images"``. The table of modalities has it under this name.
        unit: What one sample is called: ``"image"``.
        word: What users call data of this kind: ``"pictures"``.
        config: The settings of its runs. The settings of a framework are added to them.
        sources: The data sets that are known by name.
        find_source: Finds one of them by what a user calls it; None if it is unknown.
        paths: What a path to data of this kind can be, in words.
        columns: What `Source.samples`, `classes` and `size` are called in a table.
        reads: Whether the file or directory of this path holds data of this kind.
        open: Opens the data of a run: ``open(config, root)``.
        shape_of: Reads `Task.shape` from the note of an encoder file. Raises `MismatchError`.
        revive: Makes the `Trained` of a framework with its weights: ``revive(config, framework, about)``.
        make_views: Makes the random views of a run: ``make_views(config, shape)``. None where samples have no random
            views; frameworks that compare views then refuse them.
        make_encoder: Makes the encoder of views, with random weights: ``make_encoder(config, shape, source)``. It is a
            module with an attribute ``features``, the dimension of its output. The source is the `EncoderSource` that
            the caller gave, or None.
        probed_on: What accuracies are measured on, in words.
        labels_needed: Which labels this takes, in words.
        hub_task: What Hugging Face's hub calls the task of its encoders.
        recipes: The settings that its runs start from, where they differ from the defaults.
        extra_rows: Rows of a comparison beside those that all modalities have.
        side_by_side: Whether runs are so small that several are best run at a time.
        most_maps: Maps of embeddings that a page has at most.
        most_points: Samples that a map has at most.
    """

    name: str
    unit: str
    word: str
    config: type[RunConfig]
    sources: Mapping[str, Source[Any]]
    find_source: Callable[[str], Source[Any] | None]
    paths: str
    columns: tuple[str, str, str]
    reads: Callable[[Path], bool]
    open: Callable[[Any, Path | None], Task]
    shape_of: Callable[[Mapping[str, Any]], Any]
    revive: Callable[[Any, Any, Mapping[str, Any]], Trained]
    make_views: Callable[[Any, Any], Views] | None = None
    make_encoder: Callable[[Any, Any, EncoderSource | None], nn.Module] | None = None
    probed_on: str
    labels_needed: str
    hub_task: str = "feature-extraction"
    recipes: Recipes = field(default_factory=Recipes)
    extra_rows: tuple[str, ...] = ()
    side_by_side: bool = False
    most_maps: int = 8
    most_points: int = 100_000

    def knows(self, name: str) -> bool:
        """Whether there is a data set of this name."""
        return self.find_source(name) is not None
