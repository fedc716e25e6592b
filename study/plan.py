"""What is measured: the rows, the data and their sizes, and how the temperature of each row is chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pucl.config import ORACLE, PLAIN, UNTRAINED, RunConfig, SettingValue
from pucl.frameworks.recipes import recipe
from pucl.runs.tables import Part, Table, configure_row

ROWS: dict[str, dict[str, SettingValue]] = {
    PLAIN: {},
    "deb": {"tau_plus": 0.1},
    "pucl": {"alpha": 0.12, "c": 0.1},
    "pucl-stopped": {"alpha": 0.12, "c": 0.1},
    "hard": {"tau_plus": 0.1, "beta": 1.0},
    "tilt-alone": {"beta": 1.0},
    "ring": {},
    "bcl": {},
    "glofnd": {},
    "ratio": {},
    "clusters": {},
    "auto": {},
    "clusters-shuffled": {},
    "clusters-kmeans": {},
    "auto-shuffled": {},
    ORACLE: {},
    "oracle-attract": {},
}
"""The trained rows, with settings for ten classes: the paper's alpha and c, the same prior for DEB and Hard.

For other numbers of classes see `with_classes`.
"""

TEMPERATURES = (0.1, 0.2, 0.5, 1.0)
"""What the temperature of each row is chosen from, where similarities are divided by one."""

YARDSTICK = "retrieval"


def with_classes(classes: int) -> dict[str, dict[str, SettingValue]]:
    """Settings of the rows that need a prior or a number of clusters, for equally many samples of each class.

    PUCL's alpha is a fifth above the prior, as the paper's 0.12 is for ten classes.
    """
    prior = 1 / classes
    return {
        "deb": {"tau_plus": prior},
        "pucl": {"alpha": 1.2 * prior},
        "pucl-stopped": {"alpha": 1.2 * prior},
        "hard": {"tau_plus": prior},
        "bcl": {"tau_plus": prior},
        "glofnd": {"dropped": prior},
        "clusters-kmeans": {"k": classes},
    }


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A part of the table: a framework and data, and the size at which they are measured.

    Args:
        framework: What is trained.
        data: Name of the data.
        seeds: Number of seeds.
        recipe: The recipe that the settings start from; None for that of a first look.
        changes: Changes to the recipe.
        settings: Changes to the settings of `ROWS`, by row.
    """

    framework: str
    data: str
    seeds: int
    recipe: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, dict[str, SettingValue]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the part."""
        return f"{self.framework}-{self.data}"

    def config(self, row: str, temperature: float | None = None, **changes: Any) -> RunConfig:
        """The configuration of a row; without a temperature that of the reference."""
        if temperature is not None:
            changes["temperature"] = temperature
        base = recipe(self.framework, self.data, self.recipe, **({"monitor": 0} | self.changes | changes))
        config = configure_row(base, row, ROWS.get(row, {}))
        return replace(config, settings={**config.settings, **self.settings.get(row, {})})

    @property
    def reference_temperature(self) -> float | None:
        """The temperature of the framework's reference program; None for InfoGraph, which compares inner products."""
        temperature: float | None = self.config(PLAIN).as_json()["temperature"]
        return temperature


# Small images leave time for many epochs, and with epochs false negatives cost more.
FASHION: dict[str, Any] = {
    "recipe": "small",
    "changes": {"image_size": 14, "limit": 2000, "epochs": 40, "width": 16},
}
GRAPHS: dict[str, Any] = {"changes": {"probes": "retrieval,clustering,fewshot,linear,knn"}}  # Table 2 has the SVM.
CLASSES_OF_GRAPHS = {"PTC_MR": 2, "ENZYMES": 6, "DD": 2, "REDDIT-BINARY": 2}

SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(framework="simclr", data="digits", seeds=5),
        Subject(framework="moco", data="digits", seeds=5),
        Subject(framework="simclr", data="fashion-mnist", seeds=5, **FASHION),
        Subject(framework="moco", data="fashion-mnist", seeds=5, **FASHION),
        *(
            Subject(framework="infograph", data=data, seeds=10, settings=with_classes(classes), **GRAPHS)
            for data, classes in CLASSES_OF_GRAPHS.items()
        ),
    )
}
"""What is measured, by name."""


def choice_part(subject: Subject, rows: Sequence[str]) -> Part:
    """Each row at each temperature, tested on validation images. For a subject that has a temperature."""
    return Part(
        name=subject.name,
        rows={
            f"{row} at {temperature:g}": subject.config(row, temperature, validation=True, probes=YARDSTICK)
            for row in rows
            for temperature in TEMPERATURES
        },
        base=f"{PLAIN} at {subject.reference_temperature:g}",
        seeds=1,
        yardstick=YARDSTICK,
    )


def best_temperatures(choice: Table, part: str, rows: Sequence[str]) -> dict[str, float]:
    """The temperature at which each row is best on validation images."""
    scores = {row.name: row.scores[YARDSTICK].mean for row in choice.results[part].rows if YARDSTICK in row.scores}
    best = {}
    for row in rows:
        found = {temperature: scores.get(f"{row} at {temperature:g}", -1.0) for temperature in TEMPERATURES}
        best[row] = max(found, key=found.__getitem__)
    return best


def final_part(subject: Subject, best: Mapping[str, float | None]) -> Part:
    """Each row at plain's best temperature, and at its own best one where that is another.

    Args:
        subject: What is trained.
        best: The best temperature of each row; None for a subject without temperatures.
    """
    rows = {UNTRAINED: subject.config(UNTRAINED)}
    for row, temperature in best.items():
        rows[row] = subject.config(row, best[PLAIN])
        others = {temperature, subject.reference_temperature} if row == PLAIN else {temperature}
        for other in others - {best[PLAIN]}:
            rows[f"{row} at {other:g}"] = subject.config(row, other)
    note = "inner products without a temperature, as in the reference"
    if best[PLAIN] is not None:
        note = f"temperature {best[PLAIN]:g}, at which {PLAIN} is best on validation images, where no other is named"
    return Part(
        name=subject.name,
        rows=rows,
        base=PLAIN,
        seeds=subject.seeds,
        note=note,
        yardstick=YARDSTICK,
    )
