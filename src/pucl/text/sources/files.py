"""Texts from a file (.csv, .tsv, .jsonl, .parquet): two columns of texts, or a column of texts and one of labels."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError, ExtraMissingError, reason_of
from pucl.data.unpacking import check_unpacked
from pucl.text.textset import TextData, TextSet
from pucl.texts import did_you_mean

TEXTS = ("text", "sentence", "utterance", "first", "anchor", "text1", "sentence1", "query", "question", "premise")
SECONDS = ("second", "positive", "text2", "sentence2", "answer", "passage", "document", "hypothesis")
LABELS = ("label", "category", "intent", "class")
"""Usual names of columns, which are tried if the user names none. Upper and lower case are equal."""

LONGEST_FIELD = 2**24  # Characters of a field of a .csv file; Python's own limit is 2**17.

Table = dict[str, list[Any]]
"""Columns by name."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of columns; None if they are to be found, or absent.

    Args:
        text: Column of texts; of pairs, of the first texts.
        second: Column of the second texts.
        label: Column of labels.
    """

    text: str | None = None
    second: str | None = None
    label: str | None = None


def read_texts(path: Path, columns: Columns | None = None, test_share: float = 0.0) -> TextData:
    """Read texts from a file.

    Args:
        path: The file. Its suffix determines the format.
        columns: Names of columns. Those that are not given are found by usual names, such as ``text`` and ``label`` or
            ``anchor`` and ``positive``; of a file with two other columns, these are the two texts.
        test_share: Share of the samples to hold out for tests, see `TextSet.split`; 0 holds out none.
    """
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path} cannot be read: expected a file of texts that ends in {', '.join(READERS)}")
    table = READERS[path.suffix.lower()](path)
    chosen, notes = choose_columns(path, list(table), columns or Columns())
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    if chosen.label is not None:
        names, numbers = np.unique([_as_label(path, value) for value in table[chosen.label]], return_inverse=True)
        classes, labels = tuple(map(str, names)), numbers.astype(np.int64)
    try:
        texts = TextSet(
            texts=_as_texts(table[str(chosen.text)]),
            seconds=None if chosen.second is None else _as_texts(table[chosen.second]),
            labels=labels,
            classes=classes,
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    data = TextData(name=path.name, train=texts, notes=notes)
    parts = texts.split(test_share) if test_share else None
    return data if parts is None else replace(data, train=parts[0], test=parts[1])


def choose_columns(path: Path, present: Sequence[str], given: Columns) -> tuple[Columns, tuple[str, ...]]:
    """The columns to read, and notes on others.

    Raises:
        DataError: If a column is not there, or if it is not clear which columns hold texts.
    """
    listed = ", ".join(present) or "none"
    for option, name in (
        ("--text-column", given.text),
        ("--second-column", given.second),
        ("--label-column", given.label),
    ):
        if name is not None and name not in present:
            raise DataError(
                f"{path} has no column {name!r}: expected {option} to be one of {listed}.{did_you_mean(name, present)}"
            )
    taken = {given.text, given.second, given.label}

    def find(known: Sequence[str]) -> str | None:
        return next((name for word in known for name in present if name.lower() == word and name not in taken), None)

    label = given.label or find(LABELS)
    text, second = given.text or find(TEXTS), given.second or find(SECONDS)
    rest = [name for name in present if name not in (text, second, label)]
    if text is None and len(rest) in (1, 2):
        text, *others = rest
        second = second or next(iter(others), None)
    if text is None:
        raise DataError(
            f"{path} does not say which columns hold texts: expected --text-column with --second-column or "
            f"--label-column, each one of {listed}"
        )
    notes: tuple[str, ...] = ()
    if second is not None and label is not None and given.label is None:
        # It may be the relation of the two texts, as in natural language inference, and not a class.
        notes = (f"the column {label} is not used: if it is the class of both texts, give --label-column {label}",)
        label = None
    return Columns(text=text, second=second, label=label), notes


def _as_texts(values: Sequence[Any]) -> tuple[str, ...]:
    """A missing value is an empty text, which `TextSet` refuses with its row."""
    return tuple("" if value is None else str(value) for value in values)


def _as_label(path: Path, value: Any) -> str:
    text = "" if value is None else str(value).strip()
    if not text:
        raise DataError(f"{path} has a row without a label: remove the row, or fill it in")
    return text


def _read_csv(path: Path, delimiter: str = ",") -> Table:
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = csv.reader(file, delimiter=delimiter, strict=True)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no table in UTF-8 with fields in double quotes: {reason_of(error)}") from error
    except ValueError as error:
        raise DataError(f"{path} is empty: expected a first line with the names of the columns") from error
    finally:
        csv.field_size_limit(before)
    _check_names(path, header)
    rows = [row for row in rows if row]  # Empty lines.
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise DataError(
                f"{path}: row {number:,} has {len(row)} fields: expected {len(header)}, as in the first line"
            )
    return {name: [row[column] for row in rows] for column, name in enumerate(header)}


def _read_jsonl(path: Path) -> Table:
    table: Table = {}
    count = 0
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # Texts may hold other line separators.
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text in UTF-8: {reason_of(error)}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: line {number:,} is no JSON: {reason_of(error)}") from error
        if not isinstance(record, dict):
            raise DataError(f"{path}: line {number:,} holds a {type(record).__name__}: expected an object in each line")
        for name in dict.fromkeys([*table, *record]):
            table.setdefault(name, [None] * count).append(record.get(name))
        count += 1
    return table


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("reading a .parquet file", "pyarrow", "text") from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
        about = file.metadata
        check_unpacked(path, sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups)))
        table: Table = file.read().to_pydict()
    except DataError:
        raise
    except Exception as error:  # A damaged or hostile file may raise any exception.
        raise DataError(f"{path} is no .parquet file, or is damaged: {reason_of(error)}") from error
    return table


def _check_names(path: Path, header: Sequence[str]) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(
            f"{path} has the column {twice[0]!r} {header.count(twice[0])} times: give each column its own name"
        )


READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": _read_csv,
    ".tsv": lambda path: _read_csv(path, "\t"),
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
"""By the ending of a file's name."""
