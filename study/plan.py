"""What is measured: the rows, the data and their sizes, and how the temperature of each row is chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pucl.config import ORACLE, PLAIN, UNTRAINED, RunConfig, SettingValue
from pucl.frameworks.recipes import recipe
from pucl.paper import ablations
from pucl.paper.table1 import SHORT_SIMCLR
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

WITHOUT_PRIOR = (PLAIN, "auto", ORACLE, "oracle-attract")
"""The rows of large graphs, where all take an hour: what is to be won, and what comes back without a prior."""

TEMPERATURES = (0.1, 0.2, 0.5, 1.0)
"""What the temperature of each row is chosen from, where similarities are divided by one."""

YARDSTICK = "retrieval"


def with_epochs(epochs: int) -> dict[str, dict[str, SettingValue]]:
    """Settings of the row that waits before it corrects: a third of the epochs, as on digits and by its authors."""
    return {"glofnd": {"wait": epochs // 3}}


def with_classes(classes: int, epochs: int) -> dict[str, dict[str, SettingValue]]:
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
        "glofnd": {"dropped": prior, **with_epochs(epochs)["glofnd"]},
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
        rows: The rows that are trained.
    """

    framework: str
    data: str
    seeds: int
    recipe: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, dict[str, SettingValue]] = field(default_factory=dict)
    rows: Sequence[str] = tuple(ROWS)

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


SMALL = ablations.BUDGETS["small"]
IMAGES, EPOCHS, SIDE_OF_FASHION = (SMALL.changes[name] for name in ("limit", "epochs", "image_size"))
EPOCHS_OF_GRAPHS, SIDE_OF_CIFAR = 20, 16


def small_images(framework: str, *, side: int, images: int = IMAGES, epochs: int = EPOCHS) -> dict[str, Any]:
    """The recipe and its changes for few small images, as the ablations have them.

    A queue has fewer keys than there are images, as on digits: otherwise every anchor would meet itself in it.
    """
    own: dict[str, dict[str, Any]] = {
        "simclr": SHORT_SIMCLR,
        "moco": {"queue_size": 1 << (images.bit_length() - 1)},
        "cmc": {},
    }
    size = {"image_size": side, "limit": images, "epochs": epochs}
    return {"recipe": SMALL.recipe, "changes": own[framework] | SMALL.changes | size}


SIZES_OF_CIFAR10 = {"simclr": (2000, 40), "moco": (1000, 80), "cmc": (2000, 40)}
"""Images and epochs at which the oracle led plain in retrieval by most, by `study.size`. On CIFAR100 it did at none."""

GRAPHS: dict[str, Any] = {  # Table 2 has the SVM.
    "changes": {"epochs": EPOCHS_OF_GRAPHS, "probes": "retrieval,clustering,fewshot,linear,knn"}
}
CLASSES_OF_GRAPHS = {"PTC_MR": 2, "ENZYMES": 6, "DD": 2, "REDDIT-BINARY": 2}
LARGE_GRAPHS = ("DD", "REDDIT-BINARY")

SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(framework="simclr", data="digits", seeds=5),
        Subject(framework="moco", data="digits", seeds=5),
        *(
            Subject(
                framework=framework,
                data="fashion-mnist",
                seeds=5,
                settings=with_epochs(EPOCHS),
                **small_images(framework, side=SIDE_OF_FASHION),
            )
            for framework in ("simclr", "moco")
        ),
        *(
            Subject(
                framework=framework,
                data="cifar10",
                seeds=3,
                settings=with_classes(10, epochs),
                **small_images(framework, side=SIDE_OF_CIFAR, images=images, epochs=epochs),
            )
            for framework, (images, epochs) in SIZES_OF_CIFAR10.items()
        ),
        *(
            Subject(
                framework="infograph",
                data=data,
                seeds=10,
                settings=with_classes(classes, EPOCHS_OF_GRAPHS),
                rows=WITHOUT_PRIOR if data in LARGE_GRAPHS else tuple(ROWS),
                **GRAPHS,
            )
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
    """The temperature at which each row is best on validation images. A row that failed at all of them is left out."""
    scores = {row.name: row.scores[YARDSTICK].mean for row in choice.results[part].rows if YARDSTICK in row.scores}
    best = {}
    for row in rows:
        found = {t: scores[f"{row} at {t:g}"] for t in TEMPERATURES if f"{row} at {t:g}" in scores}
        if found:
            best[row] = max(found, key=found.__getitem__)
    if PLAIN not in best:
        raise ValueError(f"{part}: no run of {PLAIN} finished on validation images, so nothing has a temperature")
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
