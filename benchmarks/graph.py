"""Time of training and evaluation on graphs: InfoGraph compared with its bare network, our SVM with scikit-learn's.

The baseline of training is the bare network: forward and backward of GIN and its two heads on the same batches, which
are made beforehand, with outputs summed instead of compared. Batches, loss, optimiser and logging are overhead. There
are two more baselines: the same network with layers of torch_geometric, if that is installed, which is slower than ours
and so less strict; and GIN alone, for which the heads are overhead too.
"""

import importlib.util
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.graph_steps import BareNetwork, in_epochs, make_steps
from benchmarks.machine import library_versions, machine_facts
from benchmarks.options import check_effort, check_names, option
from benchmarks.subject import Progress
from benchmarks.svm import Embedded, SVMRow, SVMSettings, measure_svm, pooled_features
from benchmarks.timing import MOST, Spread, interleave, torch_threads
from benchmarks.train import Figures
from pucl.config import RunConfig, Setting, choose
from pucl.contrast.correction import check_range
from pucl.corrections import CORRECTIONS
from pucl.data.root import DataMissingError
from pucl.devices import usable_cores
from pucl.evaluation.folds import FOLDS, can_be_folded
from pucl.evaluation.svm import INNER_FOLDS
from pucl.frameworks.infograph import InfoGraph, InfoGraphConfig, build
from pucl.frameworks.recipes import recipe
from pucl.graphs.sources.tu_collection import known_graphs
from pucl.graphs.task import GraphTask, embed_graphs
from pucl.runs.build import open_data
from pucl.runs.run import make_training

DATA = ("shapes", "PTC_MR", "ENZYMES", "DD", "REDDIT-BINARY")
CORRECTION_SETTINGS: dict[str, dict[str, Setting]] = {
    "plain": {},
    "deb": {"tau_plus": 0.5},
    "hard": {"tau_plus": 0.5, "beta": 1.0},
    "ring": {},
    "pucl": {"alpha": 0.5, "c": 0.02},
}
"""Settings of the corrections, for two balanced classes."""

TRAINING_AIM = 1.3
"""Largest ratio of training to the bare network that we aim for."""
EVALUATION_AIM = 2.5
"""Smallest ratio of scikit-learn's time with one process to ours that we aim for."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured, and for how long."""

    data: tuple[str, ...] = option(DATA, "which sets of graphs; a known set that is missing gets random embeddings")
    root: Path | None = option(None, "directory of the data sets (default: $PUCL_DATA or a cache)")
    limit: int | None = option(None, "use only this many graphs of a set (default: all)")
    corrections: tuple[str, ...] = option(("plain", "pucl"), "which of plain, deb, hard, ring and pucl")
    batch_size: int = option(128, "graphs in a step")
    threads: int = option(usable_cores, "threads of torch and of our SVM, and processes of scikit-learn")
    seconds: float = option(60.0, "about how long each correction is timed on each set")
    training: bool = option(True, "measure training compared with the bare network")
    svm: bool = option(True, "measure the SVM evaluation compared with scikit-learn")
    scale: bool = option(False, "measure the SVM evaluation with standardised features too")
    folds: int = option(FOLDS, "outer folds of the SVM evaluation")
    inner_folds: int = option(INNER_FOLDS, "folds in which C is chosen")
    rounds: int = option(1, "rounds of the SVM evaluation")

    def __post_init__(self) -> None:
        check_names("sets of graphs", self.data)
        check_names("corrections", self.corrections)
        for name in self.corrections:
            choose("correction", name, tuple(CORRECTIONS))
        if not (self.training or self.svm):
            raise ValueError("training and evaluation are what is measured: expected one of them or both, got neither")
        fewest = 2 if self.limit is None else self.limit
        check_range("limit", "how many graphs of a set are used", self.limit, "at least 2", fewest >= 2)
        check_range("batch_size", "the number of graphs in a step", self.batch_size, "at least 2", self.batch_size >= 2)
        check_effort(self.threads, self.seconds, "a correction is timed on a set")
        for name, parts in (("folds", self.folds), ("inner_folds", self.inner_folds)):
            check_range(name, "in how many parts the graphs are held back", parts, "at least 2", parts >= 2)
        check_range("rounds", "how often each contender is timed", self.rounds, "at least 1", self.rounds >= 1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Training with one correction on one set of graphs.

    Args:
        data: Name of the set.
        correction: Name of the correction.
        graphs: Number of graphs.
        features: Features of a node.
        batch: Graphs in a step.
        steps_per_epoch: Steps in an epoch of the training.
        unit: What one time covers: an ``"epoch"``, or a ``"step"`` if there was no time for `FEWEST` epochs.
        rounds: Number of epochs or steps that were timed.
        contenders: ``"training"`` (all of it), ``"network"`` (bare), ``"torch_geometric"`` (the network with its
            layers) and ``"gin"`` (the encoder alone); parts of the training alone: ``"batch"`` (making a batch),
            ``"loss"`` (forward and backward, from given embeddings) and ``"optimiser"``. If the training folds graphs
            also ``"folded_network"``, the bare network on folded graphs, and ``"whole_batch"``, making a batch that is
            not folded. Their ``nanoseconds_by_round`` are always those of steps.
        ratios: Ratios of times, such as ``"training/network"``, taken epoch by epoch or step by step.
    """

    data: str
    correction: str
    graphs: int
    features: int
    batch: int
    steps_per_epoch: int
    unit: str
    rounds: int
    contenders: dict[str, Figures]
    ratios: dict[str, Spread]


@dataclass(frozen=True, kw_only=True)
class Report:
    """Training and evaluation, with the versions and the machine that they depend on.

    Args:
        versions: Versions of libraries.
        machine: Facts of the machine.
        aims: Largest ratio of training to the bare network, and smallest ratio of scikit-learn to ours.
        training: One row for each set and correction; empty if training was not measured.
        svm: One row for each set; empty if the evaluation was not measured.
        made_up: Sets that are missing, which were evaluated on random embeddings of their size.
        notes: Sentences on what could not be measured.
    """

    versions: dict[str, str]
    machine: dict[str, object]
    aims: dict[str, float]
    training: list[Row]
    svm: list[SVMRow]
    made_up: list[str]
    notes: list[str]


def measure_graphs(settings: Settings, progress: Progress) -> Report:
    """Measure training and evaluation on every set."""
    machine = machine_facts() | {"threads": settings.threads}
    tasks: dict[str, GraphTask] = {}
    missing: dict[str, DataMissingError] = {}
    for name in settings.data:
        try:
            tasks[name] = _load(name, settings)
        except DataMissingError as error:
            if _published_size(name) is None:
                raise
            missing[name] = error
    if not tasks and not settings.svm:
        raise next(iter(missing.values()))  # Nothing is left to measure.
    for reason in missing.values():
        progress(f"continuing without a data set: {reason}")
    notes = []
    if missing and settings.training:
        notes.append(f"Not trained on: {', '.join(missing)}, not found; `pucl data get NAME` fetches a set.")
    with torch_threads(settings.threads):
        rows = _measure_trainings(tasks, settings, progress) if settings.training else []
        evaluations, unable = _measure_evaluations(tasks, missing, settings, progress) if settings.svm else ([], [])
    return Report(
        versions=library_versions(),
        machine=machine,
        aims={"training/network": TRAINING_AIM, "sklearn/ours": EVALUATION_AIM},
        training=rows,
        svm=evaluations,
        made_up=[name for name in missing if any(row.name == name for row in evaluations)],
        notes=notes + unable,
    )


def _measure_trainings(tasks: dict[str, GraphTask], settings: Settings, progress: Progress) -> list[Row]:
    cases = [(name, correction) for name in tasks for correction in settings.corrections]
    rows = []
    for number, (name, correction) in enumerate(cases, start=1):
        progress(f"{number} of {len(cases)}: training on {name} with {correction}")
        rows.append(_measure_training(name, correction, tasks[name], settings))
    return rows


def _measure_training(name: str, correction: str, task: GraphTask, settings: Settings) -> Row:
    config = replace(_config(name, settings), correction=correction, settings=CORRECTION_SETTINGS[correction])
    training, bare = make_training(config, _build(task).train(), task), BareNetwork(_build(task))
    steps = interleave(make_steps(training, bare, task.graphs), seconds=settings.seconds)
    timings, unit = in_epochs(steps, training.steps_per_epoch)
    return Row(
        data=name,
        correction=correction,
        graphs=len(task.graphs),
        features=task.graphs.feature_count,
        batch=min(config.batch_size, len(task.graphs)),
        steps_per_epoch=training.steps_per_epoch,
        unit=unit,
        rounds=timings.rounds,
        contenders={
            contender: Figures(milliseconds=timings.milliseconds(contender), nanoseconds_by_round=turns)
            for contender, turns in steps.nanoseconds.items()
        },
        ratios={
            f"{contender}/{bare}": timings.ratio(contender, bare)
            for bare in ("network", "torch_geometric", "gin")
            for contender in steps.nanoseconds
            if contender != bare and bare in steps.nanoseconds
        },
    )


def _measure_evaluations(
    tasks: dict[str, GraphTask], missing: Collection[str], settings: Settings, progress: Progress
) -> tuple[list[SVMRow], list[str]]:
    """Rows of evaluations, and sentences on sets that could not be evaluated."""
    if importlib.util.find_spec("sklearn") is None:
        return [], ["Not evaluated: scikit-learn is not installed: pip install scikit-learn."]
    embeddings: dict[str, Embedded] = {}
    notes = []
    for name in settings.data:
        if name in missing:
            graphs, classes, nodes = _published_size(name) or (0, 0, 0)
            embeddings[name] = pooled_features(min(graphs, settings.limit or graphs), classes, nodes)
            continue
        task = tasks[name]
        if task.labels is None or not can_be_folded(task.labels, settings.folds):
            needed = f"two classes, {settings.folds} graphs in one of them and three in another"
            notes.append(f"Not evaluated: {name}, without labels of {needed}.")
        else:
            embeddings[name] = embed_graphs(_build(task), task.graphs), task.labels
    rows: list[SVMRow] = []
    for scale in (False, True) if settings.scale else (False,):
        chosen = SVMSettings(
            folds=settings.folds,
            inner_folds=settings.inner_folds,
            scale=scale,
            jobs=settings.threads,
            rounds=settings.rounds,
        )
        rows += measure_svm(chosen, embeddings, lambda text: progress(f"evaluation of {text}"))
    return rows, notes


def _config(name: str, settings: Settings) -> RunConfig:
    """The configuration of `pucl train`, with more steps than can be timed."""
    return recipe("infograph", name, limit=settings.limit, batch_size=settings.batch_size, epochs=MOST + 3)


def _load(name: str, settings: Settings) -> GraphTask:
    task = open_data(_config(name, settings), settings.root)
    if not isinstance(task, GraphTask):
        raise TypeError(f"InfoGraph is trained on graphs, got a {type(task).__name__}")
    return task


def _build(task: GraphTask) -> InfoGraph:
    config = task.config
    if not isinstance(config, InfoGraphConfig):
        raise TypeError(f"InfoGraph is timed here, got a {type(config).__name__}")
    return build(config, task.shape)


def _published_size(name: str) -> tuple[int, int, int] | None:
    """Number of graphs, classes, and nodes per graph on average of a known set; None for other sets."""
    source = known_graphs(name)
    if source is None or source.published is None:
        return None
    return source.published.graphs, source.published.classes, round(source.published.mean_nodes)
