"""CIFAR in its official pickles and as sheets of PNG: tiny ones made here, and the real CIFAR100."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pucl.data.errors import DataError
from pucl.images.imageset import ImageData
from pucl.images.registry import load
from pucl.images.sources import cifar

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
ROWS = np.random.default_rng(0).integers(0, 256, (12, 3072), dtype=np.uint8)
LABELS = [int(label) for label in np.random.default_rng(1).integers(0, 10, 12)]


@pytest.fixture
def any_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made here are read as if their sums were right."""
    monkeypatch.setattr(cifar, "read_checked", Path.read_bytes)


def write_batches(root: Path) -> None:
    directory = root / "cifar-10-batches-py"
    directory.mkdir()
    for number, name in enumerate([*cifar.BATCHES, "test_batch"]):
        part = slice(2 * number, 2 * number + 2)
        batch = {b"data": ROWS[part], b"labels": LABELS[part], b"filenames": [b"a.png", b"b.png"]}
        (directory / name).write_bytes(pickle.dumps(batch, protocol=3))


def write_sheets(root: Path) -> None:
    directory = root / "package"
    directory.mkdir()
    for number, name in enumerate([*cifar.SHEETS, "test_batch.png"]):
        rows = ROWS[2 * number : 2 * number + 2].reshape(2, 3, 1024).transpose(0, 2, 1)
        Image.fromarray(np.ascontiguousarray(rows)).save(directory / name)
    (directory / "train_lables.json").write_text(json.dumps(LABELS[:10]))
    (directory / "test_lables.json").write_text(json.dumps(LABELS[10:]))


both_forms = pytest.mark.parametrize("write", [write_batches, write_sheets])


@both_forms
def test_both_forms_of_cifar10_are_the_same(any_sum: None, tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    data = load("cifar10", root=tmp_path)
    assert data.test is not None
    assert data.train.labels is not None
    assert np.array_equal(data.train.pixels, ROWS[:10].reshape(-1, 3, 32, 32))
    assert np.array_equal(data.test.pixels, ROWS[10:].reshape(-1, 3, 32, 32))
    assert data.train.labels.tolist() == LABELS[:10]
    assert data.train.classes[:3] == ("airplane", "automobile", "bird")
    assert data.pretrain is data.train


@both_forms
def test_a_wrong_sum_is_refused_before_it_is_read(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    with pytest.raises(DataError, match="not the official file, or is damaged: expected md5"):
        load("cifar10", root=tmp_path)


class Hostile:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


@pytest.mark.parametrize("value", [Hostile(print, "ran"), Hostile(subprocess.run, ["true"]), {1, 2}])
def test_a_pickle_that_wants_more_than_arrays(
    any_sum: None, tmp_path: Path, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    write_batches(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps({b"data": value}, protocol=3))
    with pytest.raises(DataError, match="a pickle of CIFAR uses .*: expected numpy arrays only"):
        load("cifar10", root=tmp_path)
    assert "ran" not in capsys.readouterr().out


def test_cifar100_has_fine_labels(any_sum: None, tmp_path: Path) -> None:
    directory = tmp_path / "CIFAR-100" / "cifar-100-python"
    directory.mkdir(parents=True)
    for name, part in (("train", slice(0, 9)), ("test", slice(9, 12))):
        batch = {b"data": ROWS[part], b"fine_labels": LABELS[part], b"coarse_labels": [0] * 12}
        (directory / name).write_bytes(pickle.dumps(batch, protocol=3))
    names = [f"kind {number}".encode() for number in range(10)]
    (directory / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=3))
    data = load("cifar100", root=tmp_path)
    assert data.train.labels is not None
    assert data.train.labels.tolist() == LABELS[:9]
    assert data.train.classes[9] == "kind 9"


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
