"""Time and memory of a diagnosis of many embeddings, with the search of faiss and with that of torch."""

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
from pucl.diagnosis.diagnose import diagnose
from pucl.diagnosis.neighbours import faiss_is_installed
from pucl.diagnosis.suspects import Suspects
from pucl.texts import percent, table

AIM_SECONDS, AIM_BYTES = 600.0, 4 * 2**30  # For a million samples of 128 dimensions on two cores.
SAME = 0.999  # Share of pairs that both searches must find: rounding may swap the last ones.
BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class DiagnoseSettings(Settings):
    """What is measured."""

    samples: int = option(1_000_000, "number of samples", least=1000)
    dim: int = option(128, "dimension of the embeddings", least=8)
    classes: int = option(100, "number of classes", least=2)
    pairs: int = option(1000, "number of suspects to list")
    threads: int = option(usable_cores, "threads of torch and of faiss")


@dataclass(frozen=True, kw_only=True)
class DiagnoseReport(Report):
    """Time and memory.

    Args:
        diagnosis_seconds: Time from embeddings to the share, its costs and the advice.
        suspects_seconds: Time to list suspects, by what searched.
        peak: Resident memory at most, embeddings included, in a fresh process with the search that is used by default.
        share: The estimate.
        interval: Its interval.
        truth: The share by the labels.
        of_one_class: Share of the suspects that are of one class.
        same: Share of the suspects by torch that faiss lists too; None without faiss.
    """

    diagnosis_seconds: float
    suspects_seconds: dict[str, float]
    peak: Peak
    share: float | None
    interval: tuple[float, float] | None
    truth: float
    of_one_class: float
    same: float | None

    def table(self) -> str:
        """One line."""
        searches = list(self.suspects_seconds)
        memory = self.peak.missing or f"{(self.peak.bytes or 0) / 1e6:,.0f}"
        line = [f"{self.diagnosis_seconds:.1f}", *(f"{self.suspects_seconds[each]:.1f}" for each in searches), memory]
        return table([["diagnosis s", *(f"suspects s ({each})" for each in searches), "memory MB"], line])

    def notes(self) -> list[str]:
        """The aim, and the answer itself."""
        if self.share is None or self.interval is None:
            answer = "it cannot be told"
        else:
            low, high = self.interval
            answer = f"{percent(self.share)} ({percent(low)} to {percent(high)})"
        return [
            f"The aim is {AIM_SECONDS / 60:g} minutes and {AIM_BYTES / 2**30:g} GiB for a million samples of 128 "
            f"dimensions on two cores. Share of false negatives: {answer}, by the labels {percent(self.truth)}. Of the "
            f"suspects {percent(self.of_one_class)} are of one class."
        ]

    def failures(self) -> list[str]:
        """Whether the two searches list other pairs."""
        if self.same is None or self.same >= SAME:
            return []
        return [f"faiss and torch must list the same pairs, but share {percent(self.same)} of them"]


def embeddings(settings: DiagnoseSettings) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Random embeddings around the means of their classes."""
    numbers = np.random.default_rng(0)
    labels = numbers.integers(settings.classes, size=settings.samples)
    means = 0.3 * numbers.standard_normal((settings.classes, settings.dim), dtype=np.float32)
    rows = np.empty((settings.samples, settings.dim), np.float32)
    for start in range(0, settings.samples, BLOCK):
        block = labels[start : start + BLOCK]
        rows[start : start + BLOCK] = means[block]
        rows[start : start + BLOCK] += numbers.standard_normal((len(block), settings.dim), dtype=np.float32) / 4
    return rows, labels


def ready_step(**settings: int) -> Step:
    """A step for `peak_in_child`: it makes the embeddings as well, so that they count."""
    chosen = DiagnoseSettings(**settings)

    def step() -> object:
        with torch_threads(chosen.threads):
            return diagnose(embeddings(chosen)[0]).suspects(chosen.pairs)

    return step


def measure_diagnosis(settings: DiagnoseSettings, progress: Callable[[str], object]) -> DiagnoseReport:
    """Time and memory of a diagnosis of many embeddings, and of its list of suspects."""
    progress("embeddings")
    rows, labels = embeddings(settings)
    found: dict[str, Suspects] = {}
    seconds: dict[str, float] = {}
    with torch_threads(settings.threads):
        progress("diagnosis")
        began = time.perf_counter()
        result = diagnose(rows)
        diagnosis_seconds = time.perf_counter() - began
        for name in ["faiss", "torch"] if faiss_is_installed() else ["torch"]:
            progress(f"suspects, {name}")
            began = time.perf_counter()
            found[name] = result.suspects(settings.pairs, use_faiss=name == "faiss")
            seconds[name] = time.perf_counter() - began
    listed = {name: {(pair.first, pair.second) for pair in pairs} for name, pairs in found.items()}
    same = len(listed["torch"] & listed["faiss"]) / len(listed["torch"]) if "faiss" in listed else None
    of_one_class = [labels[pair.first] == labels[pair.second] for pair in found["torch"]]
    share, interval, truth = result.share, result.interval, float(np.square(np.bincount(labels) / len(labels)).sum())
    del result, found, rows
    progress("memory")
    return DiagnoseReport(
        diagnosis_seconds=diagnosis_seconds,
        suspects_seconds=seconds,
        peak=peak_in_child(
            f"{__name__}:ready_step",
            {name: getattr(settings, name) for name in ("samples", "dim", "classes", "pairs", "threads")},
        ),
        share=share,
        interval=interval,
        truth=truth,
        of_one_class=float(np.mean(of_one_class)),
        same=same,
    )
