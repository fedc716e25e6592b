"""What a set of data is when it is printed: a line, not its arrays."""

from pathlib import Path

import numpy as np

from pucl.graphs.folding import fold
from pucl.graphs.graphset import GraphBatch
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.tu import read_tu
from pucl.images.imageset import ImageData
from pucl.images.registry import load
from pucl.images.sources.arrays import from_array


def test_pictures() -> None:
    digits = load("digits")
    assert (
        repr(digits)
        == "ImageData('digits': 1,438 training + 359 test images of 8 x 8 pixels, 10 classes: 0, 1, 2, ...)"
    )
    assert repr(digits.train) == "ImageSet(1,438 images of 8 x 8 pixels, 10 classes: 0, 1, 2, ...)"
    plain = from_array(np.zeros((4, 5, 6), np.uint8))
    assert repr(plain) == "ImageData('array': 4 training images of 5 x 6 pixels, no labels)"
    more = ImageData(name="more", pretrain=digits.test or digits.train, train=digits.train)
    assert repr(more).startswith("ImageData('more': 359 pretraining + 1,438 training images of 8 x 8")


def test_graphs(tmp_path: Path) -> None:
    (tmp_path / "X_A.txt").write_text("1, 2\n2, 1\n3, 4\n")
    (tmp_path / "X_graph_indicator.txt").write_text("1\n1\n2\n2\n")
    (tmp_path / "X_graph_labels.txt").write_text("1\n2\n")
    (tmp_path / "X_node_labels.txt").write_text("0\n4\n1\n1\n")
    (tmp_path / "X_node_attributes.txt").write_text("0, 1\n" * 4)
    plain = read_tu(tmp_path, "X")
    assert repr(plain) == ("PlainGraphs('X': 2 graphs, 4 nodes, 3 edges, 2 classes: 1, 2)")
    shapes = load_graphs("shapes")
    assert len(repr(shapes)) < 160
    assert repr(shapes).startswith("GraphSet('shapes': 400 graphs, ")
    assert repr(fold(shapes, 2)).endswith(", folded)")
    batch = shapes.batch([0, 1])
    assert isinstance(batch, GraphBatch)
    assert repr(batch).startswith("GraphBatch(2 graphs, ")
    assert repr(batch).endswith(" features of a node, cpu)")
