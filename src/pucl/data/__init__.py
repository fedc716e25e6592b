"""What to learn from.

Pictures: known data sets, folders, files and arrays, all as one uint8 array with its parts (`load`, `from_array`).
Graphs: known data sets, text files and torch_geometric's objects, all as a few flat arrays (`load_graphs`, `from_pyg`,
`save_graphs`).
"""

from pucl.data.graph_features import NodeFeatures
from pucl.data.graph_registry import load_graphs
from pucl.data.graphs import GraphBatch, GraphSet
from pucl.data.images import DataError, ExtraMissingError, ImageData, ImageSet
from pucl.data.registry import SOURCES, DataMissingError, data_root, load
from pucl.data.sources.arrays import from_array, to_pixels
from pucl.data.sources.pyg import from_pyg, save_graphs
from pucl.data.split import TEST_SHARE

__all__ = [
    "SOURCES",
    "TEST_SHARE",
    "DataError",
    "DataMissingError",
    "ExtraMissingError",
    "GraphBatch",
    "GraphSet",
    "ImageData",
    "ImageSet",
    "NodeFeatures",
    "data_root",
    "from_array",
    "from_pyg",
    "load",
    "load_graphs",
    "save_graphs",
    "to_pixels",
]
