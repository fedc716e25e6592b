"""The graphs of a run, and what is done with them before and after the training."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.config import NOT_TRAINED, RAW
from pucl.data.choosing import checksum, evenly
from pucl.evaluation import FullBatchLinearProbe, KNNProbe, Monitor, Probe, cross_validated, cross_validated_svm
from pucl.evaluation.embed import evaluation_mode, finite_rows
from pucl.evaluation.folds import FOLDS, can_be_folded
from pucl.evaluation.svm import need_machine
from pucl.graphs.config import GraphConfig
from pucl.graphs.folding import fold
from pucl.graphs.graphset import GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.thumbnails import about_parts, drawings
from pucl.modality import EmbeddedSamples
from pucl.training.framework import Framework

GRAPHS_AT_ONCE = 128
FOLDING_PAYS_TO = 0.9  # Share of nodes that differ, up to which graphs are folded: ENZYMES has 0.86.
NODES_AT_ONCE = 100_000  # Embedding takes fewer graphs at a time where they are large.

NEIGHBOURS = 10  # Sets of graphs are small: the 200 of images would be half of PTC.

MACHINES = {"svm": False, "svm_scaled": True}
"""Support vector machines, and whether features are scaled: the references' protocol, and the clean one."""

CLASSIFIERS: dict[str, Callable[[], Probe]] = {
    "linear": FullBatchLinearProbe,
    "knn": partial(KNNProbe, k=NEIGHBOURS),
}


@dataclass(frozen=True, kw_only=True)
class GraphShape:
    """For which graphs a framework is built.

    Args:
        inputs: Features of a node.
    """

    inputs: int


class GraphTask:
    """Graphs, and what is made of them; see `Task`.

    Args:
        config: What to run.
        root: Where data are.
    """

    def __init__(self, config: GraphConfig, root: Path | None = None) -> None:
        self.config = config
        self.graphs = limited(load_graphs(config.data, root=root, features=config.features), config.limit)
        self.labels = self.graphs.labels
        self.notes = self.graphs.notes

    @cached_property
    def samples(self) -> GraphSet:
        """What is trained on: the graphs, folded where that pays."""
        if self.config.correction in NOT_TRAINED:
            return self.graphs
        folded = fold(self.graphs, self.config.layers)
        return folded if folded.nodes <= FOLDING_PAYS_TO * self.graphs.nodes else self.graphs

    @property
    def shape(self) -> GraphShape:
        """How many features a node has."""
        return GraphShape(inputs=self.graphs.feature_count)

    @property
    def embedded(self) -> EmbeddedSamples:
        """All graphs."""
        return EmbeddedSamples(count=len(self.graphs), labels=self.labels, classes=self.graphs.classes)

    def fingerprint(self) -> dict[str, Any]:
        """What tells these graphs from others."""
        graphs = self.graphs
        return {
            "samples": len(graphs),
            "nodes": graphs.nodes,
            "features": graphs.feature_count,
            "crc": checksum(graphs.node_start, graphs.edges),
            "columns": checksum(graphs.values, graphs.kinds),
            "labels": checksum(graphs.labels),
        }

    def need_packages(self) -> None:
        """Raise if scikit-learn is missing and a support vector machine is asked for."""
        if self.can_be_probed() and MACHINES.keys() & set(self.config.probes.split(",")):
            need_machine()

    def monitor(self, framework: nn.Module) -> Callable[[], float] | None:
        """Nearest neighbours among the graphs."""
        if self.labels is None:
            return None
        monitor = Monitor(self.labels)
        if not monitor.possible:
            return None
        held = self.graphs if len(monitor.places) == len(self.graphs) else self.graphs.subset(monitor.places)
        return lambda: monitor.accuracy(embed_graphs(framework, held))

    def can_be_probed(self) -> bool:
        """Whether there are labels to go by, and so many of two classes that folds can share them."""
        return self.labels is not None and can_be_folded(self.labels, FOLDS)

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        """Classifiers on ten folds of all graphs, and the features themselves."""
        features = embed_graphs(framework, self.graphs)
        embeddings: dict[str, Any] = {"train": features}
        if self.labels is None or not self.can_be_probed():
            return {}, embeddings
        scores = probe_graphs(features, self.labels, self.config.probes.split(","), seed=self.config.seed)
        return scores, embeddings | {"train_labels": self.labels}

    def about(self, _framework: Framework[Any]) -> dict[str, Any]:
        """What the columns of a node are."""
        columns, inputs = self.graphs.features, self.graphs.feature_count
        return {
            "columns": None if columns is None else columns.as_record(),
            "inputs": inputs,
            "features": inputs if self.config.correction == RAW else self.config.hidden * self.config.layers,
        }

    def thumbnails(self, indices: NDArray[np.int64], budget: int) -> tuple[dict[str, Any], str]:
        """The graphs as drawings of nodes and edges; a large one is cut."""
        del budget  # Drawings are small.
        some = self.graphs.subset(indices)
        return {"kind": "drawings"} | drawings(some), about_parts(some)


@torch.no_grad()
def embed_graphs(module: nn.Module, graphs: GraphSet, progress: Callable[[int, int], None] | None = None) -> Any:
    """One row of features for each graph, in evaluation mode.

    Args:
        module: Takes a `GraphBatch`, gives [graph, feature].
        graphs: The graphs.
        progress: Is told how many graphs are done, and of how many.

    Shapes:
        [graph, feature], float32.
    """
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    rows = []
    with evaluation_mode(module):
        for places in _portions(graphs):
            rows.append(finite_rows(module, module(graphs.batch(places).to(device)), "graphs"))
            if progress is not None:
                progress(int(places[-1]) + 1, len(graphs))
    return np.concatenate(rows)


def probe_graphs(
    features: NDArray[np.float32], labels: NDArray[np.int64], probes: Sequence[str], *, seed: int
) -> dict[str, Any]:
    """Accuracies of classifiers, 0 to 1, each the mean over the same ten folds.

    Args:
        features: Of all graphs.
        labels: Their classes.
        probes: Names out of `pucl.graphs.config.GRAPH_PROBES`.
        seed: Of the folds: the same for every method.

    Returns:
        The mean by classifier; ``folds``, the accuracy on each; and of support vector machines ``costs``, the C chosen
        for each fold, and ``validation``, the mean accuracy of those on inner folds, which no test fold is part of.
    """
    scores: dict[str, Any] = {"folds": {}, "costs": {}, "validation": {}}
    for name in probes:
        if name in MACHINES:
            machine = cross_validated_svm(features, labels, seed=seed, scale=MACHINES[name])
            accuracies = machine.accuracies
            scores["costs"][name] = list(machine.costs)
            scores["validation"][name] = float(np.mean([max(costs) for costs in machine.validation]))
        else:
            accuracies = cross_validated(CLASSIFIERS[name], features, labels, seed=seed)
        scores[name], scores["folds"][name] = float(np.mean(accuracies)), list(accuracies)
    return scores


def limited(graphs: GraphSet, limit: int | None) -> GraphSet:
    """At most so many of the graphs, as evenly over the classes as they come."""
    if limit is None or limit >= len(graphs):
        return graphs
    return graphs.subset(evenly(graphs.labels, len(graphs), limit))


def _portions(graphs: GraphSet) -> Iterator[NDArray[np.int64]]:
    """Numbers of graphs, so many at a time that their nodes fit into memory; at least one."""
    start = 0
    while start < len(graphs):
        fits = int(np.searchsorted(graphs.node_start, graphs.node_start[start] + NODES_AT_ONCE, side="right")) - 1
        stop = min(max(fits, start + 1), start + GRAPHS_AT_ONCE, len(graphs))
        yield np.arange(start, stop)
        start = stop
