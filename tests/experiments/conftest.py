"""Data for runs that take a second."""

from pathlib import Path

import numpy as np
import pytest


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
