"""Graphs as a modality: data sources, encoders, the data of a run, and the encoder of a finished run."""

from pucl.graphs.features import NodeFeatures
from pucl.graphs.graphset import GraphBatch, GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.pyg import from_pyg, save_graphs

__all__ = ["GraphBatch", "GraphSet", "NodeFeatures", "from_pyg", "load_graphs", "save_graphs"]
