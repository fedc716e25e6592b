"""The encoder of a finished run on graphs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.data.errors import DataError
from pucl.evaluation import folded, measure, numbers_in
from pucl.graphs.config import GraphConfig
from pucl.graphs.features import NodeFeatures
from pucl.graphs.graphset import GraphSet
from pucl.graphs.portable import portable_graphs
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.pyg import from_pyg
from pucl.graphs.task import embed_graphs, limited
from pucl.modality import OwnFormat, Portable, ReportProgress
from pucl.samples import ComparedSamples, EmbeddedData, Indices, Labels, ShownSamples

if TYPE_CHECKING:
    from torch_geometric.data import Data

    Graphs = GraphSet | str | Path | Sequence[Data]
else:
    Graphs = Any  # torch_geometric may be absent.


class TrainedGraphs:
    """The encoder of a finished run on graphs, in evaluation mode.

    Args:
        config: The run.
        module: The framework: takes a `GraphBatch`, returns [graph, features].
        columns: The columns of a node; None if they were given as features ``x``.
        inputs: Number of columns.
        features: Dimension of the output.

    Example::

        trained = pucl.load("runs/infograph-ENZYMES-pucl-seed-0")
        embeddings = trained.encode("my-graphs")  # float32 [graphs, features]
    """

    def __init__(
        self, config: GraphConfig, module: nn.Module, *, columns: NodeFeatures | None, inputs: int, features: int
    ) -> None:
        self.config = config
        self.module = module.eval()
        self.columns = columns
        self.inputs = inputs
        self.features = features

    @property
    def encoder(self) -> nn.Module:
        """The network alone: takes a `GraphBatch`, returns a vector for each node and a vector for each graph."""
        return self.module.get_submodule("encoder")

    def portable(self, *, floats: bool = False) -> Portable:
        """The network on tensors alone; see `pucl.modality.Trained`."""
        if floats:
            raise ValueError("--floats is about the pixels of images: leave it out for an encoder of graphs")
        return portable_graphs(self.module, self.inputs)

    @property
    def own_formats(self) -> Mapping[str, OwnFormat]:
        """None: torch_geometric has no format of its own."""
        return {}

    def encode(
        self, graphs: Graphs, *, root: Path | None = None, progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """One row of features for each graph.

        Args:
            graphs: A `GraphSet`; a known name, or a directory with ``NAME_A.txt`` and so on; or a list of
                torch_geometric's ``Data`` with the features ``x`` that the encoder was trained on. If it was trained on
                degrees, they need no ``x``.
            root: Directory of known sets; see `pucl.graphs.load_graphs`.
            progress: Called with the number of graphs that are done, and of all.

        Shapes:
            [graph, features], float32.
        """
        if isinstance(graphs, str | Path):
            graphs = self.data(graphs, root=root)
        elif not isinstance(graphs, GraphSet):
            bare = all(getattr(graph, "x", None) is None for graph in graphs)
            graphs = from_pyg(graphs, features=self.columns if bare and self.columns is not None else "default")
        if graphs.feature_count != self.inputs:
            raise DataError(
                f"nodes need the features that the encoder was trained on: expected {self.inputs}, got "
                f"{graphs.feature_count} in {graphs.name}"
            )
        rows: NDArray[np.float32] = embed_graphs(self.module, graphs, progress)
        return rows

    def data(self, source: str | Path | None = None, *, root: Path | None = None) -> GraphSet:
        """The graphs of the run, or others with the same columns.

        Args:
            source: A known name or a directory; None for the graphs that the run was trained on.
            root: Directory of known sets; see `pucl.graphs.load_graphs`.
        """
        if source is None:
            return limited(load_graphs(self.config.data, root=root, features=self.config.features), self.config.limit)
        return load_graphs(source, root=root, features=self.config.features if self.columns is None else self.columns)

    def embed_data(
        self, source: str | Path, *, root: Path | None, progress: ReportProgress, note: Callable[[str], None]
    ) -> EmbeddedData:
        """Embed a set of graphs as one array; see `pucl.modality.Trained`."""
        graphs = self.data(source, root=root)
        for text in graphs.notes:
            note(text)
        rows = self.encode(graphs, progress=progress)
        arrays: dict[str, NDArray[Any]] = {"embeddings": rows}
        if graphs.labels is not None:
            arrays |= {"labels": graphs.labels, "classes": np.array(graphs.classes)}
        return EmbeddedData(arrays=arrays, rows=rows, parts={})

    def evaluate(
        self, probes: Sequence[str] | None, *, source: str | None, root: Path | None, progress: ReportProgress
    ) -> tuple[dict[str, float], int]:
        """Probes on ten folds of all graphs."""
        chosen = self.config.choose_probes(probes)
        graphs = self.data(source, root=root)
        if graphs.labels is None:
            raise DataError(
                f"probes compare embeddings with labels: expected graphs with labels, got {graphs.name} without; "
                f"`pucl embed` needs none"
            )
        features = self.encode(graphs, progress=progress)
        found = measure(folded(features, graphs.labels, seed=self.config.seed), chosen)
        return {name: found[name] for name in numbers_in([found])}, len(graphs)

    def choose_to_show(self, choose: Callable[[Labels | None, int], Indices], *, root: Path | None) -> ShownSamples:
        """Some of the graphs; see `pucl.modality.Trained`."""
        graphs = self.data(root=root)
        return ShownSamples.of("graphs", graphs, choose, self.encode)

    def compare_samples(
        self, choose: Callable[[int], Indices], *, root: Path | None, generator: torch.Generator
    ) -> ComparedSamples:
        """Graphs are compared by their vectors before the head. InfoGraph itself compares nodes with graphs."""
        del generator  # Graphs have no random views.
        graphs = self.data(root=root)
        chosen = choose(len(graphs))
        rows = self.encode(graphs.subset(chosen))
        return ComparedSamples(
            embeddings=nn.functional.normalize(torch.from_numpy(rows), dim=1),
            views=None,
            indices=chosen,
            samples=len(graphs),
            features=rows,
            labels=None if graphs.labels is None else torch.from_numpy(graphs.labels[chosen]),
        )
