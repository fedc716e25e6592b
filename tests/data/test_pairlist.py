"""Lists of pairs: written, read back, and found in the data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pucl
from pucl.data.errors import DataError
from pucl.data.pairlist import read_pairs, write_table

ROWS: dict[str, list[Any]] = {
    "first": [0, 3],
    "second": [2, 4],
    "first_name": ["a,b", 'quoted "c"'],
    "second_name": ["two\nlines", "ü"],
    "r": [0.5, None],
}
endings = pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])


def written(path: Path, columns: Mapping[str, Any] = ROWS) -> Path:
    write_table(path, columns, {"made": "here"})
    return path


@endings
def test_what_is_written_is_read(tmp_path: Path, ending: str) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    read = read_pairs(written(tmp_path / f"pairs{ending}"))
    assert read.indices is not None
    assert read.indices.tolist() == [[0, 2], [3, 4]]
    assert read.names == (("a,b", "two\nlines"), ('quoted "c"', "ü"))
    assert read.within(5, None).tolist() == [[0, 2], [3, 4]]


@endings
def test_without_names(tmp_path: Path, ending: str) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    columns = {"first": [0], "second": [2], "first_name": [None], "second_name": [None]}
    read = read_pairs(written(tmp_path / f"pairs{ending}", columns))
    assert read.names is None
    assert read.within(3, ("x", "y", "z")).tolist() == [[0, 2]]


def test_names_say_which_samples_wherever_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("first_name,second_name\nred,blue\nred,gone\n")
    read = read_pairs(file)
    assert read.within(4, ("green", "blue", "red", "red")).tolist() == [[2, 1], [3, 1]]
    with pytest.raises(DataError, match="none of the pairs is in these data"):
        read.within(2, ("green", "yellow"))
    with pytest.raises(DataError, match="these data have no names"):
        read.within(2, None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "lists no pairs"),
        ("a.csv", "first,second\n", "lists no pairs"),
        ("a.csv", "left,right\n0,1\n", "expected the columns first and second .* got left, right"),
        ("a.csv", "first,second\n0,x\n", "expected whole numbers from 0, got '0' and 'x'"),
        ("a.csv", "first,second\n0,-1\n", "expected whole numbers from 0"),
        ("a.csv", "first,second\n0,99999999999999999999\n", "expected whole numbers from 0"),
        ("a.csv", "first,second\n0\n", "expected the columns"),
        ("a.json", "{", "is damaged, or no JSON"),
        ("a.json", '{"pairs": 3}', "expected a list 'pairs'"),
        ("a.json", "[[0, 1]]", "expected a list 'pairs'"),
        ("a.json", "[" * 100_000, "is damaged, or no JSON"),
        ("a.txt", "", "ends in .csv, .parquet or .json"),
        ("a.parquet", "no parquet", "not a Parquet file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / name)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"first,second\n\xff,1\n")
    with pytest.raises(DataError, match="is no table in CSV"):
        read_pairs(tmp_path / "a.csv")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist: expected a list of pairs"):
        read_pairs(tmp_path / "none.csv")


def test_indices_of_other_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected 0 to 3, got 4; it is of other data"):
        read_pairs(written(tmp_path / "pairs.csv")).within(4, None)


def test_a_file_of_json_says_how_it_was_made(tmp_path: Path) -> None:
    assert json.loads(written(tmp_path / "pairs.json").read_text())["made"] == "here"


def test_groups_of_a_list(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    file = written(tmp_path / "pairs.csv", {"first": [0, 2], "second": [2, 3]})
    assert pucl.pairs.read_groups(file, 5).tolist() == [0, -1, 0, 0, -1]
    named = written(tmp_path / "named.csv", {"first_name": ["b"], "second_name": ["c"]})
    assert pucl.pairs.read_groups(named, ["a", "b", "c"]).tolist() == [-1, 0, 0]
    loss = pucl.NTXentLoss()
    z = [np.random.default_rng(seed).standard_normal((5, 4)).astype(np.float32) for seed in (0, 1)]
    import torch  # noqa: PLC0415

    views = [torch.from_numpy(each) for each in z]
    groups = pucl.pairs.read_groups(file, 5)
    assert loss(*views, groups=groups) != loss(*views)
