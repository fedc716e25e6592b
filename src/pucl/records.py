"""Records that pucl reads back: files of JSON whose content is known.

All records are read here. A file that is damaged, cut short or of another kind is refused by a sentence that names it.
"""

import dataclasses
import gzip
import json
import types
import typing
import zlib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

_Record = TypeVar("_Record")

WORDS = {
    float: "a number",
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
    dict: "an object",
}


DAMAGED = "is damaged, or another program wrote it"

MOST_BYTES = 2**30
"""Most bytes that a compressed file may unpack to; a table of a thousand runs needs ten million."""


class DamagedError(ValueError):
    """A file is damaged, or another program wrote it. It is not changed."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file} {DAMAGED}: {why}")
        self.file = file
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.why)  # It may come from another process.


class MismatchError(ValueError):
    """A value is not of the type that its record declares."""


def read_record(file: Path, schema: type[_Record]) -> _Record:
    """Read a file that holds one record.

    Args:
        file: A file of JSON.
        schema: A dataclass, or a `TypedDict` whose unknown keys are kept.

    Raises:
        DamagedError: If the file holds anything else.
        FileNotFoundError: If it does not exist.
    """
    return _parsed(file, _text(file), schema)


def read_lines(file: Path, schema: type[_Record]) -> list[_Record]:
    """Read a file that holds one record on each line; see `read_record`."""
    records = []
    for _, record in each_line(file, schema):
        if isinstance(record, DamagedError):
            raise record
        records.append(record)
    return records


def each_line(file: Path, schema: type[_Record]) -> Iterator[tuple[int, _Record | DamagedError]]:
    """Read a file that holds one record on each line, and continue after a damaged line.

    Args:
        file: A file with JSON on each line. It is compressed if its name ends in ``.gz``.
        schema: The type of the records; see `read_record`.

    Yields:
        The number of each line, from 1, and its record, or the error that says why the line cannot be read.

    Raises:
        DamagedError: If the file has no lines of text at all.
    """
    for number, line in enumerate(_text(file).splitlines(), 1):
        try:
            yield number, _parsed(file, line, schema, f"line {number}: ")
        except DamagedError as error:
            yield number, error


def _text(file: Path) -> str:
    content = _unpacked(file) if file.suffix == ".gz" else file.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError(file, f"expected text in UTF-8, got a byte that is none at {error.start}") from error


def _unpacked(file: Path) -> bytes:
    try:
        with gzip.open(file) as packed:
            content = packed.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedError(file, f"expected a whole file that gzip compressed: {error}") from error
    if len(content) > MOST_BYTES:
        raise DamagedError(file, f"expected at most {MOST_BYTES:,} bytes when unpacked, got more")
    return content


def _parsed(file: Path, text: str, schema: type[_Record], where: str = "") -> _Record:
    try:
        record: _Record = conform(json.loads(text), schema)
    except json.JSONDecodeError as error:
        raise DamagedError(file, f"{where}expected JSON, got something else at {_position(error)}") from error
    except RecursionError:
        raise DamagedError(file, f"{where}expected a record, got brackets too deep to read") from None
    except ValueError as error:  # Also of integers with more digits than Python converts.
        raise DamagedError(file, f"{where}{error}") from error
    return record


def _position(error: json.JSONDecodeError) -> str:
    return f"line {error.lineno}, column {error.colno}" if error.doc else "its beginning: it is empty"


def conform(value: Any, schema: Any, name: str = "the record") -> Any:
    """Check a value of JSON against a type, and convert it: lists to tuples, objects to dataclasses.

    Args:
        value: As `json.loads` returned it.
        schema: A type: int, float, str, bool, None, Any, a `Literal`, a union, a list, tuple, dict, dataclass or
            `TypedDict` of those. Whole numbers are numbers too.
        name: What the value is called, for the error.

    Raises:
        MismatchError: If the value is of another type.
    """
    origin, arguments = get_origin(schema), get_args(schema)
    if schema is Any:
        return value
    if origin in (typing.Required, typing.NotRequired):
        return conform(value, arguments[0], name)
    if origin in (Union, types.UnionType):
        return _conform_to_one(value, schema, name)
    if origin is Literal:
        if not any(value == each and type(value) is type(each) for each in arguments):
            raise _mismatch(value, " or ".join(map(repr, arguments)), name)
        return value
    if origin in (list, tuple):
        items = _of_type(value, list, "a list", name)
        return origin(conform(item, arguments[0], f"item {number} of {name}") for number, item in enumerate(items, 1))
    if origin is dict:
        entries = _of_type(value, dict, "an object", name)
        return {key: conform(entry, arguments[1], f"{key!r} of {name}") for key, entry in entries.items()}
    if typing.is_typeddict(schema):
        entries = _of_type(value, dict, "an object", name)
        return entries | _conform_fields(entries, schema, schema.__required_keys__, name)
    if dataclasses.is_dataclass(schema):
        return _conform_to_dataclass(_of_type(value, dict, "an object", name), schema, name)
    if schema is float:
        number = _of_type(value, (int, float), WORDS[float], name)
        if abs(number) >= 2**1023:  # Infinity too; NaN is what a loss can be.
            raise _mismatch(value, "a number that a computer can hold", name)
        return number
    return _of_type(value, schema, WORDS.get(schema, schema.__name__), name)


def _conform_to_one(value: Any, schema: Any, name: str) -> Any:
    choices = get_args(schema)
    for choice in choices:
        try:
            return conform(value, choice, name)
        except MismatchError:
            if len(choices) == 2 and type(None) in choices and choice is not type(None) and value is not None:
                raise  # The reason why it is not the one thing that it could be.
    raise _mismatch(value, " or ".join(WORDS.get(choice, str(choice)) for choice in choices), name)


def _conform_to_dataclass(entries: Mapping[str, Any], schema: Any, name: str) -> Any:
    fields = {field.name: field for field in dataclasses.fields(schema)}
    if unknown := sorted(entries.keys() - fields.keys()):
        raise MismatchError(f"{name} has known fields only: got {', '.join(map(repr, unknown))} as well")
    missing = dataclasses.MISSING
    required = {
        field.name for field in fields.values() if field.default is missing and field.default_factory is missing
    }
    return schema(**_conform_fields(entries, schema, required, name))


def _conform_fields(entries: Mapping[str, Any], schema: Any, required: Set[str], name: str) -> dict[str, Any]:
    hints = get_type_hints(schema)
    if missing := sorted(required - entries.keys()):
        raise MismatchError(f"{name} lacks {', '.join(map(repr, missing))}")
    return {key: conform(entries[key], hint, repr(key)) for key, hint in hints.items() if key in entries}


def _of_type(value: Any, schema: Any, words: str, name: str) -> Any:
    if not isinstance(value, schema) or (isinstance(value, bool) and schema is not bool):
        raise _mismatch(value, words, name)
    return value


def _mismatch(value: Any, words: str, name: str) -> MismatchError:
    shown = "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else repr(value)
    return MismatchError(f"{name} should be {words}, got {shown if len(shown) < 80 else shown[:77] + '...'}")
