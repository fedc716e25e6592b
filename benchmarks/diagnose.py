"""Time and memory of a diagnosis of many embeddings, with the search of faiss and with that of torch."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory import Peak, peak_memory
from benchmarks.options import Settings, option
from benchmarks.report import Report
from benchmarks.timing import torch_threads
from pucl.devices import usable_cores
from pucl.diagnosis.diagnose import Diagnosis, diagnose
from pucl.diagnosis.neighbours import faiss_is_installed
from pucl.diagnosis.suspects import Suspects
from pucl.estimation.communities import share_of_pairs
from pucl.texts import percent, table

AIM_SECONDS, AIM_BYTES = 600.0, 4 * 2**30  # For a million samples of 128 dimensions on two cores.
SAME = 0.999  # Share of pairs that both searches must find: rounding may swap the last ones.
BLOCK = 1 << 16
DIAGNOSIS = "diagnosis"


@dataclass(frozen=True, kw_only=True)
class DiagnoseSettings(Settings):
    """What is measured."""

    samples: int = option(1_000_000, "number of samples", least=1000)
    dim: int = option(128, "dimension of the embeddings", least=8)
    classes: int = option(100, "number of classes", least=2)
    pairs: int = option(1000, "number of suspects to list")
    threads: int = option(usable_cores, "threads of torch and of faiss")


@dataclass(frozen=True, kw_only=True)
class Time:
    """Time by the clock, and summed over the cores: the second does not depend on other work of the machine."""

    seconds: float
    processor_seconds: float


@dataclass(frozen=True, kw_only=True)
class DiagnoseReport(Report):
    """Time and memory.

    Args:
        diagnosis: From embeddings to the share, its costs and the advice.
        suspects: To list suspects, by what searched.
        peak: By how much memory rises at most, embeddings included, with the search that is used by default.
        share: The estimate.
        interval: Its interval.
        truth: The share by the labels.
        of_one_class: Share of the suspects that are of one class.
        same: Share of the suspects by torch that faiss lists too; None without faiss.
    """

    diagnosis: Time
    suspects: dict[str, Time]
    peak: Peak
    share: float | None
    interval: tuple[float, float] | None
    truth: float
    of_one_class: float
    same: float | None

    def table(self) -> str:
        """A line for each part."""
        parts = {DIAGNOSIS: self.diagnosis} | {f"suspects, {name}": each for name, each in self.suspects.items()}
        rows = [[name, f"{each.seconds:.1f}", f"{each.processor_seconds:.1f}"] for name, each in parts.items()]
        return table([["part", "seconds", "processor seconds"], *rows])

    def notes(self) -> list[str]:
        """The aim, and the answer itself."""
        if self.share is None or self.interval is None:
            answer = "it cannot be told"
        else:
            low, high = self.interval
            answer = f"{percent(self.share)} ({percent(low)} to {percent(high)})"
        memory = self.peak.missing or f"{(self.peak.bytes or 0) / 2**30:.2f} GiB"
        return [
            f"Memory: {memory}.",
            f"The aim is {AIM_SECONDS / 60:g} minutes and {AIM_BYTES / 2**30:g} GiB for a million samples of 128 "
            f"dimensions on two cores. Share of false negatives: {answer}, by the labels {percent(self.truth)}. Of the "
            f"suspects {percent(self.of_one_class)} are of one class.",
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


def measure_diagnosis(settings: DiagnoseSettings, progress: Callable[[str], object]) -> DiagnoseReport:
    """Time and memory of a diagnosis of many embeddings, and of its list of suspects."""
    searches = ["faiss", "torch"] if faiss_is_installed() else ["torch"]
    times: dict[str, Time] = {}
    found: dict[str, Suspects] = {}
    answers: list[Diagnosis] = []
    truth: list[NDArray[np.int64]] = []

    def list_suspects(search: str) -> None:
        progress(f"suspects, {search}")
        with _timed(times, search):
            found[search] = answers[0].suspects(settings.pairs, use_faiss=search == "faiss")

    def step() -> None:
        progress("diagnosis")
        rows, labels = embeddings(settings)
        truth.append(labels)
        with _timed(times, DIAGNOSIS):
            answers.append(diagnose(rows))
        list_suspects(searches[0])

    with torch_threads(settings.threads):
        peak = peak_memory(step)
        for search in searches[1:]:
            list_suspects(search)
    (labels,), (answer,) = truth, answers
    listed = {name: {(pair.first, pair.second) for pair in pairs} for name, pairs in found.items()}
    return DiagnoseReport(
        diagnosis=times.pop(DIAGNOSIS),
        suspects=times,
        peak=peak,
        share=answer.share,
        interval=answer.interval,
        truth=share_of_pairs(labels),
        of_one_class=float(np.mean([labels[pair.first] == labels[pair.second] for pair in found["torch"]])),
        same=len(listed["torch"] & listed["faiss"]) / len(listed["torch"]) if "faiss" in listed else None,
    )


@contextmanager
def _timed(times: dict[str, Time], name: str) -> Iterator[None]:
    began, processor = time.perf_counter(), time.process_time()
    yield
    times[name] = Time(seconds=time.perf_counter() - began, processor_seconds=time.process_time() - processor)
