"""Graphs as an entry of the table of modalities."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from torch import nn

from pucl.config import RAW
from pucl.evaluation.folds import FOLDS
from pucl.graphs.config import GraphConfig
from pucl.graphs.features import NodeFeatures
from pucl.graphs.sources.tu_collection import COLLECTION, known_graphs
from pucl.graphs.task import GraphShape, GraphTask
from pucl.graphs.trained import TrainedGraphs
from pucl.modality import Modality
from pucl.records import MismatchError, conform


class _About(TypedDict):
    inputs: int
    features: int
    columns: dict[str, Any] | None


def _shape_of(about: Mapping[str, Any]) -> GraphShape:
    return GraphShape(inputs=conform(about, _About, "its note")["inputs"])


def _revive(config: GraphConfig, framework: nn.Module, about: Mapping[str, Any]) -> TrainedGraphs:
    try:
        columns = None if about["columns"] is None else NodeFeatures.from_record(about["columns"])
    except (ValueError, TypeError, LookupError) as error:
        raise MismatchError(f"its columns of nodes cannot be read: {error}") from error
    return TrainedGraphs(config, framework, columns=columns, inputs=about["inputs"], features=about["features"])


GRAPHS = Modality(
    name="graphs",
    unit="graph",
    word="graphs",
    config=GraphConfig,
    sources=COLLECTION,
    find_source=known_graphs,
    paths="a directory with graphs as NAME_A.txt, NAME_graph_indicator.txt and so on",
    columns=("graphs", "classes", "mean nodes"),
    reads=Path.is_dir,
    open=GraphTask,
    shape_of=_shape_of,
    revive=_revive,
    probed_on="the graphs, over ten folds",
    labels_needed=f"and {FOLDS} graphs of one class, for as many folds",
    hub_task="graph-ml",
    extra_rows=(RAW,),
    side_by_side=True,
    most_maps=12,
    most_points=600,  # Each has a drawing in the page.
)

__all__ = ["GRAPHS", "GraphShape"]
