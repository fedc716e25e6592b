"""Fashion-MNIST's idx files, packed and plain, and broken ones."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.images.registry import load
from pucl.images.sources.fashion import FILES

GREY = np.random.default_rng(0).integers(0, 256, (9, 28, 28), dtype=np.uint8)
LABELS = np.arange(9, dtype=np.uint8)


def zipped(content: bytes) -> bytes:
    """As gzip packs it, without the time: the names of tests are made from it."""
    return gzip.compress(content, mtime=0)


def idx(array: NDArray[np.uint8]) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(root: Path, *, packed: bool) -> Path:
    directory = root / "fashion-mnist"
    directory.mkdir()
    for file, array in zip(FILES, (GREY[:6], LABELS[:6], GREY[6:], LABELS[6:]), strict=True):
        if packed:
            (directory / f"{file}.gz").write_bytes(zipped(idx(array)))
        else:
            (directory / file).write_bytes(idx(array))
    return directory


@pytest.mark.parametrize("packed", [True, False])
def test_packed_and_plain(tmp_path: Path, packed: bool) -> None:
    write(tmp_path, packed=packed)
    data = load("fashion-mnist", root=tmp_path)
    assert data.test is not None
    assert data.test.labels is not None
    assert np.array_equal(data.train.pixels, np.repeat(GREY[:6, None], 3, 1))
    assert data.test.labels.tolist() == [6, 7, 8]
    assert data.train.classes[9] == "Ankle boot"
    assert load("fashion-mnist", root=tmp_path, image_size=16).train.size == (16, 16)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (FILES[0], zipped(idx(GREY[:6]))[:-30], "not packed with gzip, or is cut off"),
        (FILES[0], idx(GREY[:6]), "not packed with gzip, or is cut off"),
        (FILES[0], zipped(idx(GREY[:6])[:-1]), r"expected 4,704 bytes for the shape \[6, 28, 28\], got 4,703"),
        (FILES[0], zipped(idx(LABELS)), "no idx file of bytes with 3 axes: it begins with 00 00 08 01"),
        (FILES[0], zipped(b""), "no idx file"),
        (FILES[0], zipped(idx(GREY[:0])), "expected 0 as in"),
        (FILES[1], zipped(idx(LABELS[:5])), "a label for each image: expected 6 as in .*, got 5"),
        (FILES[1], zipped(idx(LABELS[:6] + 5)), "expected 0..9, got 10 for sample 5"),
    ],
)
def test_broken_files(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    (write(tmp_path, packed=True) / f"{file}.gz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load("fashion-mnist", root=tmp_path)


def test_a_file_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (write(tmp_path, packed=True) / f"{FILES[0]}.gz").write_bytes(zipped(idx(GREY[:6]) + bytes(20 << 20)))
    monkeypatch.setenv("PUCL_MAX_UNPACKED", "0.01")
    with pytest.raises(
        DataError, match=f"{FILES[0]}.gz .* would unpack to too much.* --max-unpacked .*PUCL_MAX_UNPACKED"
    ):
        load("fashion-mnist", root=tmp_path)
