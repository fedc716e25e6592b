"""What training and evaluation on graphs cost: InfoGraph over its bare network, and our SVM against scikit-learn's.

The measure of training is the bare network: forward and backward of GIN and its two heads on the very batches that the
training had, made beforehand, with outputs summed instead of compared. What is beyond it are batches, the loss, the
optimiser and the books that are kept. The second measure is GIN alone, to which heads count as overhead too.
"""

import importlib.util
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.benchmarks.measure import (
    FEWEST,
    MOST,
    Spread,
    Step,
    Timings,
    check_effort,
    interleave,
    library_versions,
    machine_facts,
    torch_threads,
    usable_cores,
)
from pucl.benchmarks.svm import Embedded, SVMRow, SVMSettings, measure_svm, pooled_features
from pucl.benchmarks.train import Figures
from pucl.contrast.compare import compare
from pucl.contrast.correction import check_range
from pucl.corrections import CORRECTIONS
from pucl.data import DataMissingError, GraphBatch
from pucl.data.sources.tu_collection import known_graphs
from pucl.evaluation.folds import FOLDS
from pucl.evaluation.svm import INNER_FOLDS
from pucl.experiments.config import RunConfig, choose
from pucl.experiments.graphs import GraphTask, embed_graphs
from pucl.experiments.recipes import recipe
from pucl.experiments.run import make_training
from pucl.experiments.task import make_task
from pucl.frameworks.framework import Batch
from pucl.frameworks.infograph import InfoGraph
from pucl.shapes import Float, Tensor
from pucl.training.loop import Plan, SampleSet, Training
from pucl.training.optimisers import make_optimiser

DATA = ("shapes", "PTC_MR", "ENZYMES", "DD", "REDDIT-BINARY")
CORRECTION_SETTINGS: dict[str, dict[str, float]] = {
    "plain": {},
    "deb": {"tau_plus": 0.5},
    "hard": {"tau_plus": 0.5, "beta": 1.0},
    "ring": {},
    "pucl": {"alpha": 0.5, "c": 0.02},
}
"""What corrections are set to: as for two balanced classes."""

STANDING_STILL = 1e-12  # Learning rate of the optimiser that is timed by itself, so that its weights stay.
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
        contenders: ``"training"`` (all of it), ``"network"`` (bare) and ``"gin"`` (alone); parts of the training by
            themselves: ``"batch"`` (making it of the set), ``"loss"`` (of given embeddings, forward and backward) and
            ``"optimiser"``. Their ``nanoseconds_by_round`` are of steps always.
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


def make_steps(training: Training[GraphBatch], bare: "BareNetwork") -> dict[str, Step]:
    """All that is timed, by name, each on the batch that the training has just had.

    Args:
        training: As `pucl train` has it, before its first step. Its data are watched from here on.
        bare: The same network with weights of its own.
    """
    seen = training.data = Watched(training.data)
    loss = BareLoss(bare, training)
    # Weights of the bare network have gradients once it was called, which is before the optimiser's first turn.
    optimiser = make_optimiser("adam", bare.framework.parameters(), lr=STANDING_STILL)
    return {
        "training": training.advance,
        "network": lambda: bare.run(seen.batch_made),
        "gin": lambda: bare.run_encoder(seen.batch_made),
        "batch": seen.make_again,
        "loss": lambda: loss.run(seen.batch_made),
        "optimiser": optimiser.step,
    }


class Watched:
    """Samples that remember which batch was made last.

    Args:
        samples: All of them.
    """

    batch_made: GraphBatch
    indices: NDArray[np.int64]

    def __init__(self, samples: SampleSet[GraphBatch]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: NDArray[np.int64], /) -> GraphBatch:
        """These samples."""
        self.indices, self.batch_made = indices, self.samples.batch(indices)
        return self.batch_made

    def make_again(self) -> GraphBatch:
        """The last batch once more."""
        return self.samples.batch(self.indices)


class BareNetwork:
    """Forward and backward of encoder and heads, with nothing compared.

    Args:
        framework: Whose encoder and heads. Their weights stay.
    """

    projected: tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]
    """Of nodes and of graphs: what came out last."""

    def __init__(self, framework: InfoGraph) -> None:
        self.framework = framework.train()

    def run(self, graphs: GraphBatch) -> None:
        """Encoder and heads."""
        self.framework.zero_grad(set_to_none=True)
        local, whole = self.framework.encoder(graphs)
        local, whole = self.framework.local_head(local), self.framework.whole_head(whole)
        (local.sum() + whole.sum()).backward()
        self.projected = local.detach(), whole.detach()

    def run_encoder(self, graphs: GraphBatch) -> None:
        """The encoder alone."""
        self.framework.encoder.zero_grad(set_to_none=True)
        local, whole = self.framework.encoder(graphs)
        (local.sum() + whole.sum()).backward()


class BareLoss:
    """The loss from what the heads gave to the gradient of it.

    Args:
        bare: Has called them.
        training: How it compares.
    """

    def __init__(self, bare: BareNetwork, training: Training[GraphBatch]) -> None:
        self.bare = bare
        self.correction = training.correction.at(0.0)
        self.plan: Plan = training.plan
        framework = bare.framework
        self.given = Given()
        self.framework = InfoGraph(
            self.given, nn.Identity(), nn.Identity(), temperature=framework.temperature, share=framework.share
        )

    def run(self, graphs: GraphBatch) -> None:
        """Who is compared with whom, what comes of it, and back."""
        local, whole = self.bare.projected
        self.given.vectors = local.detach().requires_grad_(), whole.detach().requires_grad_()
        batch = Batch(
            samples=graphs,
            ids=torch.arange(graphs.graphs),
            generator=torch.default_generator,
            part=slice(0, graphs.graphs),
            whole=graphs.graphs,
        )
        (pairs,) = self.framework.pairs(batch)
        outcome = compare(pairs, self.correction, objective=self.plan.objective, floor=self.plan.floor)
        outcome.loss.mean().backward()


class Given(nn.Module):
    """In the place of an encoder: vectors of nodes and graphs that are there already."""

    vectors: tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]

    def forward(self, _graphs: GraphBatch) -> tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]:
        """These."""
        return self.vectors


def in_epochs(timings: Timings, steps_per_epoch: int) -> tuple[Timings, str]:
    """Times of epochs and the word for it, made of as many steps; of steps as they are if those are too few.

    The first step need not begin an epoch: so many in a row have every place in it once.
    """
    epochs = timings.rounds // steps_per_epoch
    turns = {name: [turn for turn in steps if turn is not None] for name, steps in timings.nanoseconds.items()}
    if epochs < FEWEST or any(len(steps) < timings.rounds for steps in turns.values()):
        return timings, "step"
    starts = range(0, epochs * steps_per_epoch, steps_per_epoch)
    return Timings(
        {name: [sum(steps[start : start + steps_per_epoch]) for start in starts] for name, steps in turns.items()}
    ), "epoch"


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
    steps = interleave(make_steps(training, bare), seconds=settings.seconds)
    timings, unit = in_epochs(steps, training.steps_per_epoch)
    return Row(
        data=name,
        correction=correction,
        graphs=len(task.samples),
        features=task.samples.feature_count,
        batch=min(config.batch_size, len(task.samples)),
        steps_per_epoch=training.steps_per_epoch,
        unit=unit,
        rounds=timings.rounds,
        contenders={
            contender: Figures(milliseconds=timings.milliseconds(contender), nanoseconds_by_round=turns)
            for contender, turns in steps.nanoseconds.items()
        },
        ratios={
            f"{contender}/{bare}": timings.ratio(contender, bare)
            for bare in ("network", "gin")
            for contender in steps.nanoseconds
            if contender != bare
        },
    )


def _measure_evaluations(
    tasks: dict[str, GraphTask], missing: Collection[str], settings: Settings, progress: Callable[[str], object]
) -> tuple[list[SVMRow], list[str]]:
    """Evaluations, and sentences on those that could not be."""
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
        if task.labels is None or not _enough(task.labels, settings.folds):
            needed = f"two classes and {settings.folds} graphs in one of them"
            notes.append(f"Not evaluated: {name}, without labels of {needed}.")
        else:
            embeddings[name] = embed_graphs(_build(task), task.samples), task.labels
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


def _enough(labels: NDArray[np.int64], folds: int) -> bool:
    """Whether there are classes to tell apart, one of them in every fold."""
    sizes = np.unique(labels, return_counts=True)[1]
    return len(sizes) > 1 and bool(sizes.max() >= folds)


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
