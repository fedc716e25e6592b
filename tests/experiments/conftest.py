"""Data for runs that take a second."""

from pathlib import Path

import numpy as np
import pytest

from pucl.data.sources.shapes import make_shapes


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kinds of tiny pictures, bright at the top or at the bottom, in a .npz file."""
    random = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = random.integers(0, 120, (60, 8, 8, 3))
    images[labels == 0, :4] += 120
    images[labels == 1, 4:] += 120
    path = tmp_path_factory.mktemp("data") / "pictures.npz"
    np.savez(path, images=images.astype(np.uint8), labels=labels)
    return path


@pytest.fixture(scope="session")
def few_graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven graphs of each of four shapes, as a directory in the form of the TU collection."""
    graphs = make_shapes(each=11)
    assert graphs.labels is not None
    directory = tmp_path_factory.mktemp("graphs") / "FEW"
    directory.mkdir()
    first = np.repeat(graphs.node_start[:-1], np.diff(graphs.edge_start))
    for part, table in (
        ("A", (graphs.edges + first + 1).T),
        ("graph_indicator", np.repeat(np.arange(len(graphs.labels)), np.diff(graphs.node_start)) + 1),
        ("graph_labels", graphs.labels),
    ):
        np.savetxt(directory / f"FEW_{part}.txt", table, fmt="%d", delimiter=", ")
    return directory
