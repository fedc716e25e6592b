"""Runs on a few graphs, over in a second."""

from typing import Any

from pucl.experiments.config import GraphConfig
from pucl.experiments.recipes import recipe


def small_run(correction: str = "plain", **changes: Any) -> GraphConfig:
    """InfoGraph on 44 of the bundled graphs for one epoch."""
    settings: dict[str, Any] = {"limit": 44, "epochs": 1, "batch_size": 22, "hidden": 8, "layers": 2}
    config = recipe("infograph", "shapes", correction=correction, **(settings | {"probes": "knn"} | changes))
    assert isinstance(config, GraphConfig)
    return config


ROWS = {"plain": small_run(), "deb": small_run("deb"), "raw": small_run("raw")}
