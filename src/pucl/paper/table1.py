"""The paper's Table 1: SimCLR, CMC and MoCo on images, with every correction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pucl.config import ORACLE, PLAIN, UNTRAINED, RunConfig, check_once, choose, field_names
from pucl.data.root import data_root
from pucl.frameworks import FRAMEWORKS as KINDS
from pucl.frameworks.recipes import recipe
from pucl.images.registry import SOURCES
from pucl.runs.tables import Part

FRAMEWORKS = ("simclr", "cmc", "moco")
DATA = ("cifar10", "cifar100", "stl10")
STAND_IN = "digits"  # Bundled, for a quick look where the real set is not there.
STAND_IN_VIEWS = {"flip": 0.0, "crop": 0.4}  # A digit in a mirror is no digit, and half a 9 is a 0.
BASE = "plain"

PRIORS = {"cifar10": (0.12, 0.1), "cifar100": (0.05, 0.1), "stl10": (0.15, 0.1), STAND_IN: (0.12, 0.1)}
"""alpha and c: the paper's best for CIFAR10 and STL10; it does not tell that for CIFAR100."""

TAU_PLUS = {"cifar10": 0.1, "cifar100": 0.05, "stl10": 0.1, STAND_IN: 0.1}
"""Of DEB and Hard, as their authors have it."""

OTHER_TEMPERATURE = {"simclr": 0.2, "moco": 0.2, "cmc": 0.2}
"""Plain is given another temperature too: a table that tunes one row and not the others proves nothing."""

TILT = 2.0
"""Beta of the tilted PUCL."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much work a table may be.

    Args:
        purpose: For whom, in a few words.
        recipe: Where settings start from.
        changes: In those.
        by_framework: More changes, of a framework alone.
        seeds: How many.
        more_seeds: Of a framework on some data, where there are to be more.
        stand_in: Whether bundled data may take the place of a set that is not there.
    """

    purpose: str
    recipe: str
    changes: dict[str, Any] = field(default_factory=dict)
    by_framework: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: int = 3
    more_seeds: dict[tuple[str, str], int] = field(default_factory=dict)
    stand_in: bool = False

    def settings(self, framework: str, data: str) -> dict[str, Any]:
        """What is changed in the recipe for a framework on some data."""
        own = field_names(KINDS[framework].config)
        given = self.changes | self.by_framework.get(framework, {}) | (STAND_IN_VIEWS if data == STAND_IN else {})
        return {name: value for name, value in given.items() if name in own}


BUDGETS = {
    "paper": Budget(purpose="ResNet-50, 400 epochs, for people with accelerators", recipe="paper"),
    "small": Budget(
        purpose="10,000 images, a narrow encoder: some hours on two cores",
        recipe="small",
        changes={"limit": 10_000, "width": 16, "monitor": 2},  # 2.5 minutes a run on one core.
        more_seeds={("simclr", "cifar10"): 5},
    ),
    "quick": Budget(
        purpose="a few hundred images, minutes",
        recipe="small",
        changes={
            "limit": 512,
            "width": 8,
            "image_size": 16,
            "epochs": 4,
            "batch_size": 64,
            "queue_size": 256,
            "draws": 256,
            "splits": 2,
            "monitor": 0,
        },
        seeds=2,
        stand_in=True,
    ),
}

PAPER: dict[str, dict[str, dict[str, float]]] = {
    "simclr": {
        "cifar10": {"plain": 90.44, "+DEB": 90.21, "+Hard": 90.87, "+Ring": 91.48, "+PUCL": 92.14},
        "cifar100": {"plain": 64.94, "+DEB": 66.55, "+Hard": 67.10, "+Ring": 66.21, "+PUCL": 68.14},
        "stl10": {"plain": 80.50, "+DEB": 82.17, "+Hard": 83.33, "+Ring": 83.95, "+PUCL": 85.62},
    },
    "cmc": {
        "cifar10": {"plain": 87.20, "+DEB": 88.12, "+Hard": 88.29, "+Ring": 88.14, "+PUCL": 89.25},
        "cifar100": {"plain": 58.97, "+DEB": 61.05, "+Hard": 62.04, "+Ring": 60.99, "+PUCL": 63.16},
        "stl10": {"plain": 77.99, "+DEB": 80.32, "+Hard": 80.68, "+Ring": 80.62, "+PUCL": 81.30},
    },
    "moco": {
        "cifar10": {"plain": 85.62, "+DEB": 88.36, "+Hard": 89.99, "+Ring": 86.47, "+PUCL": 90.98},
        "cifar100": {"plain": 66.38, "+DEB": 67.31, "+Hard": 68.02, "+Ring": 66.96, "+PUCL": 71.21},
        "stl10": {"plain": 89.13, "+DEB": 91.87, "+Hard": 92.71, "+Ring": 90.78, "+PUCL": 93.68},
    },
}
"""The paper's accuracies in percent, by framework, data and row: ResNet-50."""

AUTHORS: dict[str, dict[str, dict[str, float]]] = {
    "simclr": {
        "cifar10": {"plain": 91.12},
        "cifar100": {"plain": 66.55},
        "stl10": {"plain": 80.15, "+DEB": 84.26, "+Hard": 87.44},
    },
    "moco": {"cifar10": {"plain": 90.7}},
}
"""What the programs' own authors report at nominally the same setting (DCL, HCL, BCL; MoCo: ResNet-18, 800 epochs)."""

ROWS = (UNTRAINED, "plain", "plain, other t", "+DEB", "+Hard", "+Ring", "+PUCL", "+PUCL tilted", ORACLE)


def parts_of_table1(
    budget: str = "small",
    *,
    frameworks: Sequence[str] = FRAMEWORKS,
    data: Sequence[str] = DATA,
    rows: Sequence[str] = ROWS,
    seeds: int | None = None,
    changes: Mapping[str, Any] | None = None,
    root: Path | None = None,
) -> list[Part]:
    """What to run.

    Args:
        budget: Out of `BUDGETS`.
        frameworks: Which, of `FRAMEWORKS`.
        data: Which, of `DATA`, or paths.
        rows: Which, of `ROWS`.
        seeds: How many, from 0; None for what the budget has.
        changes: In the settings of the budget.
        root: Where data are, to see which are there.
    """
    choose("budget", budget, BUDGETS)
    for name in frameworks:
        choose("framework of Table 1", name, FRAMEWORKS)
    for name in rows:
        choose("row of Table 1", name, ROWS)
    check_once("rows are what is compared", rows)
    plan = BUDGETS[budget]
    present = [name for name in data if not plan.stand_in or is_there(name, root)]
    absent = [name for name in data if name not in present]
    places = dict.fromkeys(present, "")
    if absent:
        places[STAND_IN] = (
            f"bundled, in place of {', '.join(absent)}, which {'is' if len(absent) == 1 else 'are'} absent"
        )
    return [
        Part(
            name=f"{framework}-{Path(place).name}",
            rows={row: _config(row, framework, place, plan, dict(changes or {})) for row in rows},
            base=BASE,
            seeds=plan.more_seeds.get((framework, place), plan.seeds) if seeds is None else seeds,
            published={
                "paper": PAPER[framework].get(place, {}),
                "authors": AUTHORS.get(framework, {}).get(place, {}),
            },
            note=note,
        )
        for place, note in places.items()
        for framework in frameworks
    ]


def _config(row: str, framework: str, data: str, budget: Budget, changes: dict[str, Any]) -> RunConfig:
    """One row: its correction, and what else makes it."""
    alpha, c = PRIORS.get(data, PRIORS["cifar10"])
    tau_plus = TAU_PLUS.get(data, TAU_PLUS["cifar10"])
    kinds: dict[str, dict[str, Any]] = {
        UNTRAINED: {"correction": UNTRAINED},
        "plain": {"correction": PLAIN},
        "plain, other t": {"correction": PLAIN, "temperature": OTHER_TEMPERATURE[framework]},
        "+DEB": {"correction": "deb", "settings": {"tau_plus": tau_plus}},
        "+Hard": {"correction": "hard", "settings": {"tau_plus": tau_plus, "beta": 1.0}},
        "+Ring": {"correction": "ring"},
        "+PUCL": {"correction": "pucl", "settings": {"alpha": alpha, "c": c}},
        "+PUCL tilted": {"correction": "pucl", "settings": {"alpha": alpha, "c": c, "beta": TILT}},
        ORACLE: {"correction": ORACLE},
    }
    settings = budget.settings(framework, data) | changes
    return recipe(framework, data, budget.recipe, **(settings | kinds[row]))


def is_there(name: str, root: Path | None) -> bool:
    """Whether data can be had without fetching them: a path, or a known set that was got."""
    source = SOURCES.get(name)
    return source is None or not source.forms or source.find(data_root(root)) is not None
