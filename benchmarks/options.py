"""Settings of a benchmark and its command-line options, declared in one place.

A setting is a field made by `option`, which holds its default and its help text. `add_options` turns the fields into
options, `read_options` turns parsed options into settings, and `command_line` writes the command that repeats them.
"""

import argparse
import dataclasses
import shlex
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pucl.contrast.correction import check_range

_Settings = TypeVar("_Settings")


def option(default: Any, meaning: str) -> Any:
    """A field of settings that is a command-line option too.

    Args:
        default: Its value unless given, or a function that returns it.
        meaning: The help text. For a default of None it says what None means.
    """
    metadata = {"meaning": meaning}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def add_options(parser: argparse.ArgumentParser, kind: Callable[..., Any]) -> None:
    """Add an option for each field of a settings class."""
    usual, types = kind(), typing.get_type_hints(kind)
    for field in dataclasses.fields(usual):
        name, default, meaning = _option_name(field.name), getattr(usual, field.name), field.metadata["meaning"]
        if types[field.name] is bool:
            help_text = f"{meaning} (default: {'yes' if default else 'no'})"
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=default, help=help_text)
        else:
            reader, metavar = _READERS[types[field.name]]
            help_text = meaning if default is None else f"{meaning} (default: {_word(default)})"
            parser.add_argument(name, type=reader, metavar=metavar, default=default, help=help_text)


def read_options(kind: Callable[..., _Settings], arguments: argparse.Namespace) -> _Settings:
    """The settings that the parsed options describe."""
    fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type]  # A settings class, typed by what it makes.
    return kind(**{field.name: getattr(arguments, field.name) for field in fields})


def command_line(subject: str, settings: Any, out: Path) -> str:
    """The command that repeats a benchmark, with every default written out."""
    words = ["python", "-m", "benchmarks", subject]
    for field in dataclasses.fields(settings):
        value, name = getattr(settings, field.name), _option_name(field.name)
        if isinstance(value, bool):
            words.append(name if value else name.replace("--", "--no-", 1))
        elif value is not None:
            words.append(f"{name}={_word(value)}")
    return shlex.join([*words, f"--out={out}"])


def check_effort(threads: int, seconds: float, timed: str) -> None:
    """Raise an error for settings with which nothing could be timed.

    Args:
        threads: Threads of torch.
        seconds: Time to spend.
        timed: What the seconds are spent on, as in ``"a loss is timed at a batch size"``.
    """
    check_range("threads", "how many cores torch may use", threads, "at least 1", threads >= 1)
    check_range("seconds", f"about how long {timed}", seconds, "0 < seconds < inf", 0 < seconds < float("inf"))


def check_names(meaning: str, names: tuple[str, ...]) -> None:
    """Raise an error unless there is a name and each name is given once."""
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{meaning} are what is measured: expected different names, got {', '.join(names) or 'none'}")


def _option_name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _word(value: object) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, _names(text)))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected whole numbers with commas between them, such as 256,1024, got {text!r}"
        ) from None


_READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "N"),
    int | None: (int, "N"),
    float: (float, "X"),
    str: (str, "NAME"),
    Path | None: (Path, "DIR"),
    tuple[str, ...]: (_names, "NAME,..."),
    tuple[int, ...]: (_numbers, "N,..."),
}
"""By the type of a field: what reads its option, and the placeholder in the help text."""
