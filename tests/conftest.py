"""What many tests share: small tiles, fixed seeds, a few pictures and a few graphs."""

from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch

from pucl.graphs.sources.shapes import make_shapes
from small_runs import save_pictures

torch.set_num_threads(1)  # The tests are many and small, and run side by side.


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles and blocks so small that even a small matrix has many of them, ragged at the edges."""
    monkeypatch.setattr("pucl.contrast.streaming.tiles.TILE", 5)
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 24)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same random numbers in every run of a test, and one thread, whatever the test before has set."""
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """As users run it: wrong shapes and types meet pucl's own errors, not the checker of the tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kinds of tiny pictures, for runs that take a second."""
    return save_pictures(tmp_path_factory.mktemp("data") / "pictures.npz", 60, 8)


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
