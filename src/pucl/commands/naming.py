"""Default names of run directories. The same command finds its directory again; other settings get another one."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pucl.commands.frameworks import NOT_OPTIONS
from pucl.config import RunConfig, SettingValue
from pucl.frameworks.recipes import recipe

LONGEST = 80  # Characters of a suffix; a file name may have 255.


def name_of_changes(
    config: RunConfig, recipe_name: str | None, settings: Mapping[str, SettingValue] | None = None
) -> str:
    """The end of a directory's name: the settings that differ from the defaults of the command; empty if none does.

    Args:
        config: The configuration of the run.
        recipe_name: The recipe that was given, or None.
        settings: Settings of corrections that were given; None for those of the run.
    """
    start = recipe(config.framework, config.data, recipe_name)
    changed = {
        field.name: value
        for field in dataclasses.fields(config)
        if field.name not in NOT_OPTIONS and (value := getattr(config, field.name)) != getattr(start, field.name)
    }
    other_recipe = {} if start == recipe(config.framework, config.data) else {"recipe": recipe_name}
    return suffix_of(other_recipe | changed | dict(config.settings if settings is None else settings))


def suffix_of(given: Mapping[str, Any]) -> str:
    """Each setting that was given, with its value, as the end of a directory's name.

    It consists of letters, digits, dots and hyphens. If other characters were replaced, or if it was too long, a digest
    follows.

    Example:
        >>> suffix_of({"batch_size": 64, "temperature": 0.2}), suffix_of({})
        ('-batch-size-64-temperature-0.2', '')
    """
    text = "".join(f"-{name.replace('_', '-')}-{'none' if value is None else value}" for name, value in given.items())
    suffix = re.sub(r"[^A-Za-z0-9.-]+", "-", text)
    if suffix == text and len(suffix) <= LONGEST:
        return suffix
    digest = hashlib.sha256(json.dumps(dict(given)).encode()).hexdigest()[:8]
    return f"{suffix[:LONGEST].rstrip('-.')}-{digest}"
