"""The settings of a run as a file of TOML, for people to keep and to change.

It is written into every run's directory, and ``--config`` reads it: the same file is the same run. Settings are on one
level, under the names that they have on the command line. TOML has no word for "none": a setting that is off is false.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from pucl.config import RunConfig

RUN_FILE = "run.toml"
FIRST = ("framework", "data", "correction", "seed")
LEFT_OUT = ("modality", "settings")  # The data say what they are; settings of the correction stand for themselves.


def as_toml(config: RunConfig) -> str:
    """All settings of a run."""
    values = config.as_json()
    rest = [name for name in values if name not in (*FIRST, *LEFT_OUT)]
    lines = [
        "# The settings of a run of pucl: `pucl train --config` of this file is the same run.",
        *(f"{name} = {_value(values[name])}" for name in FIRST),
        "",
        *(f"{name} = {_value(values[name])}" for name in rest),
    ]
    if config.settings:
        lines += ["", "# Of the correction:", *(f"{name} = {_value(each)}" for name, each in config.settings.items())]
    return "\n".join(lines) + "\n"


def read_toml(file: Path) -> dict[str, Any]:
    """The values of a file of settings.

    Raises:
        ValueError: If it does not exist, is no TOML, or has tables.
    """
    if not file.is_file():
        raise ValueError(f"there is no file {file}: expected settings as TOML, such as the run.toml of a run")
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{file} holds settings as TOML, each on a line (epochs = 50): {error}") from error
    for name, value in values.items():
        if isinstance(value, dict):
            raise ValueError(f"{file} holds settings on one level: expected {name} = ..., got a table [{name}]")
    return values


def _value(value: Any) -> str:
    if value is None:
        return "false"
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
