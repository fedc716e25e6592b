"""The paper's Table 2: InfoGraph with every correction on four sets of graphs, measured in full."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pucl.data.sources.tu_collection import known_graphs
from pucl.experiments.config import ORACLE, PLAIN, RAW, UNTRAINED, choose
from pucl.experiments.recipes import recipe
from pucl.experiments.tables import Part

DATA = ("PTC_MR", "ENZYMES", "DD", "REDDIT-BINARY")  # Small sets first: a mistake shows in a minute.
SEEDS = 10

ROWS: dict[str, dict[str, Any]] = {
    "raw features": {"correction": RAW},
    "untrained": {"correction": UNTRAINED},
    "InfoGraph": {"correction": PLAIN},
    # HCL's program for graphs has tau+ 0.5 for all data, and its tilt at 1 among others.
    "+DEB": {"correction": "deb", "settings": {"tau_plus": 0.5}},
    "+Hard": {"correction": "hard", "settings": {"tau_plus": 0.5, "beta": 1.0}},
    "+Ring": {"correction": "ring"},
    # The paper leaves c open for graphs; 0.02 is in its grid for images.
    "+PUCL 0.1": {"correction": "pucl", "settings": {"alpha": 0.1, "c": 0.02}},
    "+PUCL 0.5": {"correction": "pucl", "settings": {"alpha": 0.5, "c": 0.02}},
    # What HCL's authors published, with its signs; the paper's +DEB and +Hard probably are these.
    "+DEB as published": {"correction": "deb", "settings": {"tau_plus": 0.5}, "compat": "hcl"},
    "+Hard as published": {"correction": "hard", "settings": {"tau_plus": 0.5, "beta": 1.0}, "compat": "hcl"},
    "oracle": {"correction": ORACLE},
}
"""By name: what is changed in the reference settings."""

BASE = "InfoGraph"

UNLIKE_A_RUN: dict[str, Any] = {"monitor": 0, "probes": "svm,svm_scaled,knn"}
"""What a table does without: the linear classifier with its inner folds would take longer than the rest together."""

PAPER: dict[str, dict[str, float]] = {
    "PTC_MR": {
        "InfoGraph": 56.63,
        "+DEB": 55.74,
        "+Hard": 56.20,
        "+Ring": 57.67,
        "+PUCL 0.1": 58.90,
        "+PUCL 0.5": 57.91,
    },
    "ENZYMES": {
        "InfoGraph": 50.33,
        "+DEB": 51.21,
        "+Hard": 51.35,
        "+Ring": 54.15,
        "+PUCL 0.1": 56.21,
        "+PUCL 0.5": 55.35,
    },
    "DD": {
        "InfoGraph": 73.16,
        "+DEB": 70.58,
        "+Hard": 71.61,
        "+Ring": 76.32,
        "+PUCL 0.1": 77.62,
        "+PUCL 0.5": 77.23,
    },
    "REDDIT-BINARY": {
        "InfoGraph": 82.99,
        "+DEB": 84.89,
        "+Hard": 85.07,
        "+Ring": 85.30,
        "+PUCL 0.1": 87.08,
        "+PUCL 0.5": 88.97,
    },
}
"""The paper's accuracies in percent, by data and row."""


def parts_of_table2(
    data: Sequence[str] = DATA,
    rows: Sequence[str] = tuple(ROWS),
    seeds: int = SEEDS,
    changes: Mapping[str, Any] | None = None,
) -> list[Part]:
    """What to run.

    Args:
        data: Names or paths of sets of graphs.
        rows: Which rows, of `ROWS`.
        seeds: How many, from 0.
        changes: In the reference settings.
    """
    for name in rows:
        choose("row of Table 2", name, ROWS)
    if not rows or len(set(rows)) < len(rows):
        raise ValueError(
            f"rows are what is compared: expected at least one, each once, got {', '.join(rows) or 'none'}"
        )
    settings = UNLIKE_A_RUN | dict(changes or {})
    return [
        Part(
            name=_short_name(place),
            rows={row: recipe("infograph", place, **(settings | ROWS[row])) for row in rows},
            base=BASE,
            seeds=seeds,
            published={"paper": PAPER.get(_short_name(place), {})},
        )
        for place in data
    ]


def _short_name(place: str) -> str:
    """What a set of graphs is called in directories and tables."""
    source = known_graphs(place)
    return Path(place).expanduser().resolve().name if source is None else source.name
