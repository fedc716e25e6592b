"""The graphs of a run: how they are trained on, measured and shown."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.config import NOT_TRAINED, RAW
from pucl.data.choosing import checksum, evenly
from pucl.evaluation import PROBES, Monitor, folded, measure
from pucl.evaluation.embed import evaluation_mode, finite_rows
from pucl.evaluation.folds import FOLDS, can_be_folded, need_folds
from pucl.graphs.config import GraphConfig
from pucl.graphs.folding import fold
from pucl.graphs.graphset import GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.thumbnails import about_parts, drawings
from pucl.samples import Drawings, EmbeddedSamples
from pucl.training.framework import Framework

GRAPHS_AT_ONCE = 128
NODES_AT_ONCE = 100_000  # Large graphs are embedded in smaller batches.
FOLDING_PAYS_TO = 0.9  # Graphs are folded if at most this share of nodes remains; for ENZYMES it is 0.86.


@dataclass(frozen=True, kw_only=True)
class GraphShape:
    """The shape of graphs, for which a framework is built: the number of features of a node."""

    inputs: int


class GraphTask:
    """The graphs of a run; see `pucl.modality.Task`.

    Args:
        config: The run.
        root: Directory of data sets.
    """

    def __init__(self, config: GraphConfig, root: Path | None = None) -> None:
        self.config = config
        self.graphs = limited(load_graphs(config.data, root=root, features=config.features), config.limit)
        self.labels = self.graphs.labels
        self.names = None
        self.notes = self.graphs.notes

    @cached_property
    def samples(self) -> GraphSet:
        """The graphs to train on, folded if that saves time."""
        if self.config.correction in NOT_TRAINED:
            return self.graphs
        folded = fold(self.graphs, self.config.layers)
        return folded if folded.nodes <= FOLDING_PAYS_TO * self.graphs.nodes else self.graphs

    @property
    def shape(self) -> GraphShape:
        """The number of features of a node."""
        return GraphShape(inputs=self.graphs.feature_count)

    @property
    def embedded(self) -> EmbeddedSamples:
        """All graphs."""
        return EmbeddedSamples(count=len(self.graphs), labels=self.labels, classes=self.graphs.classes)

    def fingerprint(self) -> dict[str, Any]:
        """Counts and checksums that distinguish these graphs from others."""
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
        """Raise if a package is missing that folds or probes need."""
        if self.can_be_probed():
            need_folds()
            for probe in self.config.choose_probes().values():
                probe.need_packages()

    def monitor(self, framework: nn.Module) -> Callable[[], dict[str, float]] | None:
        """Measures embeddings of the graphs."""
        if self.labels is None:
            return None
        monitor = Monitor(self.labels)
        if not monitor.possible:
            return None
        used = self.graphs if len(monitor.indices) == len(self.graphs) else self.graphs.subset(monitor.indices)
        return lambda: monitor.measure(embed_graphs(framework, used), PROBES)

    def can_be_probed(self) -> bool:
        """Whether there are labels, of two classes at least, with enough graphs for ten folds."""
        return self.labels is not None and can_be_folded(self.labels, FOLDS)

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        """Probes on ten folds of all graphs; and the features themselves."""
        features = embed_graphs(framework, self.graphs)
        embeddings: dict[str, Any] = {"train": features}
        if self.labels is None or not self.can_be_probed():
            return {}, embeddings
        scores = measure(folded(features, self.labels, seed=self.config.seed), self.config.choose_probes())
        return scores, embeddings | {"train_labels": self.labels}

    def about(self, _framework: Framework[Any]) -> dict[str, Any]:
        """The columns of a node, and the dimension of the output."""
        columns, inputs = self.graphs.features, self.graphs.feature_count
        return {
            "columns": None if columns is None else asdict(columns),
            "inputs": inputs,
            "features": inputs if self.config.correction == RAW else self.config.hidden * self.config.layers,
        }

    def thumbnails(self, indices: NDArray[np.int64], budget: int) -> tuple[Drawings, str]:
        """Drawings of nodes and edges. Of a large graph, a part is drawn."""
        del budget  # Drawings are small.
        some = self.graphs.subset(indices)
        return drawings(some), about_parts(some)


@torch.no_grad()
def embed_graphs(module: nn.Module, graphs: GraphSet, progress: Callable[[int, int], None] | None = None) -> Any:
    """Features of each graph in evaluation mode, float32 [graph, feature].

    `progress` is called with the number of graphs that are done, and of all.
    """
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    rows = []
    with evaluation_mode(module):
        for indices in _portions(graphs):
            rows.append(finite_rows(module, module(graphs.batch(indices).to(device)), "graphs"))
            if progress is not None:
                progress(int(indices[-1]) + 1, len(graphs))
    return np.concatenate(rows)


def limited(graphs: GraphSet, limit: int | None) -> GraphSet:
    """At most `limit` of the graphs, evenly from all classes."""
    if limit is None or limit >= len(graphs):
        return graphs
    return graphs.subset(evenly(graphs.labels, len(graphs), limit))


def _portions(graphs: GraphSet) -> Iterator[NDArray[np.int64]]:
    """Indices of graphs, in batches whose nodes fit into memory, of at least one graph."""
    start = 0
    while start < len(graphs):
        fits = int(np.searchsorted(graphs.node_start, graphs.node_start[start] + NODES_AT_ONCE, side="right")) - 1
        stop = min(max(fits, start + 1), start + GRAPHS_AT_ONCE, len(graphs))
        yield np.arange(start, stop)
        start = stop
