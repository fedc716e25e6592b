"""Graphs as a modality."""

from collections.abc import Mapping
from typing import Any, TypedDict

from torch import nn

from pucl.config import RAW
from pucl.evaluation.folds import FOLDS
from pucl.graphs.config import GraphConfig
from pucl.graphs.features import NodeFeatures
from pucl.graphs.registry import MADE
from pucl.graphs.sources.tu_collection import known_graphs
from pucl.graphs.task import GraphShape, GraphTask
from pucl.graphs.trained import TrainedGraphs
from pucl.modality import Modality
from pucl.records import MismatchError, conform


class _About(TypedDict):
    inputs: int
    features: int
    columns: dict[str, Any] | None


def _knows(data: str) -> bool:
    return data.lower() in MADE or known_graphs(data) is not None


def _shape_of(about: Mapping[str, Any]) -> GraphShape:
    return GraphShape(inputs=conform(about, _About, "its note")["inputs"])


def _revive(config: GraphConfig, framework: nn.Module, about: Mapping[str, Any]) -> TrainedGraphs:
    try:
        columns = None if about["columns"] is None else NodeFeatures.from_record(about["columns"])
    except (ValueError, TypeError, LookupError) as error:
        raise MismatchError(f"its note on the columns of nodes cannot be read: {error}") from error
    return TrainedGraphs(config, framework, columns=columns, inputs=about["inputs"], features=about["features"])


GRAPHS = Modality(
    name="graphs",
    unit="graph",
    word="graphs",
    knows=_knows,
    open=GraphTask,
    shape_of=_shape_of,
    revive=_revive,
    probed_on="the graphs, over ten folds",
    labels_needed=f"and {FOLDS} graphs of one class, for as many folds",
    extra_rows=(RAW,),
    side_by_side=True,
    most_maps=12,
    most_points=600,  # Whose drawings a page holds.
)

__all__ = ["GRAPHS", "GraphShape"]
