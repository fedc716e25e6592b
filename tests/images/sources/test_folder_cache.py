"""Arrays on disk are built once, anew when the folder changes, and never half."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pucl.data.errors import DataError
from pucl.images import stored
from pucl.images.registry import load
from pucl.images.sources import folder as folder_source

GREEN = (0, 255, 0)


def left_in(directory: Path) -> list[str]:
    """What is there but for locks, which are empty."""
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".lock")


def test_it_is_built_once_for_every_share(labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(labelled, root=tmp_path / "root")

    def fail(*arguments: Any) -> None:
        raise AssertionError("it was built again")

    monkeypatch.setattr(folder_source, "read_picture", fail)
    for share, tests in ((0.0, 0), (0.3, 6), (0.5, 10)):
        data = load(labelled, root=tmp_path / "root", test_share=share)
        assert (len(data.test) if data.test else 0) == tests
        assert len(data.pretrain) == 20 - tests


@pytest.mark.parametrize("change", ["touch", "add", "remove", "size"])
def test_a_changed_folder_is_built_anew(labelled: Path, tmp_path: Path, change: str) -> None:
    load(labelled, root=tmp_path / "root")
    if change == "touch":
        Image.new("RGB", (8, 8), GREEN).save(labelled / "cat" / "0.png")
        os.utime(labelled / "cat" / "0.png", ns=(1, 1))
    elif change == "add":
        Image.new("RGB", (8, 8), GREEN).save(labelled / "cat" / "new.png")
    elif change == "remove":
        (labelled / "cat" / "0.png").unlink()
    load(labelled, root=tmp_path / "root", image_size=4 if change == "size" else None)
    assert len(left_in(tmp_path / "root" / "arrays")) == 2


def test_a_spoilt_array_is_built_anew(labelled: Path, tmp_path: Path) -> None:
    load(labelled, root=tmp_path / "root")
    (entry,) = (tmp_path / "root" / "arrays").glob("pets-*")
    whole = (entry / stored.PIXELS).read_bytes()
    (entry / stored.PIXELS).write_bytes(whole[:-1])
    load(labelled, root=tmp_path / "root")
    assert (entry / stored.PIXELS).read_bytes() == whole
    for spoilt in ("{", "[" * 100_000, '{"pictures": 1e999, "skipped": {}}', "7"):
        (entry / stored.ABOUT).write_text(spoilt)
        assert len(load(labelled, root=tmp_path / "root").train) == 16
    (entry / stored.PIXELS).write_bytes(bytes([whole[0] ^ 1]) + whole[1:])  # One bit.
    load(labelled, root=tmp_path / "root")
    assert (entry / stored.PIXELS).read_bytes() == whole
    about = json.loads((entry / stored.ABOUT).read_text())
    for skipped in ({}, {"skipped": 3}, {"skipped": {"a.png": 1}}):
        (entry / stored.ABOUT).write_text(json.dumps({"pictures": 20, "crc32": about["crc32"], **skipped}))
        with pytest.raises(DataError, match=r"about.json is damaged: delete .*, then it is built again"):
            load(labelled, root=tmp_path / "root")


def test_a_full_disk_leaves_nothing(labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)  # After the pixels were written.
        with pytest.raises(DataError, match="could not be written to .*No space left on device"):
            load(labelled, root=tmp_path / "root")
    assert left_in(tmp_path / "root" / "arrays") == []
    assert len(load(labelled, root=tmp_path / "root").train) == 16


def test_a_read_only_cache(labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)  # The tests may run as root, whom no mode stops.
        with pytest.raises(
            DataError, match=r"array of images cannot be written to .*arrays \(Permission denied\).*PUCL_DATA"
        ):
            load(labelled, root=tmp_path / "root")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="could not be written to .*file"):
        load(labelled, root=tmp_path / "file")


def test_what_a_killed_process_left_is_cleared(labelled: Path, tmp_path: Path) -> None:
    load(labelled, root=tmp_path / "root")
    arrays = tmp_path / "root" / "arrays"
    (entry,) = arrays.glob("pets-*")
    leftover = entry.rename(arrays / f".{entry.name}.abc.part")
    load(labelled, root=tmp_path / "root")
    assert not leftover.exists()


def test_a_picture_that_the_disk_refuses_is_no_damaged_one(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(folder_source, "read_picture", refuse)
    with pytest.raises(DataError, match="png cannot be read: Input/output error"):
        load(labelled, root=tmp_path / "root")
    assert left_in(tmp_path / "root" / "arrays") == []


def test_several_at_a_time_build_one(labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = []
    build = folder_source._build

    def counted(*given: Any) -> dict[str, Any]:
        builds.append(given)
        return build(*given)

    monkeypatch.setattr(folder_source, "_build", counted)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: load(labelled, root=tmp_path / "root"), range(4)))
    assert len(builds) == 1
    assert all(np.array_equal(results[0].train.pixels, other.train.pixels) for other in results)
