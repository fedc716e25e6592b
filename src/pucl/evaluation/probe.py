"""What a probe is: one way to measure frozen embeddings, with the numbers that it reports.

A probe is one file of this folder and one line of `pucl.evaluation.PROBES`.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import ExtraMissingError

LEADING = ""
"""The key of the number that stands for its probe."""


class Labelled(NamedTuple):
    """Samples with known classes.

    Args:
        features: Embeddings, [sample, dim].
        labels: The class of each sample, [sample]: 0, 1, 2, ...
    """

    features: NDArray[np.floating]
    labels: NDArray[np.integer]

    def take(self, indices: NDArray[np.integer]) -> "Labelled":
        """Some of the samples."""
        return Labelled(self.features[indices], self.labels[indices])


class Split(NamedTuple):
    """Samples to learn from, and other samples to test with."""

    train: Labelled
    test: Labelled


@dataclass(frozen=True, eq=False, kw_only=True)
class ProbedSamples:
    """What probes are given.

    Args:
        splits: Every classifier is fitted and tested on each split; its accuracy is the mean over the splits.
        tested: All test samples, each once. Probes that fit nothing measure these.
        seed: Seed of a probe's random draws.
    """

    splits: tuple[Split, ...]
    tested: Labelled
    seed: int = 0


def train_and_test(
    train: Labelled, test: Labelled, parts: tuple[NDArray[np.integer], ...] | None = None
) -> ProbedSamples:
    """A training set and a test set.

    Args:
        train: The training set.
        test: The test set.
        parts: Indices into the training set, where the data prescribe that classifiers learn from one part at a time
            (STL10's protocol).
    """
    learned = [train] if parts is None else [train.take(part) for part in parts]
    return ProbedSamples(splits=tuple(Split(each, test) for each in learned), tested=test)


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number that a probe reports: a share, which tables show in percent.

    Args:
        name: Its name in a sentence: "by the linear classifier".
        short: Its name above a column.
        higher_is_better: False for errors and costs.
    """

    name: str
    short: str
    higher_is_better: bool = True


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The result of a probe.

    Args:
        numbers: By the keys of `Probe.numbers`. A number that the samples do not allow is absent.
        details: More for the record, by name, such as the accuracy on each fold. Tables do not show it.
    """

    numbers: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One way to measure frozen embeddings.

    Args:
        about: What it measures, in one line for the help.
        numbers: What it reports. The key `LEADING` is the number that stands for the probe; in a record it has the
            name of the probe. Any other key is appended to that name: ``clustering_ari``.
        measure: Takes `ProbedSamples` and the settings as keywords.
        settings: Keywords of `measure` that differ from its defaults.
        need_packages: Raises `ExtraMissingError` if a package is not installed.
        by_default: Whether runs use it by default.
        monitored: Whether it is also measured during a training, on held-out training samples.
    """

    about: str
    numbers: Mapping[str, Number]
    measure: Callable[..., Measured]
    settings: Mapping[str, Any] = field(default_factory=dict)
    need_packages: Callable[[], object] = lambda: None
    by_default: bool = True
    monitored: bool = False

    @property
    def installed(self) -> bool:
        """Whether the packages that it needs are installed."""
        try:
            self.need_packages()
        except ExtraMissingError:
            return False
        return True


def need_sklearn(module: str, purpose: str) -> Any:
    """A module of scikit-learn such as ``"svm"``, imported on first use; `ExtraMissingError` if it is not installed."""
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise ExtraMissingError(purpose, "scikit-learn") from error


def record_key(probe: str, number: str) -> str:
    """The name under which a record has a number of a probe.

    Example:
        >>> record_key("clustering", LEADING), record_key("clustering", "ari")
        ('clustering', 'clustering_ari')
    """
    return probe if number == LEADING else f"{probe}_{number}"


def measure(samples: ProbedSamples, probes: Mapping[str, Probe]) -> dict[str, Any]:
    """Measure embeddings with several probes.

    Args:
        samples: The embeddings.
        probes: The probes by name.

    Returns:
        The fields of a record: every number under its `record_key`, and every detail by its name and then by probe,
        such as ``{"knn": 0.9, "folds": {"knn": [0.8, 1.0]}}``.
    """
    record: dict[str, Any] = {}
    for name, probe in probes.items():
        found = probe.measure(samples, **probe.settings)
        record |= {record_key(name, number): value for number, value in found.numbers.items()}
        for detail, value in found.details.items():
            record.setdefault(detail, {})[name] = value
    return record
