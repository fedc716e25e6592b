"""Settings whose meaning is written beside the field. The command line and the documentation read it from there.

A configuration or a correction is a dataclass, and each of its settings is a field such as

    epochs: int = setting(100, "passes over the training data", group="optimisation")
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

_Value = TypeVar("_Value")


def setting(
    default: _Value,
    meaning: str,
    *,
    group: str = "",
    choices: Callable[[Any], Iterable[str]] | None = None,
    several: bool = False,
) -> _Value:
    """A field of a dataclass, with its default and its meaning.

    Args:
        default: The default.
        meaning: What the value is. If the default is None, also what None means.
        group: Heading under which ``--help`` lists the setting. Default: that of the framework or correction.
        choices: Returns the known values, given the dataclass; a `Literal` type needs none.
        several: Whether the value is several of the choices, separated by commas.
    """
    metadata = {"meaning": meaning, "group": group, "choices": choices, "several": several}
    field: _Value = dataclasses.field(default=default, metadata=metadata)
    return field


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is known of one setting.

    Args:
        types: Types of its values, without None.
        optional: Whether the value may be None.
        choices: Known values; empty for numbers and free text.
        several: Whether the value is several of the choices, separated by commas.
    """

    name: str
    types: frozenset[Any]
    optional: bool
    default: Any
    meaning: str
    group: str
    choices: tuple[str, ...]
    several: bool


def read_settings(declared: type) -> list[Setting]:
    """The settings of a dataclass, in the order of its fields.

    A subclass may change a default (``epochs: int = 20``) without repeating the meaning.
    """
    hints = typing.get_type_hints(declared)
    explained: dict[str, Mapping[str, Any]] = {}
    for each in reversed(declared.__mro__):
        own = each.__dict__.get("__dataclass_fields__", {})
        explained |= {name: field.metadata for name, field in own.items() if field.metadata}
    found = []
    for field in dataclasses.fields(declared):
        about, alternatives = explained.get(field.name, {}), _alternatives(hints[field.name])
        words = about["choices"](declared) if about.get("choices") else _words(alternatives)
        found.append(
            Setting(
                name=field.name,
                types=frozenset(str if _is_literal(each) else each for each in alternatives),
                optional=type(None) in typing.get_args(hints[field.name]),
                default=field.default,
                meaning=about.get("meaning", ""),
                group=about.get("group", ""),
                choices=tuple(words),
                several=about.get("several", False),
            )
        )
    return found


def _alternatives(hint: Any) -> list[Any]:
    """The types that a union consists of, without None."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return [each for each in (typing.get_args(hint) if is_union else (hint,)) if each is not type(None)]


def _words(alternatives: Iterable[Any]) -> list[str]:
    return [word for each in alternatives if _is_literal(each) for word in typing.get_args(each)]


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is Literal
