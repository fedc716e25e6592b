"""Configurations: from a recipe (`pucl.recipe` says what that is), or from a record."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pucl.config import RunConfig, check_known, field_names, row_names, settings_of
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.kind import FrameworkKind
from pucl.modalities import MODALITIES
from pucl.modality import Modality
from pucl.recipe import RECIPES, settings_to_start_from
from pucl.records import conform


def recipe(framework: str, data: str, name: str | None = None, **changes: Any) -> RunConfig:
    """The configuration of a run: the settings of a recipe, changed by what is given.

    Args:
        framework: Its name in `FRAMEWORKS`.
        data: A known name or a path, which is made absolute: the run is the same from wherever it is continued.
        name: One of `RECIPES`; None is the reference, with less work where the data are for a first look.
        changes: Fields of the configuration. Without `correction` it is plain; `pucl train` takes that of
            `FrameworkKind.correction`.
    """
    check_known("framework", framework, FRAMEWORKS)
    kind = FRAMEWORKS[framework]
    modality = _modality_for(kind, data)
    config, known = config_class(kind, modality), modality.knows(data)
    for field in changes:
        _check_field(kind, config, field)
    if name is not None:
        check_known("recipe", name, RECIPES)
    start = settings_to_start_from(name, data, modality.recipes, kind.recipes)
    if not known and Path(data).expanduser().exists():
        data = str(Path(data).expanduser().resolve())
    own = {field: value for field, value in start.items() if field in field_names(config)}
    return config(**({"framework": framework, "modality": modality.name, "data": data} | own | changes))


def read_config(record: dict[str, Any]) -> RunConfig:
    """Read a configuration back from JSON, with known fields of the right types.

    Records of version 0.1 name no modality, and have the settings of all frameworks. Settings that this framework does
    not have are dropped.
    """
    check_known("framework", str(record.get("framework")), FRAMEWORKS)
    kind = FRAMEWORKS[str(record["framework"])]
    name = str(record.get("modality", modalities_of(kind)[0].name))
    check_known(f"modality of {kind.name}", name, [each.name for each in modalities_of(kind)])
    config = config_class(kind, MODALITIES[name])
    others = set().union(*(field_names(each) for other, each in configurations() if other is MODALITIES[name]))
    own = {field: value for field, value in record.items() if field in field_names(config) or field not in others}
    read: RunConfig = conform(own, config, "the configuration")
    return read


def config_class(kind: FrameworkKind, modality: Modality) -> type[RunConfig]:
    """The configuration of a framework's runs on a modality: it has the settings of both."""
    if kind.modality is modality:
        return kind.config
    if (kind.config, modality.config) not in _JOINED:
        _JOINED[kind.config, modality.config] = _join(kind.config, modality.config)
    return _JOINED[kind.config, modality.config]


_JOINED: dict[tuple[type[RunConfig], type[RunConfig]], type[RunConfig]] = {}
"""By the classes of framework and modality: both in one. Each is made once: equal configurations have equal classes."""


def _join(framework: type[RunConfig], modality: type[RunConfig]) -> type[RunConfig]:
    """One class with the fields of both. Where both change a default of `RunConfig`, the framework's is used."""
    usual = {field.name: field for field in dataclasses.fields(RunConfig)}
    changed: list[Any] = [
        (field.name, field.type, dataclasses.field(default=field.default))
        for field in dataclasses.fields(framework)
        if field.name in usual and field.default is not usual[field.name].default
    ]
    made: type[RunConfig] = dataclasses.make_dataclass(
        framework.__name__,
        changed,
        bases=(modality, framework),
        namespace={"__doc__": f"{framework.__doc__}\n{modality.__doc__}", "__reduce__": _reduce},
        frozen=True,
        kw_only=True,
    )
    return made


def _reduce(config: RunConfig) -> tuple[Any, ...]:
    """How pickle writes a configuration: no module holds its class under a name."""
    fields = {name: getattr(config, name) for name in field_names(type(config))}
    return _restore, (fields,)


def _restore(fields: dict[str, Any]) -> RunConfig:
    return config_class(FRAMEWORKS[fields["framework"]], MODALITIES[fields["modality"]])(**fields)


def modalities_of(kind: FrameworkKind) -> list[Modality]:
    """The modalities that a framework can be trained on. The first one is the default."""
    return [modality for modality in MODALITIES.values() if kind.takes(modality)]


def configurations() -> Iterator[tuple[Modality, type[RunConfig]]]:
    """The configurations of all frameworks on all modalities that they take."""
    for kind in FRAMEWORKS.values():
        for modality in modalities_of(kind):
            yield modality, config_class(kind, modality)


def known_names() -> list[str]:
    """The names by which runs can be filtered: fields of configurations, and settings of corrections."""
    fields = (field_names(config) for _, config in configurations())
    return sorted(set().union(*fields, *(settings_of(correction) for correction in row_names())))


def _check_field(kind: FrameworkKind, config: type[RunConfig], field: str) -> None:
    """Refuse a setting that the runs of this framework do not have."""
    if field in field_names(config):
        return
    having = {str(getattr(each, "framework")) for _, each in configurations() if field in field_names(each)}  # noqa: B009
    if having and kind.name not in having:
        names = ", ".join(name for name in FRAMEWORKS if name in having)
        raise ValueError(f"{field} is a setting of {names}, not of {kind.name}")
    check_known(f"setting of {kind.name}", field, sorted(field_names(config)))


def _modality_for(kind: FrameworkKind, data: str) -> Modality:
    """The modality of some data: the one that knows their name, or reads their path; else the framework's first.

    Raises:
        ValueError: If only modalities know the name that the framework does not take.
    """
    taken = modalities_of(kind)
    for modality in taken:
        if modality.knows(data):
            return modality
    path = Path(data).expanduser()
    if path.exists():
        return next((modality for modality in taken if modality.reads(path)), taken[0])
    for other in MODALITIES.values():
        if other.knows(data):
            takers = ", ".join(name for name, each in FRAMEWORKS.items() if each.takes(other))
            wanted = " or ".join(modality.word for modality in taken)
            raise ValueError(f"{data} is a set of {other.word}, for {takers}: expected {wanted} for {kind.name}")
    return taken[0]
