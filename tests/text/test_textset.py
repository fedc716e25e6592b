"""Texts, their partners and groups, files and their faults, known sets."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.data.errors import DataError, ExtraMissingError
from pucl.data.root import DataMissingError
from pucl.text import TextSet, load_texts
from pucl.text.groups import group_pairs
from pucl.text.sources import banking77, clinc150
from pucl.text.sources.files import Columns, read_texts
from pucl.text.sources.requests import make_requests


def labelled(*labels: int) -> TextSet:
    texts = tuple(f"text {number}" for number in range(len(labels)))
    return TextSet(texts=texts, labels=np.array(labels), classes=tuple("abcdef"))


def write_csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_partners_are_all_other_texts_of_the_class_equally_often() -> None:
    texts = labelled(0, 1, 0, 2, 1, 0, 0, 2)
    assert texts.labels is not None
    indices = np.arange(len(texts))
    counts = np.zeros((8, 8), int)
    draws = (np.arange(600) + 0.5) / 600
    for draw in draws:
        counts[indices, texts.partners(indices, np.full(8, draw))] += 1
    same = (texts.labels[:, None] == texts.labels) & ~np.eye(8, dtype=bool)
    expected = np.where(same, 600 / same.sum(axis=1, keepdims=True), 0)
    np.testing.assert_array_equal(counts, expected)


def test_texts_that_are_alone_in_their_class_have_no_partner() -> None:
    texts = labelled(0, 1, 0, 2).with_partners()
    assert texts.texts == ("text 0", "text 2")
    with pytest.raises(DataError, match="expected a class of two texts"):
        labelled(0, 1, 2).with_partners()
    with pytest.raises(DataError, match="expected a column of either"):
        TextSet(texts=("a", "b")).with_partners()


def test_sides_of_a_batch() -> None:
    pairs = TextSet(texts=("a", "c", "b"), seconds=("b", "d", "x"))
    first, second = pairs.batch(np.array([2, 0])).sides(np.zeros(2))
    assert (first.texts, second.texts) == (["b", "a"], ["x", "b"])
    assert first.ids.tolist() == second.ids.tolist() == [2, 0]
    assert first.groups.tolist() == second.groups.tolist() == [0, 0]
    first, second = labelled(0, 0, 1, 1).batch(np.array([1, 2])).sides(np.zeros(2))
    assert (first.ids.tolist(), second.ids.tolist()) == ([1, 2], [0, 3])
    assert second.texts == ["text 0", "text 3"]


def test_groups_are_the_connected_components() -> None:
    """Against a search in the graph of shared texts, on random pairs."""
    chance = np.random.default_rng(0)
    for words in (5, 40, 200):
        firsts, seconds = chance.integers(0, words, (2, 60)).astype(str)
        found = group_pairs(firsts.tolist(), seconds.tolist())
        share = np.array(
            [[bool({firsts[i], seconds[i]} & {firsts[j], seconds[j]}) for j in range(60)] for i in range(60)]
        )
        reach = np.linalg.matrix_power(share.astype(float), 60) > 0
        np.testing.assert_array_equal(found[:, None] == found, reach)


def test_parts_share_no_text_where_there_are_no_labels() -> None:
    chance = np.random.default_rng(0)
    firsts, seconds = (tuple(row) for row in chance.integers(0, 150, (2, 100)).astype(str).tolist())
    kept = [i for i in range(100) if firsts[i] != seconds[i]]
    parts = TextSet(texts=tuple(firsts[i] for i in kept), seconds=tuple(seconds[i] for i in kept)).split(0.2)
    assert parts is not None
    rest, held = parts
    assert len(rest) + len(held) == len(kept)
    assert rest.seconds is not None
    assert held.seconds is not None
    assert not {*rest.texts, *rest.seconds} & {*held.texts, *held.seconds}
    assert TextSet(texts=("a", "b", "a"), seconds=("b", "c", "c")).split(0.2) is None  # One group.


def test_labels_are_split_class_by_class() -> None:
    parts = labelled(*([0] * 10 + [1] * 5)).split(0.2)
    assert parts is not None
    counts = [np.bincount(part.labels).tolist() for part in parts if part.labels is not None]
    assert counts == [[8, 4], [2, 1]]


FORMS = [".csv", ".tsv", ".jsonl", ".parquet"]


def write_form(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        return write_csv(path, *(json.dumps(row) for row in rows))
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    between = {".csv": ",", ".tsv": "\t"}[path.suffix]
    return write_csv(
        path, between.join(rows[0]), *(between.join(f'"{value}"' for value in row.values()) for row in rows)
    )


@pytest.mark.parametrize("suffix", FORMS)
def test_pairs_are_read_from_every_form(tmp_path: Path, suffix: str) -> None:
    rows = [{"anchor": "ä, b", "positive": "line\u2028two", "n": 1}, {"anchor": "c", "positive": "d", "n": 2}]
    found = read_texts(write_form(tmp_path / f"pairs{suffix}", rows)).train
    assert found.texts == ("ä, b", "c")
    assert found.seconds == ("line\u2028two", "d")
    assert found.labels is None


@pytest.mark.parametrize("suffix", FORMS)
def test_texts_with_labels_are_read_from_every_form(tmp_path: Path, suffix: str) -> None:
    rows = [{"category": 10, "Text": "one"}, {"category": 9, "Text": "two"}, {"category": 10, "Text": "three"}]
    found = read_texts(write_form(tmp_path / f"texts{suffix}", rows)).train
    assert found.texts == ("one", "two", "three")
    assert found.labels is not None
    assert [found.classes[label] for label in found.labels] == ["10", "9", "10"]


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "own.csv", "left,right", "a,b", "c,d")
    assert read_texts(path).train.seconds == ("b", "d")
    path = write_csv(tmp_path / "own.csv", "a,b,c,label", "1,2,3,x", "4,5,6,y")
    with pytest.raises(
        DataError, match="--text-column with --second-column or --label-column, each one of a, b, c, label"
    ):
        read_texts(path)
    found = read_texts(path, Columns(text="c", second="a"))
    assert (found.train.texts, found.train.seconds, found.train.labels) == (("3", "6"), ("1", "4"), None)
    assert found.notes == ("the column label is not used: if it is the class of both texts, give --label-column label",)
    found = read_texts(path, Columns(text="c", second="a", label="label"))
    assert found.train.classes == ("x", "y")
    with pytest.raises(
        DataError, match="has no column 'labl': expected --label-column to be one of .* Did you mean 'label'"
    ):
        read_texts(path, Columns(text="c", label="labl"))


FAULTS = {
    "empty": ("text,label\n", "there are no texts"),
    "nothing": ("", "expected a first line with the names"),
    "empty text": (
        "text,label\na,x\n ,y\n,y\n",
        "row 2 has an empty text: remove the row, or fill it in; so do 1 more",
    ),
    "itself": ("anchor,positive\na,b\nsame,same \n", "row 2 pairs a text with itself.*'same'"),
    "no label": ("text,label\na,x\nb,\n", "row without a label"),
    "fields": ("text,label\na,x\nb\n", "row 2 has 1 fields: expected 2"),
    "twice": ("text,text\na,b\n", "column 'text' 2 times"),
    "quotes": ('text,label\n"a"b,x\n', "fields in double quotes"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_file_are_named(tmp_path: Path, name: str) -> None:
    content, message = FAULTS[name]
    path = tmp_path / "own.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as error:
        read_texts(path)
    assert str(path) in str(error.value)


def test_faults_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(b"text,label\n\xff\xfe,x\n")
    with pytest.raises(DataError, match="no table in UTF-8"):
        read_texts(tmp_path / "own.csv")
    for line, message in (("{", "line 1 is no JSON"), ("[1]", "holds a list: expected an object")):
        with pytest.raises(DataError, match=message):
            read_texts(write_csv(tmp_path / "own.jsonl", line))
    with pytest.raises(DataError, match="row 1 has a text that is no valid Unicode"):
        read_texts(write_csv(tmp_path / "own.jsonl", '{"text": "\\ud800", "label": 1}'))
    with pytest.raises(DataError, match="row 2 has an empty text"):
        read_texts(write_csv(tmp_path / "own.jsonl", '{"text": "a", "label": 1}', '{"label": 1}'))
    with pytest.raises(DataError, match="ends in .csv, .tsv, .jsonl, .parquet"):
        read_texts(write_csv(tmp_path / "own.txt", "a"))
    (tmp_path / "own.parquet").write_bytes(b"PAR1")
    with pytest.raises((DataError, ExtraMissingError), match="is no .parquet file|pip install '.\\[text\\]'"):
        read_texts(tmp_path / "own.parquet")
    with pytest.raises(DataMissingError, match="there is no file"):
        load_texts("nowhere/own.csv")
    with pytest.raises(DataMissingError, match="Did you mean 'requests'"):
        load_texts("request")


def test_requests_are_always_the_same() -> None:
    data = load_texts("requests")
    assert data.test is not None
    assert (len(data.train), len(data.test), len(data.train.classes)) == (576, 144, 8)
    assert not set(data.train.texts) & set(data.test.texts)
    assert len(set(data.train.texts)) == len(data.train)
    assert data.train.texts[:2] == ("get seats at the restaurant", "find somewhere to dine for me on friday")
    assert len(make_requests(each=5).train) == 32
    with pytest.raises(ValueError, match="expected 5 to"):
        make_requests(each=2)


def small_clinc(directory: Path) -> None:
    parts = {name: [[f"{name} {n}", f"intent {n % 2}"] for n in range(4)] for name in ("train", "val", "test")}
    (directory / "data_full.json").write_text(json.dumps(parts | {"oos_train": [["other", "oos"]]}))


def test_official_files_are_checked(tmp_path: Path) -> None:
    small_clinc(tmp_path)
    with pytest.raises(DataError, match="data_full.json is not the official file: expected sha256 36923c37"):
        load_texts("clinc150", root=tmp_path)
    for name in ("train", "test"):
        write_csv(tmp_path / f"banking77-{name}.csv", "text,category", "a,x")
    with pytest.raises(DataError, match="banking77-train.csv is not the official file"):
        load_texts("banking77", root=tmp_path)
    with pytest.raises(DataMissingError, match="pucl data get clinc150"):
        load_texts("clinc150", root=tmp_path / "elsewhere")


def test_parts_of_known_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clinc150, banking77):
        monkeypatch.setattr(
            module, "checked_paths", lambda found, _: [found.directory / file for file in found.form.files]
        )
    small_clinc(tmp_path)
    data = load_texts("clinc150", root=tmp_path)
    assert data.train.classes == ("intent 0", "intent 1")  # Out-of-scope requests are no class.
    assert data.test is not None
    assert data.validation is not None
    assert (data.train.texts[1], data.test.texts[1], data.validation.texts[1]) == ("train 1", "test 1", "val 1")
    for name in ("train", "test"):
        write_csv(tmp_path / f"{name}.csv", "text,category", f"{name} one,x", f"{name} two,y")
    data = load_texts("banking77", root=tmp_path)
    assert data.test is not None
    assert data.test.texts == ("test one", "test two")
