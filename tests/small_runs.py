"""Runs on a few graphs or pictures, over in a second."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pucl
from pucl.config import field_names
from pucl.frameworks.infograph import InfoGraphConfig
from pucl.frameworks.recipes import recipe
from pucl.images.trained import TrainedImages


def fitting(framework: str, **settings: Any) -> dict[str, Any]:
    """Those of the settings that this framework has."""
    return {name: value for name, value in settings.items() if name in field_names(type(recipe(framework, "")))}


def load_images(run: str | Path, **options: Any) -> TrainedImages:
    """The encoder of a run on images."""
    trained = pucl.load(run, **options)
    assert isinstance(trained, TrainedImages)
    return trained


def small_run(correction: str = "plain", **changes: Any) -> InfoGraphConfig:
    """InfoGraph on 44 of the bundled graphs for one epoch."""
    settings: dict[str, Any] = {"limit": 44, "epochs": 1, "batch_size": 22, "hidden": 8, "layers": 2}
    config = recipe("infograph", "shapes", correction=correction, **(settings | {"probes": "knn"} | changes))
    assert isinstance(config, InfoGraphConfig)
    return config


ROWS = {"plain": small_run(), "deb": small_run("deb"), "raw": small_run("raw")}


def make_pictures(count: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Two kinds of small pictures, bright at the top or at the bottom, and their labels."""
    labels, half = np.arange(count) % 2, size // 2
    images = np.random.default_rng(0).integers(0, 120, (count, size, size, 3))
    images[labels == 0, :half] += 120
    images[labels == 1, half:] += 120
    return images.astype(np.uint8), labels


def save_pictures(path: Path, count: int, size: int, classes: Sequence[str] | None = None) -> Path:
    """Save `make_pictures` as a .npz file."""
    images, labels = make_pictures(count, size)
    names: dict[str, Any] = {} if classes is None else {"classes": np.array(classes)}
    np.savez(path, images=images, labels=labels, **names)
    return path


def arrays_of(run: Path) -> dict[str, NDArray[Any]]:
    """All embeddings and weights of a finished run."""
    with np.load(run / "embeddings.npz") as embeddings:
        return dict(embeddings) | {name: value.numpy() for name, value in pucl.load(run).module.state_dict().items()}


def assert_same_bits(one: Path, other: Path) -> None:
    """Two finished runs have the same weights and embeddings."""
    expected, found = arrays_of(one), arrays_of(other)
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def deadly_encoder(**_: object) -> None:
    """An encoder that ends its process, as one does that takes more memory than there is."""
    os.kill(os.getpid(), signal.SIGKILL)
