"""What is measured: the rows, the data and their sizes, and how the temperature of each row is chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pucl.config import ORACLE, PLAIN, UNTRAINED, RunConfig, SettingValue, choose
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
"""The trained rows. Settings are the paper's alpha and c, the same prior for DEB and Hard, and else the defaults."""

TEMPERATURES = (0.1, 0.2, 0.5, 1.0)
"""What the temperature of each row is chosen from."""

YARDSTICK = "retrieval"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Data, and the size at which it is measured.

    Args:
        data: Name of the data.
        frameworks: What it is trained with.
        seeds: Number of seeds.
        recipe: The recipe that the settings start from; None for that of a first look.
        changes: Changes to the recipe.
    """

    data: str
    frameworks: tuple[str, ...]
    seeds: int
    recipe: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    def config(self, framework: str, row: str, temperature: float | None = None, **changes: Any) -> RunConfig:
        """The configuration of a row; without a temperature that of the reference."""
        if temperature is not None:
            changes["temperature"] = temperature
        base = recipe(framework, self.data, self.recipe, **({"monitor": 0} | self.changes | changes))
        return configure_row(base, row, ROWS.get(row, {}))

    def reference_temperature(self, framework: str) -> float:
        """The temperature of the framework's reference program."""
        return float(self.config(framework, PLAIN).as_json()["temperature"])


SUBJECTS = {
    subject.data: subject
    for subject in (
        Subject(data="digits", frameworks=("simclr", "moco"), seeds=5),
        Subject(
            data="fashion-mnist",
            frameworks=("simclr", "moco"),
            seeds=5,
            recipe="small",
            changes={"limit": 3000, "epochs": 20, "width": 16},
        ),
    )
}


def chosen_subjects(data: Sequence[str], frameworks: Sequence[str]) -> list[tuple[Subject, str]]:
    """Data and framework of each part.

    Args:
        data: Names of `SUBJECTS`; empty for all.
        frameworks: Names of frameworks; empty for all.
    """
    for name in data:
        choose("subject", name, SUBJECTS)
    found = [
        (subject, framework)
        for subject in SUBJECTS.values()
        for framework in subject.frameworks
        if (not data or subject.data in data) and (not frameworks or framework in frameworks)
    ]
    if not found:
        known = ", ".join(f"{subject.data} with {' and '.join(subject.frameworks)}" for subject in SUBJECTS.values())
        raise ValueError(f"parts are data with a framework: expected some of {known}, got {', '.join(frameworks)}")
    return found


def part_name(subject: Subject, framework: str) -> str:
    """The name of a part of the table."""
    return f"{framework}-{subject.data}"


def choice_part(subject: Subject, framework: str, rows: Sequence[str]) -> Part:
    """Each row at each temperature, tested on validation images."""
    return Part(
        name=part_name(subject, framework),
        rows={
            f"{row} at {temperature:g}": subject.config(framework, row, temperature, validation=True, probes=YARDSTICK)
            for row in rows
            for temperature in TEMPERATURES
        },
        base=f"{PLAIN} at {subject.reference_temperature(framework):g}",
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


def final_part(subject: Subject, framework: str, best: Mapping[str, float]) -> Part:
    """Each row at plain's best temperature, and at its own best one where that is another."""
    rows = {UNTRAINED: subject.config(framework, UNTRAINED)}
    for row, temperature in best.items():
        rows[row] = subject.config(framework, row, best[PLAIN])
        others = {temperature, subject.reference_temperature(framework)} if row == PLAIN else {temperature}
        for other in others - {best[PLAIN]}:
            rows[f"{row} at {other:g}"] = subject.config(framework, row, other)
    return Part(
        name=part_name(subject, framework),
        rows=rows,
        base=PLAIN,
        seeds=subject.seeds,
        note=f"temperature {best[PLAIN]:g}, at which {PLAIN} is best on validation images, where no other is named",
        yardstick=YARDSTICK,
    )
