"""Files of arrays that are damaged or hostile: one sentence that names the file and the array, and no memory taken."""

import io
import random
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.cli import main
from pucl.data.errors import DataError
from pucl.data.npz import read_npz_arrays
from pucl.images.registry import load

IMAGES = np.random.default_rng(0).integers(0, 256, (10, 6, 5), dtype=np.uint8)
LABELS = np.array([0, 1] * 5)
CLASSES = np.array(["cat", "dog"])


def packed(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def header(shape: str, kind: str = "'|u1'") -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


GOOD = {"images.npy": packed(IMAGES), "labels.npy": packed(LABELS), "classes.npy": packed(CLASSES)}


def write(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ("(1000000000000,)", "'|u1'"),
        (f"({10**23}, 8, 8)", "'<f8'"),
        (f"({10**23}, 0)", "'|u1'"),
        ("(-10, -30)", "'|u1'"),
        ("(10,)", "'<U999999999'"),
        ("(10, 6, 5)", "'|u1'"),
    ],
)
def test_a_shape_that_the_file_does_not_hold(tmp_path: Path, shape: str, kind: str) -> None:
    path = write(tmp_path / "mine.npz", GOOD | {"images.npy": header(shape, kind) + bytes(7)})
    with pytest.raises(DataError, match="mine.npz: images is (damaged|not an array, or is damaged): "):
        load(path)


@pytest.mark.parametrize("name", ["images.npy", "images"])
def test_a_member_that_is_no_array(tmp_path: Path, name: str) -> None:
    members = {key: content for key, content in GOOD.items() if key != "images.npy"}
    with pytest.raises(DataError, match="mine.npz: images is not an array: expected the format .npy"):
        load(write(tmp_path / "mine.npz", members | {name: b"a text"}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda whole: whole[: len(whole) // 2], "is not a .npz file of plain arrays, or is damaged"),
        (lambda _: b"", "is not a .npz file of plain arrays, or is damaged"),
        (lambda _: b"nonsense", "is not a .npz file of plain arrays, or is damaged"),
        (lambda _: GOOD["images.npy"], "it is one array without a name"),
    ],
    ids=["cut", "empty", "text", "npy"],
)
def test_a_file_that_is_no_npz(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    path = write(tmp_path / "mine.npz", GOOD)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"mine.npz .*{message}"):
        load(path)


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mine.npz is damaged: it holds images 2 times"):
        load(write(tmp_path / "mine.npz", GOOD | {"images": packed(255 - IMAGES)}))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("labels", LABELS.astype("m8[s]"), "labels is not a plain array: expected numbers or text, got timedelta64"),
        ("labels", LABELS.astype("M8[D]"), "labels is not a plain array: expected numbers or text, got datetime64"),
        ("labels", np.zeros(10, [("a", "i4")]), "labels is not a plain array: expected numbers or text"),
        ("images", np.array([{}, {}], object), "images is not a plain array: expected numbers or text, got object"),
        ("labels", LABELS - 3, "labels are indices into classes: expected 0..1, got -3 for sample 0"),
        ("labels", LABELS.astype(bool), "labels are one whole number for each image: .* got bool"),
        ("labels", np.array(3), "labels are one whole number for each image: .* got int64 \\[\\]"),
        ("labels", np.full(10, 2**64 - 1, np.uint64), "expected less than 100,000, got 18446744073709551615"),
        ("images", IMAGES.astype(bool), "images are uint8 in 0..255 or floats in 0..1, got bool"),
        ("images", np.array(3), "expected 3 or 4 axes, got \\[\\]"),
        (
            "classes",
            np.array("cat"),
            "classes are the names of the classes: expected text \\[classes\\], got <U3 \\[\\]",
        ),
        ("classes", np.array([0.5, 1.5]), "classes are the names of the classes: .* got float64"),
        ("classes", np.array([b"\xff", b"a"]), "expected text in Unicode"),
        ("classes", np.array(["\ud800", "a"]), "expected text in Unicode"),
        ("classes", np.array([0x110000, 97], np.uint32).view("U1"), "expected text in Unicode"),
        ("classes", np.zeros(200_000, "U0"), "expected at most 100,000, got 200,000"),
    ],
)
def test_arrays_of_odd_types(tmp_path: Path, name: str, array: NDArray[Any], message: str) -> None:
    path = write(tmp_path / "mine.npz", GOOD | {f"{name}.npy": packed(array)})
    with pytest.raises(DataError, match=f"mine.npz: .*{message}"):
        load(path)


def test_classes_as_bytes_or_numbers(tmp_path: Path) -> None:
    for classes, expected in ((np.array([b"cat", b"dog"]), ("cat", "dog")), (np.array([7, 9]), ("7", "9"))):
        path = write(tmp_path / "mine.npz", GOOD | {"classes.npy": packed(classes)})
        assert load(path).train.classes == expected


def test_an_array_that_is_not_asked_for_is_not_looked_at(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.npz", GOOD | {"more.npy": b"nonsense"})
    arrays, names = read_npz_arrays(path, ("images", "other"))
    assert names == ["images", "labels", "classes", "more"]
    assert arrays.keys() == {"images"}
    assert np.array_equal(arrays["images"], IMAGES)


def test_a_file_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before it is unpacked, and the environment variable lifts the limit."""
    monkeypatch.setattr("pucl.data.unpacking.DEFAULT", 1 / 64)
    size = 20 << 20
    path = write(tmp_path / "mine.npz", {"images.npy": header(f"({size >> 10}, 32, 32)") + bytes(size)})
    assert path.stat().st_size < 1 << 18
    tracemalloc.start()
    try:
        lifted = "--max-unpacked 1, or set .*PUCL_MAX_UNPACKED"
        with pytest.raises(DataError, match=f"at most 0.0156 GiB, got 0.0195 GiB; .* {lifted}"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    monkeypatch.setenv("PUCL_MAX_UNPACKED", "1")
    assert read_npz_arrays(path, ("images",))[0]["images"].nbytes == size


def test_a_file_may_unpack_to_many_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_MAX_UNPACKED", "0")
    assert len(load(write(tmp_path / "mine.npz", GOOD)).train) == 8


@pytest.mark.parametrize("value", ["many", "-1", "nan", "inf"])
def test_a_limit_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    path = write(tmp_path / "mine.npz", GOOD)
    monkeypatch.setenv("PUCL_MAX_UNPACKED", value)
    with pytest.raises(ValueError, match=f"PUCL_MAX_UNPACKED is the largest size .* got '{value}'"):
        load(path)


def test_any_damage_is_a_sentence(tmp_path: Path) -> None:
    """Bytes changed anywhere: in the archive, in an array, in its header."""
    kinds = ("'|u1'", "'<m8[s]'", "'|O'", "'<U0'", "'|V0'", "[('a', '<i4')]", "'<f16'", "('<i4', (2,))", "'no'", "5")
    shapes = ("()", "(10,)", "(10, 6, 5)", f"({10**23},)", "(True,)", "(1.0,)", f"({'1,' * 70})", "'x'")
    path, read, refused = tmp_path / "mine.npz", 0, []
    whole = write(path, GOOD).read_bytes()
    for seed in range(150):
        chance = random.Random(seed)  # noqa: S311
        if seed % 2:
            path.write_bytes(damaged(whole, chance))
        else:
            name = chance.choice(list(GOOD))
            odd = header(chance.choice(shapes), chance.choice(kinds)) + bytes(chance.choice((0, 10, 300)))
            write(path, GOOD | {name: chance.choice((odd, damaged(GOOD[name], chance)))})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                load(path)
            read += 1
        except DataError as error:
            refused.append(str(error))
    assert 0 < read < 50
    assert all("mine.npz" in message and "\n" not in message for message in refused)
    assert max(map(len, refused)) < 300 + len(str(path))


def damaged(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + bytes([chance.randrange(256)]) + content[place + chance.choice((0, 1, 1, 9)) :]


def test_a_flag_lifts_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For one command; the next is bounded again."""
    monkeypatch.setattr("pucl.data.unpacking.RATIO", 0)
    monkeypatch.setattr("pucl.data.unpacking.DEFAULT", 0)
    file = write(tmp_path / "mine.npz", GOOD)
    for flag in ([], ["--max-unpacked=1"], []):
        assert main(["train", "simclr", str(file), "--batch-size=100", "--out", str(tmp_path / "run"), *flag]) == 2
        assert ("--max-unpacked 1" in capsys.readouterr().err) == (not flag)
