"""Recipes: the settings that a run starts from.

A recipe is put together from two halves, one of the framework and one of the modality. Each half is a `Recipes` in the
framework's file or the modality's folder, and `settings_to_start_from` is the only reader.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Settings = Mapping[str, Any]
"""Fields of a configuration."""


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """By recipe, the settings that a framework or a modality changes.

    A framework may name settings that only some modalities have, and a modality settings of some frameworks. They are
    skipped where they do not exist.

    Args:
        reference: As in the published program. All other recipes start from these settings.
        paper: For the size of the paper's runs.
        small: For two CPU cores.
        first_look: By the name of the data: a short training, which is the default there.
    """

    reference: Settings = field(default_factory=dict)
    paper: Settings = field(default_factory=dict)
    small: Settings = field(default_factory=dict)
    first_look: Mapping[str, Settings] = field(default_factory=dict)

    def changes(self, name: str | None, data: str) -> Settings:
        """What one of `RECIPES` changes; None is a first look at these data, if there is one."""
        if name is None:
            return self.first_look.get(data, {})
        found: Settings = getattr(self, name)
        return found


RECIPES = tuple(each.name for each in fields(Recipes) if each.name != "first_look")
"""The recipes that a user can ask for."""


def settings_to_start_from(name: str | None, data: str, modality: Recipes, framework: Recipes) -> Settings:
    """The settings of a recipe. Where both halves have one, the framework's is used.

    Args:
        name: One of `RECIPES`; None for the reference, or a first look at data that have one.
        data: The name of the data, or a path.
        modality: The half of the modality.
        framework: The half of the framework.
    """
    halves = (modality, framework)
    start = {field: value for half in halves for field, value in half.reference.items()}
    return start | {field: value for half in halves for field, value in half.changes(name, data).items()}
