"""Settings of a benchmark, which are its command-line options too: each field holds its default and its help text."""

import argparse
import dataclasses
import math
import shlex
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any


def option(default: Any, meaning: str, *, least: int = 1) -> Any:
    """A field of settings that is a command-line option too.

    Args:
        default: Its value unless given, or a function that returns it.
        meaning: The help text. For a default of None it says what None means.
        least: The smallest whole number that is allowed. Fractions must be above 0.
    """
    metadata = {"meaning": meaning, "least": least}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base class of settings, whose fields are all made by `option`. It checks numbers and lists."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), field.metadata["least"]
            values = value if isinstance(value, tuple) else (value,)
            expected = None
            if not values or len(set(values)) < len(values):
                expected = "different values, at least one"
            elif any(isinstance(each, int) and each < least for each in values if not isinstance(each, bool)):
                expected = f"at least {least}"
            elif any(isinstance(each, float) and not 0 < each < math.inf for each in values):
                expected = "a number above 0"
            if expected:
                name, meaning = _flag(field.name), field.metadata["meaning"]
                raise ValueError(f"{name} ({meaning}): expected {expected}, got {_word(value) or 'none'}")


def add_options(parser: argparse.ArgumentParser, kind: Callable[[], Settings]) -> None:
    """Add an option for each field of a settings class."""
    usual = kind()
    types = typing.get_type_hints(type(usual))
    for field in dataclasses.fields(usual):
        name, default, meaning = _flag(field.name), getattr(usual, field.name), field.metadata["meaning"]
        if types[field.name] is bool:
            help_text = f"{meaning} (default: {'yes' if default else 'no'})"
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=default, help=help_text)
        else:
            reader, metavar = _READERS[types[field.name]]
            help_text = meaning if default is None else f"{meaning} (default: {_word(default)})"
            parser.add_argument(name, type=reader, metavar=metavar, default=default, help=help_text)


def command_line(subject: str, settings: Settings, out: Path) -> str:
    """The command that repeats a benchmark, with every default written out."""
    words = ["python", "-m", "benchmarks", subject]
    for field in dataclasses.fields(settings):
        value, name = getattr(settings, field.name), _flag(field.name)
        if isinstance(value, bool):
            words.append(name if value else name.replace("--", "--no-", 1))
        elif value is not None:
            words.append(f"{name}={_word(value)}")
    return shlex.join([*words, f"--out={out}"])


def _flag(field: str) -> str:
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
