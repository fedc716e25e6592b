"""Time of training and evaluation on graphs: InfoGraph compared with its bare network, our SVM with scikit-learn's.

The baseline of training is the bare network: forward and backward of GIN and its two heads on the same batches, which
are made beforehand, with outputs summed instead of compared. Batches, loss, optimiser and logging are overhead. A
second baseline is the same network with layers of torch_geometric, if that is installed. It is slower than ours.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.graph_steps import in_epochs, make_steps
from benchmarks.options import Settings, option
from benchmarks.report import Report, Row, figure
from benchmarks.svm import SVMProtocol, SVMRow, measure_svm
from benchmarks.timing import MOST, interleave, torch_threads
from pucl.config import RunConfig, SettingValue, check_known
from pucl.corrections import CORRECTIONS
from pucl.devices import usable_cores
from pucl.evaluation.folds import FOLDS, can_be_folded, need_folds
from pucl.evaluation.svm import INNER_FOLDS
from pucl.frameworks import open_data
from pucl.frameworks.infograph import InfoGraph, InfoGraphConfig
from pucl.frameworks.recipes import recipe
from pucl.graphs.task import GraphTask, embed_graphs
from pucl.runs.run import make_training
from pucl.texts import table

CORRECTION_SETTINGS: dict[str, dict[str, SettingValue]] = {
    "plain": {},
    "deb": {"tau_plus": 0.5},
    "hard": {"tau_plus": 0.5, "beta": 1.0},
    "ring": {},
    "pucl": {"alpha": 0.5, "c": 0.02},
    "bcl": {"tau_plus": 0.5},
    "glofnd": {"dropped": 0.5, "wait": 0},
    "clusters": {},
    "ratio": {"tau_plus": 0.5},
    "auto": {},
}
"""Settings of the corrections, for two balanced classes."""

TRAINING_AIM = 1.3
"""Largest ratio of training to the bare network that we aim for."""
EVALUATION_AIM = 2.5
"""Smallest ratio of scikit-learn's time with one process to ours that we aim for."""


@dataclass(frozen=True, kw_only=True)
class GraphSettings(Settings):
    """What is measured, and for how long."""

    data: tuple[str, ...] = option(("shapes", "PTC_MR", "ENZYMES", "DD", "REDDIT-BINARY"), "which sets of graphs")
    root: Path | None = option(None, "directory of the data sets (default: $PUCL_DATA or a cache)")
    limit: int | None = option(None, "use only this many graphs of a set (default: all)", least=2)
    corrections: tuple[str, ...] = option(("plain", "pucl"), "which corrections")
    batch_size: int = option(128, "graphs in a step", least=2)
    threads: int = option(usable_cores, "threads of torch and of our SVM, and processes of scikit-learn")
    seconds: float = option(60.0, "about how long each correction is timed on each set")
    training: bool = option(True, "measure training compared with the bare network")
    svm: bool = option(True, "measure the SVM evaluation compared with scikit-learn")
    scale: bool = option(False, "measure the SVM evaluation with standardised features too")
    folds: int = option(FOLDS, "outer folds of the SVM evaluation", least=2)
    inner_folds: int = option(INNER_FOLDS, "folds in which C is chosen", least=2)
    rounds: int = option(1, "rounds of the SVM evaluation")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.corrections:
            check_known("correction", name, tuple(CORRECTIONS))
        if not (self.training or self.svm):
            raise ValueError("training and evaluation are what is measured: expected one of them or both, got neither")


@dataclass(frozen=True, kw_only=True)
class GraphRow(Row):
    """Training with one correction on one set of graphs.

    Contenders: ``"training"`` (all of it), ``"whole_batch"`` (making a batch that is not folded), ``"network"`` (bare),
    ``"loss"`` (forward and backward, from given embeddings) and ``"torch_geometric"`` (the bare network with its
    layers). If the training folds graphs also ``"folded_network"``, the bare network on folded graphs. Their
    ``nanoseconds_by_round`` are always those of steps.

    Args:
        data: Name of the set.
        correction: Name of the correction.
        graphs: Number of graphs.
        features: Features of a node.
        batch: Graphs in a step.
        steps_per_epoch: Steps in an epoch of the training.
        unit: What one time covers: an ``"epoch"``, or a ``"step"`` if there was no time for `FEWEST` epochs.
    """

    data: str
    correction: str
    graphs: int
    features: int
    batch: int
    steps_per_epoch: int
    unit: str


@dataclass(frozen=True, kw_only=True)
class GraphReport(Report):
    """Training and evaluation.

    Args:
        aims: Largest ratio of training to the bare network, and smallest ratio of scikit-learn to ours.
        training: One row for each set and correction; empty if training was not measured.
        svm: One row for each set; empty if the evaluation was not measured.
    """

    aims: dict[str, float]
    training: list[GraphRow]
    svm: list[SVMRow]

    def table(self) -> str:
        """A table of the training and one of the evaluation, each only if it was measured."""
        return "\n\n".join(([self._training()] if self.training else []) + ([self._evaluation()] if self.svm else []))

    def _training(self) -> str:
        header = ["training", "correction", "times of", "whole ms", "bare ms", f"whole/bare (aim: <= {TRAINING_AIM:g})"]
        header += ["whole/torch_geometric", "loss ms"]
        lines = [
            [
                row.data,
                row.correction,
                row.unit,
                row.time("training"),
                row.time("network"),
                row.ratio("training/network"),
                row.ratio("training/torch_geometric"),
                row.time("loss"),
            ]
            for row in self.training
        ]
        return table([header, *lines])

    def _evaluation(self) -> str:
        header = ["evaluation", "dim", "graphs", "classes", "sklearn s", "all cores s", "ours s"]
        header += [f"sklearn/ours (aim: >= {EVALUATION_AIM:g})", "all cores/ours", "equal"]
        lines = [
            [
                row.case,
                *map(str, (row.dim, row.graphs, row.classes)),
                *[figure(statistics.median(times)) for times in row.seconds.values()],
                *map(figure, row.ratios.values()),
                "yes" if row.equal else "NO",
            ]
            for row in self.svm
        ]
        return table([header, *lines])

    def failures(self) -> list[str]:
        """Evaluations in which scikit-learn and pucl differ."""
        return [
            f"scikit-learn and pucl must give the same accuracy and choose the same C on every fold, but do not: "
            f"{row.case}"
            for row in self.svm
            if not row.equal
        ]


def measure_graphs(settings: GraphSettings, progress: Callable[[str], object]) -> GraphReport:
    """Time of training on graphs compared with the bare network, and of the SVM evaluation with scikit-learn's."""
    tasks = {name: _load(name, settings) for name in settings.data}
    rows, evaluations = [], []
    with torch_threads(settings.threads):
        cases = [(name, correction) for name in tasks for correction in settings.corrections]
        for number, (name, correction) in enumerate(cases if settings.training else (), start=1):
            progress(f"{number} of {len(cases)}: training on {name} with {correction}")
            rows.append(_measure_training(name, correction, tasks[name], settings))
        if settings.svm:
            embeddings = {
                name: (embed_graphs(_build(task), task.graphs), task.labels)
                for name, task in tasks.items()
                if task.labels is not None
            }
            for scale in (False, True) if settings.scale else (False,):
                protocol = SVMProtocol(
                    folds=settings.folds, inner_folds=settings.inner_folds, scale=scale, jobs=settings.threads
                )
                evaluations += measure_svm(embeddings, protocol, settings.rounds, progress)
    aims = {"training/network": TRAINING_AIM, "sklearn/ours": EVALUATION_AIM}
    return GraphReport(aims=aims, training=rows, svm=evaluations)


def _measure_training(name: str, correction: str, task: GraphTask, settings: GraphSettings) -> GraphRow:
    config = replace(_config(name, settings), correction=correction, settings=CORRECTION_SETTINGS[correction])
    training = make_training(config, _build(task).train(), task)
    steps = interleave(make_steps(training, _build(task).train(), task.graphs), seconds=settings.seconds)
    timings, unit = in_epochs(steps, training.steps_per_epoch)
    return GraphRow(
        data=name,
        correction=correction,
        graphs=len(task.graphs),
        features=task.graphs.feature_count,
        batch=min(config.batch_size, len(task.graphs)),
        steps_per_epoch=training.steps_per_epoch,
        unit=unit,
        rounds=timings.rounds,
        contenders={
            contender: replace(timings.figures(contender), nanoseconds_by_round=turns)
            for contender, turns in steps.nanoseconds.items()
        },
        ratios={
            f"{contender}/{bare}": timings.ratio(contender, bare)
            for bare in ("network", "torch_geometric")
            for contender in steps.nanoseconds
            if contender != bare and bare in steps.nanoseconds
        },
    )


def _config(name: str, settings: GraphSettings) -> RunConfig:
    """The configuration of `pucl train`, with more steps than can be timed."""
    return recipe("infograph", name, limit=settings.limit, batch_size=settings.batch_size, epochs=MOST + 3)


def _load(name: str, settings: GraphSettings) -> GraphTask:
    task = open_data(_config(name, settings), settings.root)
    if not isinstance(task, GraphTask):
        raise TypeError(f"InfoGraph is trained on graphs, got a {type(task).__name__}")
    if settings.svm:
        need_folds()
        if task.labels is None or not can_be_folded(task.labels, settings.folds):
            raise ValueError(
                f"the SVM evaluation needs labels: expected two classes, {settings.folds} graphs in one of them and "
                f"three in another, which {name} does not have; leave the evaluation out with --no-svm"
            )
    return task


def _build(task: GraphTask) -> InfoGraph:
    config = task.config
    if not isinstance(config, InfoGraphConfig):
        raise TypeError(f"InfoGraph is timed here, got a {type(config).__name__}")
    return InfoGraph(config, task.shape)
