"""What training and evaluation on graphs cost: InfoGraph over its bare network, and our SVM against scikit-learn's.

The measure of training is the bare network: forward and backward of GIN and its two heads on the very batches that the
training had, made beforehand, with outputs summed instead of compared. What is beyond it are batches, the loss, the
optimiser and the books that are kept. A second measure is the same network as one would write it with torch_geometric,
where that is installed: ours is the quicker of the two, and so the stricter measure. A third is GIN alone, to which
heads count as overhead too.
"""

import importlib.util
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from pucl.benchmarks.graph_steps import BareNetwork, in_epochs, make_steps
from pucl.benchmarks.measure import (
    MOST,
    Spread,
    check_effort,
    interleave,
    library_versions,
    machine_facts,
    torch_threads,
)
from pucl.benchmarks.svm import Embedded, SVMRow, SVMSettings, measure_svm, pooled_features
from pucl.benchmarks.train import Figures
from pucl.contrast.correction import check_range
from pucl.corrections import CORRECTIONS
from pucl.data import DataMissingError
from pucl.data.sources.tu_collection import known_graphs
from pucl.devices import usable_cores
from pucl.evaluation.folds import FOLDS, can_be_folded
from pucl.evaluation.svm import INNER_FOLDS
from pucl.experiments.config import RunConfig, choose
from pucl.experiments.graphs import GraphTask, embed_graphs
from pucl.experiments.recipes import recipe
from pucl.experiments.run import make_training
from pucl.experiments.task import make_task
from pucl.frameworks.infograph import InfoGraph

DATA = ("shapes", "PTC_MR", "ENZYMES", "DD", "REDDIT-BINARY")
CORRECTION_SETTINGS: dict[str, dict[str, float]] = {
    "plain": {},
    "deb": {"tau_plus": 0.5},
    "hard": {"tau_plus": 0.5, "beta": 1.0},
    "ring": {},
    "pucl": {"alpha": 0.5, "c": 0.02},
}
"""What corrections are set to: as for two balanced classes."""

TRAINING_AIM = 1.3
"""How many times the bare network a training should take at most."""
EVALUATION_AIM = 4.0
"""How many times as long as ours scikit-learn's evaluation, as it comes, should take at least."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured, and how long.

    Args:
        data: Sets of graphs, as `pucl.data.load_graphs` takes them. A known set that is not there is not trained on,
            and its embeddings are made up.
        root: Where data are kept; see `pucl.data.data_root`.
        limit: Use only this many graphs of a set; None uses all.
        corrections: Each is measured on each set.
        batch_size: Graphs in a step.
        threads: Threads of torch and of our SVM, and processes of scikit-learn's second turn.
        seconds: About how long each correction is timed on each set.
        training: Whether training is measured.
        svm: Whether the evaluation is.
        scale: Whether it is once more with standardised features.
        folds: Outer folds of the evaluation.
        inner_folds: Those in which C is chosen.
        rounds: How often each way of evaluation has its turn.
    """

    data: tuple[str, ...] = DATA
    root: Path | None = None
    limit: int | None = None
    corrections: tuple[str, ...] = ("plain", "pucl")
    batch_size: int = 128
    threads: int = field(default_factory=usable_cores)
    seconds: float = 60.0
    training: bool = True
    svm: bool = True
    scale: bool = False
    folds: int = FOLDS
    inner_folds: int = INNER_FOLDS
    rounds: int = 1

    def __post_init__(self) -> None:
        for meaning, names in (("sets of graphs", self.data), ("corrections", self.corrections)):
            if not names or len(set(names)) < len(names):
                raise ValueError(
                    f"{meaning} are what is measured: expected different names, got {', '.join(names) or 'none'}"
                )
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
        check_range("rounds", "how often everyone has a turn", self.rounds, "at least 1", self.rounds >= 1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Training with one correction on one set of graphs.

    Args:
        data, correction: Which.
        graphs, features, batch: Number of graphs, features of a node, and graphs in a step.
        steps_per_epoch: Of the training.
        unit: What the times are of: ``"epoch"``, or ``"step"`` where there was no time for `FEWEST` epochs.
        rounds: How many of these.
        contenders: ``"training"`` (all of it), ``"network"`` (bare), ``"torch_geometric"`` (the same of its layers) and
            ``"gin"`` (alone); parts of the training by themselves: ``"batch"`` (making it of the set), ``"loss"`` (of
            given embeddings, forward and backward) and ``"optimiser"``. If the training has graphs folded also
            ``"folded_network"``, the bare one on these, and ``"whole_batch"``, making one of graphs as they are. Their
            ``nanoseconds_by_round`` are of steps always.
        ratios: ``"training/network"`` and so on: epoch by epoch or step by step, the median.
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
    """Both measurements, and what a reader needs to judge them.

    Args:
        aims: What training should take at most over the bare network, and scikit-learn at least over ours.
        training: Empty if not asked for.
        svm: Evaluations; empty if not asked for or not possible.
        made_up: Sets whose embeddings are made up, in their size, since they are not there.
        notes: Sentences on what could not be measured.
    """

    versions: dict[str, str]
    machine: dict[str, object]
    aims: dict[str, float]
    training: list[Row]
    svm: list[SVMRow]
    made_up: list[str]
    notes: list[str]


def measure_graphs(settings: Settings, progress: Callable[[str], object]) -> Report:
    """Measure training and evaluation on every set.

    Args:
        settings: What and how long.
        progress: Told in a few words what comes next.
    """
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
        raise next(iter(missing.values()))  # There is nothing to measure.
    for reason in missing.values():
        progress(f"going on without: {reason}")
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


def _measure_trainings(tasks: dict[str, GraphTask], settings: Settings, progress: Callable[[str], object]) -> list[Row]:
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
    tasks: dict[str, GraphTask], missing: Collection[str], settings: Settings, progress: Callable[[str], object]
) -> tuple[list[SVMRow], list[str]]:
    """Evaluations, and sentences on those that could not be."""
    for package, name in (("sklearn", "scikit-learn"), ("numba", "numba")):
        if importlib.util.find_spec(package) is None:
            return [], [f"Not evaluated: {name} is not installed: pip install {name}."]
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
        rows += measure_svm(chosen, embeddings, lambda words: progress(f"evaluation of {words}")).rows
    return rows, notes


def _config(name: str, settings: Settings) -> RunConfig:
    """A run as `pucl train` has it, with more steps than can be timed."""
    return recipe("infograph", name, limit=settings.limit, batch_size=settings.batch_size, epochs=MOST + 3)


def _load(name: str, settings: Settings) -> GraphTask:
    task = make_task(_config(name, settings), settings.root)
    if not isinstance(task, GraphTask):
        raise TypeError(f"InfoGraph is trained on graphs, got a {type(task).__name__}")
    return task


def _build(task: GraphTask) -> InfoGraph:
    return task.build(torch.device("cpu"), compiled=False)


def _published_size(name: str) -> tuple[int, int, int] | None:
    """Graphs, classes, and nodes of a graph on average, of a set that is known; None where they are not."""
    source = known_graphs(name)
    if source is None or source.published is None:
        return None
    return source.published.graphs, source.published.classes, round(source.published.mean_nodes)
