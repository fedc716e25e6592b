"""CIFAR in its official pickles and as sheets of PNG: tiny ones made here, and the real CIFAR100."""

import json
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from pucl.data.errors import DataError
from pucl.images.imageset import ImageData
from pucl.images.registry import load
from pucl.images.source import Found, Source, md5_of
from pucl.images.sources import cifar
from pucl.images.sources.array_pickle import read_array_pickle
from pucl.images.sources.cifar import CIFAR10, CIFAR100, read_cifar10, read_cifar100

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
ROWS = np.random.default_rng(0).integers(0, 256, (12, 3072), dtype=np.uint8)
LABELS = [int(label) for label in np.random.default_rng(1).integers(0, 10, 12)]


def found(source: Source, root: Path) -> Found:
    place = source.find(root)
    assert place is not None
    return Found(directory=place[0], form=place[1], cache=root)


def sums(root: Path) -> dict[str, str]:
    return {path.name: md5_of(path.read_bytes()) for path in root.rglob("*") if path.is_file()}


def write_batches(root: Path, rows: NDArray[np.uint8] = ROWS, labels: list[int] = LABELS) -> None:
    directory = root / "cifar-10-batches-py"
    directory.mkdir()
    for number, name in enumerate([*cifar.BATCHES, "test_batch"]):
        part = slice(2 * number, 2 * number + 2)
        batch = {b"data": rows[part], b"labels": labels[part], b"filenames": [b"a.png", b"b.png"]}
        (directory / name).write_bytes(pickle.dumps(batch, protocol=3))


def write_sheets(root: Path) -> None:
    directory = root / "package"
    directory.mkdir()
    for number, name in enumerate([*cifar.SHEETS, "test_batch.png"]):
        rows = ROWS[2 * number : 2 * number + 2].reshape(2, 3, 1024).transpose(0, 2, 1)
        Image.fromarray(np.ascontiguousarray(rows)).save(directory / name)
    (directory / "train_lables.json").write_text(json.dumps(LABELS[:10]))
    (directory / "test_lables.json").write_text(json.dumps(LABELS[10:]))


@pytest.mark.parametrize("write", [write_batches, write_sheets])
def test_both_forms_of_cifar10_are_the_same(tmp_path: Path, write: Any) -> None:
    write(tmp_path)
    data = read_cifar10(found(CIFAR10, tmp_path), sums(tmp_path))

    assert data.test is not None
    assert data.train.labels is not None
    assert np.array_equal(data.train.pixels, ROWS[:10].reshape(-1, 3, 32, 32))
    assert np.array_equal(data.test.pixels, ROWS[10:].reshape(-1, 3, 32, 32))
    assert data.train.labels.tolist() == LABELS[:10]
    assert data.train.classes[:3] == ("airplane", "automobile", "bird")
    assert data.pretrain is data.train


@pytest.mark.parametrize("write", [write_batches, write_sheets])
def test_a_wrong_sum_is_refused_before_it_is_read(tmp_path: Path, write: Any) -> None:
    write(tmp_path)
    with pytest.raises(DataError, match="not the official file, or is damaged: expected md5"):
        load("cifar10", root=tmp_path)


def test_a_cut_batch(tmp_path: Path) -> None:
    write_batches(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError, match="data_batch_3 is not a pickle of plain arrays, or is cut off"):
        read_cifar10(found(CIFAR10, tmp_path), None)


def test_a_cut_sheet(tmp_path: Path) -> None:
    write_sheets(tmp_path)
    path = tmp_path / "package" / "data_batch_2.png"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match="data_batch_2.png: image file is truncated"):
        read_cifar10(found(CIFAR10, tmp_path), None)


def test_sheets_of_another_mode_or_count(tmp_path: Path) -> None:
    write_sheets(tmp_path)
    path = tmp_path / "package" / "test_batch.png"
    Image.new("L", (1024, 2)).save(path)
    with pytest.raises(DataError, match="should be an RGB sheet 1024 pixels wide.*it is L, 1024 wide"):
        read_cifar10(found(CIFAR10, tmp_path), None)
    Image.new("RGB", (1024, 3)).save(path)
    with pytest.raises(DataError, match="a label for each of 3 pictures; it has 2 labels"):
        read_cifar10(found(CIFAR10, tmp_path), None)
    (tmp_path / "package" / "train_lables.json").write_text("[1, 2")
    with pytest.raises(DataError, match="should be a JSON list of labels"):
        read_cifar10(found(CIFAR10, tmp_path), None)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([10] * 12, "expected 0..9, got 10 for picture 0"),
        ([0] * 11, "a label for each of 2 pictures; it has 1 labels"),
        (["cat"] * 12, "whole numbers"),
        ([2**70] * 12, "batches-py: labels should be below 10, and some have more than 64 bits"),
        ([11] * 12, "batches-py: labels are indices into classes: expected 0..9, got 11"),
    ],
)
def test_labels_that_cannot_be(tmp_path: Path, labels: list[int], message: str) -> None:
    write_batches(tmp_path, labels=labels)
    with pytest.raises(DataError, match=message):
        read_cifar10(found(CIFAR10, tmp_path), None)


def test_rows_of_another_length(tmp_path: Path) -> None:
    write_batches(tmp_path, rows=np.ascontiguousarray(ROWS[:, :3000]))
    with pytest.raises(DataError, match=r"should hold data as uint8 \[n, 3072\]"):
        read_cifar10(found(CIFAR10, tmp_path), None)


class Hostile:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"data": Hostile(print, "ran")}, "asks for builtins.print"),
        ({"data": Hostile(subprocess.run, ["true"])}, "asks for subprocess.run"),
        ({"data": Hostile(np.ndarray, (3,))}, "cut off"),
        ({"data": np.array([print], dtype=object)}, "arrays of numbers are admitted, not of 'O8'"),
        ({"data": np.array([1], dtype=object)}, "arrays of numbers are admitted, not of 'O8'"),
        ({"data": {1, 2}}, "builtins.set"),
        ([1, 2], "holds a list"),
    ],
)
def test_a_pickle_that_wants_more_than_arrays(value: Any, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=message):
        read_array_pickle(pickle.dumps(value, protocol=3), "this")
    assert "ran" not in capsys.readouterr().out


def test_a_pickle_cut_anywhere_is_an_error() -> None:
    whole = pickle.dumps({b"data": ROWS[:1], b"labels": [1]}, protocol=3)
    for length in range(0, len(whole), 7):
        with pytest.raises(DataError, match="cut off"):
            read_array_pickle(whole[:length], "this")


def test_damaged_arrays_in_a_pickle() -> None:
    """Wherever a byte is wrong, it is found out or does no harm: numpy itself would crash on some of these."""
    whole = pickle.dumps({b"data": ROWS[:1, :40].copy(), b"labels": [1]}, protocol=3)
    for place in range(len(whole)):
        for flip in (0x01, 0x08, 0x7F, 0xFF):
            damaged = whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :]
            with suppress(DataError):
                value = read_array_pickle(damaged, "this")
                repr(value)


def test_text_that_is_none() -> None:
    with pytest.raises(DataError, match="this is not a pickle of plain arrays"):
        read_array_pickle(pickle.dumps({b"\xff": 1}, protocol=3), "this")


def test_cifar100_has_fine_labels(tmp_path: Path) -> None:
    directory = tmp_path / "CIFAR-100" / "cifar-100-python"
    directory.mkdir(parents=True)
    for name, part in (("train", slice(0, 9)), ("test", slice(9, 12))):
        batch = {b"data": ROWS[part], b"fine_labels": LABELS[part], b"coarse_labels": [0] * 12}
        (directory / name).write_bytes(pickle.dumps(batch, protocol=3))
    names = [f"kind {number}".encode() for number in range(10)]
    (directory / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=3))

    data = read_cifar100(found(CIFAR100, tmp_path), sums(tmp_path))
    assert data.train.labels is not None
    assert data.train.labels.tolist() == LABELS[:9]
    assert data.train.classes[9] == "kind 9"
    (directory / "meta").write_bytes(pickle.dumps({}, protocol=3))
    with pytest.raises(DataError, match="should hold a list fine_label_names"):
        read_cifar100(found(CIFAR100, tmp_path), None)


@pytest.fixture(scope="module")
def real_cifar100(tmp_path_factory: pytest.TempPathFactory) -> ImageData:
    if not (SHARED / "unpack.py").exists():
        pytest.skip("the real CIFAR100 is not beside this checkout")
    root = tmp_path_factory.mktemp("real")
    subprocess.run([sys.executable, SHARED / "unpack.py", root], check=True, capture_output=True)  # noqa: S603
    return load("cifar100", root=root)


@pytest.mark.slow
def test_real_cifar100(real_cifar100: ImageData) -> None:
    data = real_cifar100
    assert data.test is not None
    assert data.train.labels is not None
    assert data.train.pixels.shape == (50_000, 3, 32, 32)
    assert data.test.pixels.shape == (10_000, 3, 32, 32)
    assert (np.bincount(data.train.labels) == 500).all()
    assert data.train.classes[:2] == ("apple", "aquarium_fish")
    assert data.train.labels[:3].tolist() == [19, 29, 0]  # cattle, dinosaur, apple: the first of the official file.
    mean = data.train.pixels.mean((0, 2, 3)) / 255
    assert np.allclose(mean, [0.5071, 0.4865, 0.4409], atol=1e-4)  # As published with many programs.
