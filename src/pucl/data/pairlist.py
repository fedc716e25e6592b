"""Lists of pairs of samples in a file: as ``pucl suspects`` writes them, or as somebody else does.

A list has the columns ``first`` and ``second``, indices of samples from 0, or ``first_name`` and ``second_name``, what
the samples are called. Other columns are kept for people to read.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError, ExtraMissingError, reason_of
from pucl.data.unpacking import check_unpacked
from pucl.files import write_whole

SUFFIXES = (".csv", ".parquet", ".json")
ENDS = ("first", "second")
NAMES = ("first_name", "second_name")


@dataclass(frozen=True, kw_only=True, eq=False)
class PairList:
    """Pairs of samples.

    Args:
        file: Where they were read from.
        indices: [pair, 2]; None if the file has names alone.
        names: The two names of each pair; None if the file has indices alone.
    """

    file: Path
    indices: NDArray[np.int64] | None
    names: tuple[tuple[str, str], ...] | None

    def within(self, samples: int, names: Sequence[str] | None) -> NDArray[np.int64]:
        """The pairs as indices of samples, [pair, 2].

        Samples are found by their names if file and data have names, otherwise by their indices. Samples of the same
        name, such as equal texts, are all meant.

        Args:
            samples: Number of samples in the data.
            names: Their names; None if they have none.

        Raises:
            DataError: If the list is not of these data.
        """
        if self.names is not None and names is not None:
            return self._by_name(names)
        if self.indices is None:
            raise DataError(
                f"{self.file} lists pairs by name, and these data have no names: expected the columns first and second"
            )
        wrong = self.indices[(self.indices < 0) | (self.indices >= samples)]
        if len(wrong):
            raise DataError(
                f"{self.file} lists pairs of samples by their indices: expected 0 to {samples - 1}, got {wrong[0]}; "
                f"it is of other data"
            )
        return self.indices

    def _by_name(self, names: Sequence[str]) -> NDArray[np.int64]:
        at: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            at.setdefault(name, []).append(index)
        found = [
            (one, other)
            for first, second in self.names or ()
            for one in at.get(first, ())
            for other in at.get(second, ())
            if one != other
        ]
        if not found:
            example = next(iter(self.names or ()), ("", ""))[0]
            raise DataError(
                f"{self.file} lists pairs of samples by their names, such as {example!r:.80}: none of the pairs is in "
                f"these data; it is of other data"
            )
        return np.array(found, dtype=np.int64)


def check_suffix(path: Path) -> None:
    """Refuse a file of another kind by its name."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a list of pairs is a table: expected a name that ends in {_either(SUFFIXES)}, got {path}")
    if path.suffix == ".parquet":
        _pyarrow()


def write_table(path: Path, columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> None:
    """Write a table by the ending of the file's name, whole or not at all.

    Args:
        path: The file: ``.csv``, ``.parquet`` or ``.json``.
        columns: Values by column, None where there is none.
        about: What a ``.json`` file says of the table beside its rows.
    """
    check_suffix(path)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if path.suffix == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(path, text.getvalue().encode())
    elif path.suffix == ".json":
        content = json.dumps({**about, "pairs": rows}, indent=1, allow_nan=False)
        write_whole(path, (content + "\n").encode())
    else:
        arrow, parquet = _pyarrow()
        packed = io.BytesIO()
        parquet.write_table(arrow.table({name: list(values) for name, values in columns.items()}), packed)
        write_whole(path, packed.getvalue())


def read_pairs(path: Path) -> PairList:
    """Read a list of pairs.

    Raises:
        DataError: If the file holds anything else; the message names it.
        OSError: If it cannot be opened.
    """
    check_suffix(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist: expected a list of pairs, such as `pucl suspects` writes")
    rows = {".csv": _csv_rows, ".json": _json_rows, ".parquet": _parquet_rows}[path.suffix](path)
    if not rows:
        raise DataError(f"{path} lists no pairs: expected at least one")
    indices, names = (_column_pairs(rows, columns) for columns in (ENDS, NAMES))
    if indices is None and names is None:
        raise DataError(
            f"{path} is no list of pairs: expected the columns {' and '.join(ENDS)} (indices from 0), or "
            f"{' and '.join(NAMES)}, got {', '.join(map(str, rows[0]))[:120] or 'none'}"
        )
    return PairList(
        file=path,
        indices=None if indices is None else _whole_numbers(path, indices),
        names=None if names is None else tuple((str(first), str(second)) for first, second in names),
    )


def _column_pairs(rows: Sequence[Mapping[str, Any]], columns: tuple[str, str]) -> list[tuple[Any, Any]] | None:
    """Two columns of a table, if every row has them."""
    found = [(row.get(columns[0]), row.get(columns[1])) for row in rows]
    return None if any(value is None or value == "" for pair in found for value in pair) else found


def _whole_numbers(path: Path, pairs: Sequence[tuple[Any, Any]]) -> NDArray[np.int64]:
    for first, second in pairs:
        if not (str(first).isdecimal() and str(second).isdecimal() and len(str(first)) < 19 > len(str(second))):
            raise DataError(
                f"{path}: first and second are indices of samples: expected whole numbers from 0, got {first!r:.40} "
                f"and {second!r:.40}"
            )
    return np.array([(int(first), int(second)) for first, second in pairs], dtype=np.int64)


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no table in CSV: {reason_of(error)}") from error


def _json_rows(path: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged, or no JSON: {reason_of(error)}") from error
    rows = content.get("pairs") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} is no list of pairs: expected a list 'pairs' of objects")
    return rows


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    columns = read_parquet(path, {*ENDS, *NAMES})
    values = zip(*(each.to_pylist() for each in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def read_parquet(path: Path, wanted: set[str]) -> dict[str, Any]:
    """Columns of a Parquet file by name, as pyarrow's arrays. Missing ones are skipped. Their size is limited."""
    _, parquet = _pyarrow()
    try:
        file = parquet.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if name in wanted]
        sizes = (
            file.metadata.row_group(group).column(column).total_uncompressed_size
            for group in range(file.metadata.num_row_groups)
            for column in range(file.metadata.num_columns)
        )
        check_unpacked(path, sum(sizes))
        table = file.read(columns=names)
    except OSError:
        raise
    except DataError:
        raise
    except Exception as error:  # A damaged or hostile file may raise any exception.
        raise DataError(f"{path} is not a Parquet file, or is damaged: {reason_of(error)}") from error
    return {name: table.column(name).combine_chunks() for name in names}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError("a Parquet file", "pyarrow", "diagnose") from error
    return pyarrow, parquet


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
