"""``pucl data list`` and ``pucl data get`` for graphs: from the network, from a directory; whole or not at all."""

import stat
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data.tu_files import PARTS, write_tu, write_zip
from pucl import cli
from pucl.data.archive import unpack_zip
from pucl.data.download import fetch_zip
from pucl.data.errors import DataError
from pucl.graphs.acquire import acquire_graphs
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources import tu_collection
from pucl.graphs.sources.tu_collection import COLLECTION, Published
from pucl.images.registry import load

TINY = Published(graphs=3, classes=2, mean_nodes=8 / 3, mean_edges=2)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The collection on this machine, with a MUTAG of three graphs."""
    directory = tmp_path / "site"
    directory.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory))) as host:
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(tu_collection, "SITE", f"http://127.0.0.1:{host.server_address[1]}")
        monkeypatch.setattr(
            tu_collection, "COLLECTION", {**COLLECTION, "MUTAG": replace(COLLECTION["MUTAG"], published=TINY)}
        )
        yield directory
        host.shutdown()
        thread.join()


def get(name: str, root: Path, *more: str) -> int:
    return cli.main(["data", "get", name, "--root", str(root), *more])


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tu(tmp_path / "DD" / "raw", "DD")
    assert cli.main(["data", "list", "--root", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines["shapes"].split()[1:3] == ["400", "4"]
    assert lines["shapes"].endswith("made when it is asked for")
    assert lines["DD"].split() == ["DD", "1,178", "2", "284.3", str(tmp_path / "DD" / "raw")]
    assert lines["ENZYMES"].endswith("not there: pucl data get ENZYMES")
    assert "AIDS," in lines


def test_downloaded(tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_zip(site / "MUTAG.zip", "MUTAG")
    root = tmp_path / "root"
    assert get("mutag", root) == 0
    assert capsys.readouterr().out == f"MUTAG: {root / 'MUTAG' / 'raw'}\n"
    assert names(root) == ["MUTAG"]
    assert names(root / "MUTAG" / "raw") == [
        "MUTAG_A.txt",
        *sorted(f"MUTAG_{part}.txt" for part in PARTS if part != "A"),
        "README.txt",
    ]
    assert len(load_graphs("MUTAG", root=root)) == 3
    assert get("MUTAG", root) == 0
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"A": "1, 4\n"}, "MUTAG_A.txt, line 1: an edge joins nodes of one graph"),
        ({"A": "1, 2\n2, 1\n"}, "does not hold MUTAG as it is published: expected 3 graphs .* 2.00 edges .* and 0.33"),
        ({"graph_labels": None}, "does not hold MUTAG: unpacked/MUTAG is there without MUTAG_graph_labels.txt"),
        ({"A": None, "graph_indicator": None, "graph_labels": None}, "does not hold MUTAG: it has none of its files"),
    ],
)
def test_what_is_not_right_does_not_become_visible(
    tmp_path: Path, site: Path, parts: dict[str, str | None], message: str
) -> None:
    write_zip(site / "MUTAG.zip", "MUTAG", **parts)
    source = tu_collection.known_graphs("MUTAG")
    assert source is not None
    with pytest.raises(DataError, match=message):
        acquire_graphs(source, tmp_path / "root")
    assert names(tmp_path / "root") == []


def test_damaged_archives(tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    whole = write_zip(site / "MUTAG.zip", "MUTAG").read_bytes()
    for content in (b"", b"<html>not found</html>", whole[:-30], whole.replace(b"5\n3\n3\n5", b"5\n3\n3\n9")):
        (site / "MUTAG.zip").write_bytes(content)
        assert get("MUTAG", root) == 2
        assert "is no zip archive, or is damaged" in capsys.readouterr().err
        assert not list(root.rglob("*.part"))
    (site / "MUTAG.zip").write_bytes(whole)
    assert get("MUTAG", root) == 0


def test_a_download_goes_on(tmp_path: Path, site: Path) -> None:
    """The host here sends all of it again, which is as good."""
    write_zip(site / "MUTAG.zip", "MUTAG")
    downloads = tmp_path / "root" / ".MUTAG.downloads"
    downloads.mkdir(parents=True)
    (downloads / "MUTAG.zip.part").write_bytes(b"PK")
    assert get("MUTAG", tmp_path / "root") == 0
    assert names(tmp_path / "root") == ["MUTAG"]


def test_a_site_that_does_not_have_it(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get("MUTAG", tmp_path / "root") == 2
    said = capsys.readouterr().err
    assert "MUTAG.zip: the host answers 404" in said
    assert "`pucl data get MUTAG --from DIR` takes it from a directory" in said
    monkeypatch.setattr(tu_collection, "SITE", "http://127.0.0.1:9")
    assert get("MUTAG", tmp_path / "root") == 2
    assert "MUTAG.zip cannot be reached: " in capsys.readouterr().err
    assert names(tmp_path / "root") == []
    with pytest.raises(DataError, match="downloads are over http or https, got ftp"):
        fetch_zip("ftp://host/MUTAG.zip", tmp_path)


def test_from_a_directory(tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tu(tmp_path / "there" / "MUTAG" / "raw", "MUTAG")
    (tmp_path / "there" / "MUTAG" / "raw" / "unrelated.txt").write_text("x")
    assert get("MUTAG", tmp_path / "a", "--from", str(tmp_path / "there")) == 0
    assert "unrelated.txt" not in names(tmp_path / "a" / "MUTAG" / "raw")
    archive = write_zip(tmp_path / "MUTAG.zip", "MUTAG")
    for root, origin in ((tmp_path / "b", archive), (tmp_path / "c", tmp_path)):
        assert get("MUTAG", root, "--from", str(origin)) == 0
        assert names(root) == ["MUTAG"]
    capsys.readouterr()
    (tmp_path / "empty").mkdir()
    assert get("MUTAG", tmp_path / "d", "--from", str(tmp_path / "empty")) == 2
    assert "empty does not hold MUTAG: expected MUTAG.zip, or MUTAG_A.txt" in capsys.readouterr().err
    write_tu(tmp_path / "part", "MUTAG", graph_indicator=None)
    assert get("MUTAG", tmp_path / "d", "--from", str(tmp_path / "part")) == 2
    assert "part is there without MUTAG_graph_indicator.txt" in capsys.readouterr().err
    (tmp_path / "d" / "MUTAG").mkdir()
    assert get("MUTAG", tmp_path / "d", "--from", str(tmp_path / "there")) == 2
    assert "is in the way" in capsys.readouterr().err
    assert names(tmp_path / "d") == ["MUTAG"]


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get("shapes", tmp_path) == 0
    assert "made when it is asked for; there is nothing to get" in capsys.readouterr().out
    assert get("PROTEIN", tmp_path) == 2
    said = capsys.readouterr().err
    assert "no data set 'PROTEIN'" in said
    assert "Did you mean 'PROTEINS'" in said
    assert get("DD", tmp_path, "--from", str(tmp_path / "nowhere")) == 2
    assert "expected one that is there" in capsys.readouterr().err
    with pytest.raises(DataError, match="DD is a set of graphs, not of pictures"):
        load("dd", root=tmp_path)


@pytest.mark.parametrize("name", ["/evil", "../evil", "a/../../evil", "C:\\evil", "..\\evil"])
def test_climbing_archives(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("good.txt", "1")
        archive.writestr(name, "2")
    with pytest.raises(DataError, match="would write outside of its directory"):
        unpack_zip(tmp_path / "a.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_archives_with_links(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match="holds a link or device, 'link'"):
        unpack_zip(tmp_path / "a.zip", tmp_path / "out")
    (tmp_path / "b.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match="is no zip archive, or is cut off"):
        unpack_zip(tmp_path / "b.zip", tmp_path / "out")
