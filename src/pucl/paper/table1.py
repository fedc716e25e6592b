"""The paper's Table 1: SimCLR, CMC and MoCo on images, with every correction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pucl.config import ORACLE, PLAIN, UNTRAINED, RunConfig, check_known, check_once, field_names
from pucl.data.root import data_root
from pucl.frameworks.recipes import recipe
from pucl.images.registry import SOURCES
from pucl.runs.tables import Part

FRAMEWORKS = ("simclr", "cmc", "moco")
DATA = ("cifar10", "cifar100", "stl10")
STAND_IN = "digits"  # Bundled, for a quick look without the real data.
STAND_IN_VIEWS = {"flip": 0.0, "crop": 0.4}  # A mirrored digit is not a digit, and half a 9 is a 0.
BASE = "plain"

PRIORS = {"cifar10": (0.12, 0.1), "cifar100": (0.05, 0.1), "stl10": (0.15, 0.1), STAND_IN: (0.12, 0.1)}
"""alpha and c: the paper's best for CIFAR10 and STL10. The paper does not report them for CIFAR100."""

TAU_PLUS = {"cifar10": 0.1, "cifar100": 0.05, "stl10": 0.1, STAND_IN: 0.1}
"""tau+ of DEB and Hard, as their authors have it."""

OTHER_TEMPERATURE = 0.2
"""A second temperature for plain: a comparison that tunes one row only would prove nothing."""

TILT = 2.0
"""beta of the tilted PUCL."""


SHORT_SIMCLR = {"epochs": 8, "temperature": 0.5, "crop": 0.2, "coarse": 0.0, "scales": 1}
"""What SimCLR had in the recipe `small` when the tables were measured: eight epochs, the reference's temperature."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The amount of work for a table."""

    purpose: str  # For the help text.
    recipe: str
    changes: dict[str, Any] = field(default_factory=dict)  # To the recipe.
    by_framework: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # To the recipe of single frameworks, before `changes`.
    seeds: int = 3
    more_seeds: dict[tuple[str, str], int] = field(default_factory=dict)  # By framework and data.
    stand_in: bool = False  # Whether bundled data may replace a data set that is missing.

    def settings(self, framework: str, data: str) -> dict[str, Any]:
        """The changes to the recipe that are settings of this framework and data."""
        own = field_names(type(recipe(framework, data)))
        given = self.by_framework.get(framework, {}) | self.changes | (STAND_IN_VIEWS if data == STAND_IN else {})
        return {name: value for name, value in given.items() if name in own}


BUDGETS = {
    "paper": Budget(purpose="ResNet-50, 400 epochs, for people with accelerators", recipe="paper"),
    "small": Budget(
        purpose="10,000 images, a narrow encoder: some hours on two cores",
        recipe="small",
        changes={"limit": 10_000, "width": 16, "monitor": 2},  # 2.5 minutes a run on one core.
        by_framework={"simclr": SHORT_SIMCLR},
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
        by_framework={"simclr": SHORT_SIMCLR},
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
"""Results of the methods' authors at nominally the same setting (DCL, HCL, BCL; MoCo: ResNet-18, 800 epochs)."""

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
    """The runs of Table 1.

    Args:
        budget: A key of `BUDGETS`.
        frameworks: Some of `FRAMEWORKS`.
        data: Some of `DATA`, or paths.
        rows: Some of `ROWS`.
        seeds: Number of seeds, from 0; None for the number of the budget.
        changes: Changes to the settings of the budget.
        root: Directory of the data, to look for data sets.
    """
    check_known("budget", budget, BUDGETS)
    for name in frameworks:
        check_known("framework of Table 1", name, FRAMEWORKS)
    for name in rows:
        check_known("row of Table 1", name, ROWS)
    check_once("rows are the methods to compare", rows)
    plan = BUDGETS[budget]
    present = [name for name in data if not plan.stand_in or is_there(name, root)]
    absent = [name for name in data if name not in present]
    notes = dict.fromkeys(present, "")
    if absent:
        notes[STAND_IN] = (
            f"bundled, in place of {', '.join(absent)}, which {'is' if len(absent) == 1 else 'are'} absent"
        )
    return [
        Part(
            name=f"{framework}-{Path(name).name}",
            rows={row: _config(row, framework, name, plan, dict(changes or {})) for row in rows},
            base=BASE,
            seeds=plan.more_seeds.get((framework, name), plan.seeds) if seeds is None else seeds,
            published={
                "paper": PAPER[framework].get(name, {}),
                "authors": AUTHORS.get(framework, {}).get(name, {}),
            },
            yardstick="linear",
            note=note,
        )
        for name, note in notes.items()
        for framework in frameworks
    ]


def _config(row: str, framework: str, data: str, budget: Budget, changes: dict[str, Any]) -> RunConfig:
    """The configuration of one row."""
    alpha, c = PRIORS.get(data, PRIORS["cifar10"])
    tau_plus = TAU_PLUS.get(data, TAU_PLUS["cifar10"])
    kinds: dict[str, dict[str, Any]] = {
        UNTRAINED: {"correction": UNTRAINED},
        "plain": {"correction": PLAIN},
        "plain, other t": {"correction": PLAIN, "temperature": OTHER_TEMPERATURE},
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
    """Whether the data need no download: a path, or a known data set that is stored."""
    source = SOURCES.get(name)
    return source is None or source.find(data_root(root)) is not None
