"""Files that appear whole or not at all."""

import errno
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from pucl.files import DiskFullError, whole_file, write_json, write_whole
from pucl.runs.grid import Resources, run_grid
from pucl.runs.jobs import grid_of
from pucl.training.checkpoint import load_checkpoint, save_checkpoint
from small_runs import small_run


def test_a_record_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    record: dict[str, object] = {
        "text": "a [\n line",
        "numbers": [1, 2.5, None],
        "rows": [{"empty": [], "words": ["x  y", "["]}],
    }
    write_json(out, record)
    assert json.loads(out.read_text()) == record
    assert '"numbers": [ 1, 2.5, null ]' in out.read_text()
    with pytest.raises(TypeError):
        write_json(out, {("no", "key"): 1})  # type: ignore[dict-item]
    assert json.loads(out.read_text()) == record
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result"
    write_whole(path, b"old")

    def full_disk(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(
        DiskFullError, match=r"result cannot be saved because the disk quota is used up: it needs 0\.000"
    ):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_other_errors_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write_whole(tmp_path / "result", b"new")
    assert not isinstance(caught.value, DiskFullError)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("a small disk is made with mount, which is not here")
    made = subprocess.run(  # noqa: S603
        [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run([umount, str(place)], check=True)  # noqa: S603


def save_state(path: Path, count: int) -> None:
    save_checkpoint(
        path,
        {
            "step": 0,
            "framework": {"weights": torch.zeros(count // 4)},
            "correction": {},
            "optimiser": {},
            "scaler": {},
            "tally": {"sums": {}, "steps": 0},
            "watch": {"said": [], "steps": []},
            "warnings": [],
            "data": {},
            "seconds": 0.0,
            "processor_seconds": 0.0,
        },
    )


def save_arrays(path: Path, count: int) -> None:
    with whole_file(path) as file:
        np.savez(file, one=np.zeros(count // 2, np.uint8), two=np.zeros(count // 2, np.uint8))


def save_bytes(path: Path, count: int) -> None:
    write_whole(path, bytes(count))


@pytest.mark.parametrize("save", [save_state, save_arrays, save_bytes])
def test_a_full_disk(small_disk: Path, save: Callable[[Path, int], None]) -> None:
    """A real one. Whoever writes, it is one sentence with the file, its size if it is known, and what is free."""
    path = small_disk / "file"
    save(path, 500_000)
    before = path.read_bytes()
    with pytest.raises(DiskFullError) as caught:
        save(path, 3_000_000)
    said = re.fullmatch(
        rf"{path} cannot be saved because the disk is full: (?:it needs ([\d.]+) MB, )?([\d.]+) MB are free in "
        rf"{small_disk}; the earlier file is kept; make room and try again",
        str(caught.value),
    )
    assert said is not None
    assert save is save_arrays or 3.0 <= float(said[1]) < 3.1
    assert 0.4 < float(said[2]) < 0.6
    assert path.read_bytes() == before
    assert list(small_disk.iterdir()) == [path]


def test_a_disk_without_room_for_another_file(small_disk: Path) -> None:
    mount = shutil.which("mount")
    assert mount is not None
    subprocess.run([mount, "-o", "remount,nr_inodes=1", str(small_disk)], check=True)  # noqa: S603
    with pytest.raises(
        DiskFullError, match="file cannot be saved because the disk is full: it needs 0.000 MB, [0-9.]+ MB are free"
    ):
        save_bytes(small_disk / "file", 10)


@pytest.mark.parametrize("save", [save_state, save_arrays, save_bytes])
def test_what_is_written_is_what_is_read(tmp_path: Path, save: Callable[[Path, int], None]) -> None:
    path = tmp_path / "file"
    save(path, 3_000_000)
    if save is save_state:
        assert len(load_checkpoint(path)["framework"]["weights"]) == 750_000
    elif save is save_bytes:
        assert path.read_bytes() == bytes(3_000_000)
    else:
        with np.load(path) as arrays:
            assert sorted(arrays.files) == ["one", "two"]
            assert arrays["two"].shape == (1_500_000,)


@pytest.mark.slow
def test_a_full_disk_fails_one_run_of_a_grid(small_disk: Path) -> None:
    """The run that does not fit is reported with its file; those that fit are finished."""
    wide = small_run(hidden=512)
    done = run_grid(grid_of({"wide": wide, "plain": small_run()}, 1), small_disk, Resources())
    assert [each.error is None for each in done] == [False, True]
    assert "wide/seed-0/checkpoint.pt cannot be saved because the disk is full: it needs " in str(done[0].error)
    assert not list(small_disk.rglob("*.part"))
