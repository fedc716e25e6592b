"""``--config``: settings of a run from a file of TOML. What is given on the command line has precedence.

A file says what is run, never how: devices, directories and loggers are options of the command line alone. And it never
says which code is run, nor makes pucl download a model: such an encoder is named on the command line, by the user.
"""

import argparse
import functools
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pucl.commands.frameworks import correction_settings, options_of_framework, settings_of_others
from pucl.commands.options import Container, names, option_of
from pucl.config import RunConfig
from pucl.frameworks import FRAMEWORKS
from pucl.records import MismatchError, conform
from pucl.runs.runfile import RUN_FILE, read_toml
from pucl.settings import Setting
from pucl.texts import did_you_mean, say

OPTION = "--config"
SHARED = ("framework", "data", "recipe")


def add_config(container: Container) -> None:
    """Add the file of settings."""
    text = f"file of settings in TOML, such as the {RUN_FILE} of a run; options that are given too have precedence"
    container.add_argument(OPTION, type=Path, metavar="FILE", help=text)


def with_framework(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the framework of the file if they do not begin with one: it chooses the other options."""
    words = list(arguments)
    if not words or not words[0].startswith("-") or {"-h", "--help"} & {*words}:
        return words
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == OPTION or word.startswith(f"{OPTION}="):
            file = Path(word.partition("=")[2] or following)
            values = read_toml(file)
            if not isinstance(values.get("framework"), str):
                known = ", ".join(FRAMEWORKS)
                raise ValueError(f'{file} names no framework: expected framework = "NAME" with one of {known}')
            return [values["framework"], *words]
    return words


def fill_in(arguments: argparse.Namespace, defaults: Mapping[str, Any], unused: Sequence[str] = ()) -> None:
    """Take what was not given from the file, and then from the defaults of the command.

    Args:
        arguments: The parsed arguments, which are changed. They get ``unset``, the settings that the file sets to none,
            and ``from_file``, the settings that it names and the command line does not.
        defaults: The command's own settings, such as the seed.
        unused: Settings of a run that the command does not use. They may be in the file, and a note says so.
    """
    arguments.unset, arguments.from_file = (), ()
    if arguments.config is not None:
        values = read_toml(arguments.config)
        _check_names(arguments, values, {*SHARED, *defaults, *unused})
        if skipped := [name for name in unused if name in values]:
            say(
                f"note: {arguments.config} is read without {' and '.join(skipped)}, which this command chooses",
                error=True,
            )
        kinds = options_of_framework(arguments.framework) | correction_settings()
        taken = {name: value for name, value in values.items() if name not in ("framework", *unused)}
        for name, value in taken.items():
            place = f"setting_{name}" if name in correction_settings() else name
            if getattr(arguments, place) is not None:
                continue
            if name == "corrections":
                read: Any = names(value) if isinstance(value, str) else _words(arguments.config, name, value)
            else:
                read = _read(arguments.config, name, value, kinds.get(name), type(defaults.get(name, "")))
            setattr(arguments, place, read)
            arguments.from_file += (place,)
            if read is None:
                arguments.unset += (place,)
    for name, value in defaults.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.data is None:
        raise ValueError(f"DATA is what to train on: expected a name or a path, or {OPTION} FILE that has data = ...")


def check_encoder(config: RunConfig, arguments: argparse.Namespace) -> None:
    """Refuse an encoder that only a file names, if it is code, or a model that would be downloaded."""
    for named, what in ((config.foreign_encoder, "code outside pucl"), (config.fetched_model, "a model to download")):
        if named is not None and "encoder" in arguments.from_file:
            raise ValueError(
                f"{arguments.config} names the encoder {named!r}, {what}. No file makes pucl run or fetch that: if you "
                f"know and trust it, name it yourself with --encoder"
            )


def _check_names(arguments: argparse.Namespace, values: Mapping[str, Any], own: set[str]) -> None:
    """Refuse what is no setting of the runs of this framework."""
    file, framework = arguments.config, arguments.framework
    known = own | options_of_framework(framework).keys() | correction_settings().keys()
    for name in values:
        if name in known:
            continue
        if name in (others := settings_of_others(framework)):
            raise ValueError(f"{file}: {name} is a setting of {', '.join(others[name])}, not of {framework}")
        if hasattr(arguments, name):
            raise ValueError(
                f"{file}: {name} is no setting of a run, but where or how it is run: give {option_of(name)} on the "
                f"command line"
            )
        raise ValueError(f"{file}: {name!r} is no setting of {framework}.{did_you_mean(name, known)}")


def _read(file: Path, name: str, value: Any, setting: Setting | None, kind: type) -> Any:
    """The value of a setting, of the type that it has; `kind` is that of an argument that is no setting."""
    optional = setting is not None and setting.optional
    types = {kind} if setting is None else setting.types
    if optional and value is False and bool not in types:
        return None
    if setting is not None and setting.several and isinstance(value, list):
        return ",".join(_words(file, name, value))
    try:
        return conform(value, functools.reduce(operator.or_, types), repr(name))
    except MismatchError as error:
        raise ValueError(f"{file}: {error}{', or false for none' if optional else ''}") from error


def _words(file: Path, name: str, value: Any) -> list[str]:
    """Names that are given as a list."""
    try:
        words: list[str] = conform(value, list[str], repr(name))
    except MismatchError as error:
        raise ValueError(f"{file}: {error}") from error
    return words
