"""Records that are read back: each of them typed, and refused by a sentence where it is damaged."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

import pytest

from pucl.records import DamagedError, MismatchError, conform, read_lines, read_record


@dataclass(frozen=True)
class Point:
    x: float
    label: str | None = None


class Shape(TypedDict, total=False):
    points: Required[list[Point]]
    kind: Literal["open", "closed"]
    sizes: dict[str, tuple[float, ...]]


def test_a_record_is_converted(tmp_path: Path) -> None:
    file = tmp_path / "shape.json"
    file.write_text('{"points": [{"x": 1, "label": null}], "kind": "open", "sizes": {"a": [1, 2.5]}, "more": [1]}')
    expected = {"points": [Point(1)], "kind": "open", "sizes": {"a": (1, 2.5)}, "more": [1]}
    assert read_record(file, Shape) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected JSON, got something else at its beginning: it is empty"),
        ('{"points": [', "expected JSON, got something else at line 1, column 13"),
        ("[1, 2]", "the record should be an object, got a list"),
        ("null", "the record should be an object, got None"),
        ("{}", "the record lacks 'points'"),
        ('{"points": 3}', "'points' should be a list, got 3"),
        ('{"points": [{}]}', "item 1 of 'points' lacks 'x'"),
        ('{"points": [{"x": true}]}', "'x' should be a number, got True"),
        ('{"points": [{"x": 1, "y": 2}]}', "item 1 of 'points' has known fields only: got 'y' as well"),
        ('{"points": [{"x": 1, "label": 7}]}', "'label' should be a text, got 7"),
        ('{"points": [], "kind": "round"}', "'kind' should be 'open' or 'closed', got 'round'"),
        ('{"points": [], "sizes": {"a": 1}}', "'a' of 'sizes' should be a list, got 1"),
        ("[" * 100_000, "brackets too deep to read"),
        ('{"points": [{"x": ' + 400 * "9" + "}]}", "'x' should be a number that a computer can hold"),
        ('{"points": [{"x": 1e400}]}', "'x' should be a number that a computer can hold"),
        ('{"points": [{"x": ' + 5000 * "9" + "}]}", "Exceeds the limit"),
    ],
)
def test_what_is_damaged_is_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "shape.json"
    file.write_text(text)
    with pytest.raises(DamagedError) as refused:
        read_record(file, Shape)
    assert str(file) in str(refused.value)
    assert why in str(refused.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "shape.json").write_bytes(b'{"points": "\xff"}')
    with pytest.raises(DamagedError, match="expected text in UTF-8, got a byte that is none at 12"):
        read_record(tmp_path / "shape.json", Shape)


def test_lines_are_numbered(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    file.write_text('{"x": 1}\n{"x": 2}\n')
    assert read_lines(file, Point) == [Point(1), Point(2)]
    file.write_text('{"x": 1}\n{"x": ')
    with pytest.raises(DamagedError, match=r"points.jsonl is damaged.*: line 2: expected JSON"):
        read_lines(file, Point)


@pytest.mark.parametrize(
    ("value", "kind"), [(1, float), (None, int | None), (2, int | None), ({"a": 1}, dict[str, Any]), ("x", Any)]
)
def test_what_conforms_is_unchanged(value: Any, kind: Any) -> None:
    assert conform(value, kind) == value


@pytest.mark.parametrize(("value", "kind"), [(True, int), (True, float), (1.5, int), ("1", float), (1, str), (1, bool)])
def test_types_are_exact(value: Any, kind: Any) -> None:
    with pytest.raises(MismatchError, match="the record should be"):
        conform(value, kind)
