"""Time and memory of exact retrieval among many samples."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory import Peak, Step, peak_in_child
from benchmarks.options import Settings, option
from benchmarks.report import Report
from benchmarks.timing import torch_threads
from pucl.devices import usable_cores
from pucl.evaluation.retrieval import rank_neighbours
from pucl.texts import table

AIM_SECONDS, AIM_BYTES = 3.0, 500e6  # For 10,000 samples of 128 dimensions on two cores.
CHECKED = 20  # Queries whose average precision is compared with scikit-learn's.


@dataclass(frozen=True, kw_only=True)
class RetrievalSettings(Settings):
    """What is measured."""

    samples: int = option(10_000, "number of samples; each is a query among all others", least=2)
    dim: int = option(128, "dimension of the embeddings")
    classes: int = option(10, "number of classes")
    threads: int = option(usable_cores, "threads of torch and of the ranking")
    rounds: int = option(5, "number of rounds")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 2 * self.classes:
            raise ValueError(
                f"samples is their number: expected two or more for each of {self.classes} classes, got {self.samples}"
            )


@dataclass(frozen=True, kw_only=True)
class RetrievalReport(Report):
    """Time and memory.

    Args:
        seconds: Time of each round.
        processor_seconds: The same, summed over the cores.
        peak: By how much memory rises at most, in a fresh process.
        mean_average_precision: The result.
        error: Largest difference to scikit-learn's average precision among some queries.
    """

    seconds: list[float]
    processor_seconds: list[float]
    peak: Peak
    mean_average_precision: float
    error: float

    def table(self) -> str:
        """One line."""
        line = [
            f"{statistics.median(self.seconds):.2f}",
            f"{min(self.seconds):.2f} to {max(self.seconds):.2f}",
            f"{statistics.median(self.processor_seconds):.2f}",
            self.peak.missing or f"{(self.peak.bytes or 0) / 1e6:.0f}",
        ]
        return table([["ranking s", "rounds s", "processor s", "memory MB"], line])

    def notes(self) -> list[str]:
        """The aim, and the result itself."""
        return [
            f"The aim is {AIM_SECONDS:g} s and {AIM_BYTES / 1e6:.0f} MB for 10,000 samples of 128 dimensions on two "
            f"cores. The mean average precision is {self.mean_average_precision:.4f}; single queries differ from "
            f"scikit-learn by at most {self.error:.1e}."
        ]

    def failures(self) -> list[str]:
        """Whether scikit-learn computes another result."""
        return [] if self.error < 1e-5 else ["average precision must be that of scikit-learn, but is not"]


def embeddings(settings: RetrievalSettings) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Random embeddings around the means of their classes."""
    generator = np.random.default_rng(0)
    labels = np.arange(settings.samples) % settings.classes
    means = 0.3 * generator.standard_normal((settings.classes, settings.dim))
    noise = generator.standard_normal((settings.samples, settings.dim))
    return (means[labels] + noise).astype(np.float32), labels


def ready_step(**settings: int) -> Step:
    """A step for `peak_in_child`."""
    chosen = RetrievalSettings(**settings)
    features, labels = embeddings(chosen)

    def step() -> object:
        with torch_threads(chosen.threads):
            return rank_neighbours(features, labels)

    return step


def measure_retrieval(settings: RetrievalSettings, progress: Callable[[str], object]) -> RetrievalReport:
    """Time and memory of exact retrieval: every sample is a query among all others."""
    features, labels = embeddings(settings)
    seconds, processor_seconds = [], []
    with torch_threads(settings.threads):
        found = rank_neighbours(features, labels)  # Not counted: it starts the threads.
        for number in range(settings.rounds):
            progress(f"round {number + 1} of {settings.rounds}")
            began, processor = time.perf_counter(), time.process_time()
            rank_neighbours(features, labels)
            seconds.append(time.perf_counter() - began)
            processor_seconds.append(time.process_time() - processor)
    progress("memory")
    names = ("samples", "dim", "classes", "threads")
    return RetrievalReport(
        seconds=seconds,
        processor_seconds=processor_seconds,
        peak=peak_in_child(f"{__name__}:ready_step", {name: getattr(settings, name) for name in names}),
        mean_average_precision=float(found.average_precision.mean()),
        error=_largest_error(features, labels, found.average_precision),
    )


def _largest_error(
    features: NDArray[np.float32], labels: NDArray[np.int64], average_precision: NDArray[np.float64]
) -> float:
    from sklearn.metrics import average_precision_score  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

    units = features / np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    errors = [0.0]
    for query in range(min(CHECKED, len(labels))):
        relevant, cosines = (np.delete(each, query) for each in (labels == labels[query], units @ units[query]))
        errors.append(abs(average_precision_score(relevant, cosines) - average_precision[query]))
    return float(max(errors))
