"""Configurations: from the settings of the reference programs, from a recipe, or from a record."""

from pathlib import Path
from typing import Any

from pucl.config import ROWS, RunConfig, choose, field_names, settings_of
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.kind import FrameworkKind
from pucl.records import conform

RECIPES = ("reference", "paper", "small")
"""Where settings may start from: the reference program, the paper's size, or what two CPU cores can do."""


def recipe(framework: str, data: str, name: str | None = None, **changes: Any) -> RunConfig:
    """The settings of a framework's reference program, changed by a recipe and by what is given.

    Args:
        framework: Its name in `FRAMEWORKS`.
        data: A known name or a path, which is made absolute: the run is the same from wherever it is continued.
        name: One of `RECIPES`; None is the reference, with less work where the data are for a first look.
        changes: Fields of the framework's configuration.
    """
    choose("framework", framework, FRAMEWORKS)
    kind = FRAMEWORKS[framework]
    for field in changes:
        _check_field(kind, field)
    _check_modality(kind, data)
    known = kind.modality.knows(data)
    if name is None:
        first_look = kind.modality.first_look.get(data, {}) if known else {}
        start = {field: value for field, value in first_look.items() if field in field_names(kind.config)}
    else:
        choose("recipe", name, RECIPES)
        start = {} if name == "reference" else dict(getattr(kind, name))
    if not known and Path(data).expanduser().exists():
        data = str(Path(data).expanduser().resolve())
    return kind.config(data=data, **({"framework": framework} | dict(kind.reference) | start | changes))


def read_config(record: dict[str, Any]) -> RunConfig:
    """Read a configuration back from JSON, with known fields of the right types.

    Runs of version 0.1 name the settings of all frameworks of their modality; those of others are dropped.
    """
    choose("framework", str(record.get("framework")), FRAMEWORKS)
    kind = FRAMEWORKS[str(record["framework"])]
    others = set().union(*(field_names(each.config) for each in FRAMEWORKS.values() if each.modality is kind.modality))
    own = {name: value for name, value in record.items() if name in field_names(kind.config) or name not in others}
    config: RunConfig = conform(own, kind.config, "the configuration")
    return config


def all_field_names() -> set[str]:
    """The fields of all configurations."""
    return set().union(*(field_names(kind.config) for kind in FRAMEWORKS.values()))


def known_names() -> list[str]:
    """What any run can be chosen by: fields of its configuration, and settings of its correction."""
    return sorted(all_field_names().union(*(settings_of(correction) for correction in ROWS)))


def _check_field(kind: FrameworkKind, field: str) -> None:
    """Refuse a setting that the runs of this framework do not have."""
    having = [name for name, each in FRAMEWORKS.items() if field in field_names(each.config)]
    if having and kind.name not in having:
        raise ValueError(f"{field} is a setting of {', '.join(having)}, not of {kind.name}")
    choose(f"setting of {kind.name}", field, sorted(field_names(kind.config)))


def _check_modality(kind: FrameworkKind, data: str) -> None:
    """Refuse pictures where graphs are wanted, and the other way round, as far as names tell."""
    own = kind.modality
    if own.knows(data) or Path(data).expanduser().exists():
        return
    for other in {each.modality.name: each.modality for each in FRAMEWORKS.values()}.values():
        if other is not own and other.knows(data):
            takers = ", ".join(name for name, each in FRAMEWORKS.items() if each.modality is other)
            raise ValueError(f"{data} is a set of {other.word}, for {takers}: expected {own.word} for {kind.name}")
