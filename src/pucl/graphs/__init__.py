"""Graphs: data sources, encoders, and what a run does with them."""

from pucl.graphs.features import NodeFeatures
from pucl.graphs.graphset import GraphBatch, GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.pyg import from_pyg, save_graphs

__all__ = ["GraphBatch", "GraphSet", "NodeFeatures", "from_pyg", "load_graphs", "save_graphs"]
