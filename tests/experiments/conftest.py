"""Data for runs that take a second."""

from pathlib import Path

import pytest

from small_runs import save_pictures


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kinds of tiny pictures."""
    return save_pictures(tmp_path_factory.mktemp("data") / "pictures.npz", 60, 8)
