"""Options that several commands share."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pucl.runs.loggers import LOGGERS
from pucl.settings import Setting

OPTION_OF = {"monitor": "--monitor-times"}
"""By field: its option, if that is not the field's name. torchrun refuses --monitor, since several options of its own
begin like that. Without torchrun, argparse accepts --monitor as an abbreviation."""

Container = argparse.ArgumentParser | argparse._ArgumentGroup
"""What an option can be added to."""


def add_root(container: Container) -> None:
    """Add the directory of data sets, and the largest size of an unpacked file."""
    root = "directory of data sets (default: $PUCL_DATA, or ~/.cache/pucl)"
    container.add_argument("--root", type=Path, metavar="DIR", help=root)
    unpacked = "largest size of an unpacked data file in GiB (default: 0.25, or 50 times its packed size)"
    container.add_argument("--max-unpacked", type=float, metavar="GIB", help=unpacked)


def add_device(container: Container) -> None:
    """Add the device."""
    names, text = ("auto", "cpu", "cuda", "mps"), "auto, cpu, cuda, cuda:N or mps (default: %(default)s)"
    container.add_argument("--device", default="auto", choices=names, metavar="NAME", help=text)


def add_log(container: Container) -> None:
    """Add the programs that get the metrics too."""
    text = f"also log metrics to these, separated by commas: {', '.join(LOGGERS)}. Under torchrun write --loggers"
    # Several options of torchrun begin with --log; it refuses what may be any of them.
    container.add_argument(
        "--log", "--loggers", type=names, action="extend", choices=LOGGERS, metavar="NAME,...", help=text
    )
    container.add_argument(
        "--tensorboard", action="append_const", dest="log", const="tensorboard", help=argparse.SUPPRESS
    )


def loggers_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The loggers that were given, each once."""
    return tuple(dict.fromkeys(arguments.log or ()))


def add_checkpoint_seconds(container: Container) -> None:
    """Add the time between checkpoints."""
    text = "seconds between checkpoints, the most work that a kill can cost (default: %(default)g)"
    container.add_argument("--checkpoint-seconds", type=float, default=60.0, metavar="S", help=text)


def add_encoder(container: Container) -> None:
    """Add the code that makes an encoder of the user's own. The user names it; a file never does."""
    text = (
        "for runs with an encoder of your own: the class or function that makes it; it is imported and called. For "
        "runs on texts whose pretrained model has moved: its directory"
    )
    container.add_argument("--encoder", metavar="PACKAGE.MODULE:CALLABLE", help=text)


def add_force(container: Container) -> None:
    """Add whether an existing file is overwritten."""
    container.add_argument("--force", action="store_true", help="overwrite an existing file")


def check_new(out: Path, *, force: bool) -> None:
    """Refuse to overwrite a directory, and without `force` any file."""
    if out.is_dir() or (out.exists() and not force):
        raise ValueError(f"{out} exists already: choose another name, or give --force to overwrite a file")


def add_setting(container: Container, setting: Setting, dest: str, text: str) -> None:
    """Add a setting of a configuration or correction. The parsed value is None unless it was given.

    Args:
        container: What the option is added to.
        setting: The setting, with its types and choices.
        dest: Name of the parsed value.
        text: The help text.
    """
    text = text.strip().replace("%", "%%")
    if setting.types == {bool}:
        container.add_argument(option_of(setting.name), dest=dest, action=argparse.BooleanOptionalAction, help=text)
        return
    if setting.several:
        metavar, text = "NAME,...", f"{text}. Known: {', '.join(setting.choices)}"
    elif setting.choices:
        metavar = braced([*setting.choices, *(["X"] if float in setting.types else [])])
    else:
        metavar = "NAME" if setting.types == {str} else "N" if setting.types == {int} else "X"
    read = next(iter(setting.types)) if len(setting.types) == 1 else _word_or_number
    choices = setting.choices or None
    container.add_argument(option_of(setting.name), dest=dest, type=read, choices=choices, metavar=metavar, help=text)


def names(text: str, separator: str = ",") -> list[str]:
    """The names in an option's value. Names of rows may contain commas, so they have another separator."""
    return [name.strip() for name in text.split(separator) if name.strip()]


def given(arguments: argparse.Namespace, *options: str) -> dict[str, Any]:
    """The values of these options, without those that were not given or that the command does not have."""
    values = {name: getattr(arguments, name, None) for name in options}
    return {name: value for name, value in values.items() if value is not None}


def option_of(name: str) -> str:
    """The option of a setting."""
    return OPTION_OF.get(name, f"--{name.replace('_', '-')}")


def braced(choices: Iterable[str]) -> str:
    """Choices as the help shows them."""
    return f"{{{','.join(choices)}}}"


def _word_or_number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
