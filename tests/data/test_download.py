"""Downloads from a host on this machine: whole, broken off and gone on with, cut, wrong, and refused."""

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pucl.data.download import Download, UnreachableError, fetch
from pucl.data.errors import DataError

CONTENT = hashlib.shake_128(b"pucl").digest(700_000)
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Host(ThreadingHTTPServer):
    """Sends CONTENT, and misbehaves as it is told."""

    cut_after: int | None = None
    ranges = True
    wrong_range = False
    length = True
    status: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str | None] = []

    def download(self, md5: str = MD5) -> Download:
        return Download(url=f"http://127.0.0.1:{self.server_address[1]}/set.tar.gz", md5=md5)


class Answer(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        host, wanted = self.server, self.headers["Range"]
        host.asked.append(wanted)
        if host.status:
            self.send_error(host.status)
            return
        first = int(re.findall(r"\d+", wanted)[0]) if wanted and host.ranges else 0
        if first >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[first:]
        self.send_response(206 if wanted and host.ranges else 200)
        if wanted and host.ranges:
            begin = 0 if host.wrong_range else first
            self.send_header("Content-Range", f"bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if host.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if host.cut_after is None else body[: host.cut_after])

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield host
        host.shutdown()
        thread.join()


@pytest.mark.parametrize("length", [True, False])
def test_a_whole_file(host: Host, tmp_path: Path, length: bool) -> None:
    host.length = length
    path = fetch(host.download(), tmp_path / "new")
    assert path == tmp_path / "new" / "set.tar.gz"
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["set.tar.gz"]
    fetch(host.download(), tmp_path / "new")
    assert host.asked == [None]  # What is there is not fetched again.


def test_it_goes_on_where_it_broke_off(host: Host, tmp_path: Path) -> None:
    host.cut_after = 300_000
    with pytest.raises(UnreachableError, match="connection broke after 300,000 of 700,000 bytes; run the same command"):
        fetch(host.download(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["set.tar.gz.part"]
    with pytest.raises(UnreachableError, match="connection broke after 600,000 of 700,000 bytes"):
        fetch(host.download(), tmp_path)
    host.cut_after = None
    assert fetch(host.download(), tmp_path).read_bytes() == CONTENT
    assert host.asked == [None, "bytes=300000-", "bytes=600000-"]


@pytest.mark.parametrize(("part", "ranges"), [(b"x" * 1000, False), (CONTENT, True)], ids=["sent again", "whole"])
def test_a_part_that_cannot_be_continued(host: Host, tmp_path: Path, part: bytes, ranges: bool) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(part)
    host.ranges = ranges
    assert fetch(host.download(), tmp_path).read_bytes() == CONTENT


def test_a_host_that_goes_on_elsewhere_is_refused(host: Host, tmp_path: Path) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT[:1000])
    host.wrong_range = True
    with pytest.raises(UnreachableError, match="asked for bytes from 1000, got 'bytes 0-"):
        fetch(host.download(), tmp_path)
    assert (tmp_path / "set.tar.gz.part").read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("part", [b"", b"x" * 1000, b"x" * 800_000])
def test_a_wrong_sum_never_becomes_visible(host: Host, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(part)
    expected = MD5 if part else "0" * 32
    with pytest.raises(DataError, match=f"not the official file: expected md5 {expected}, got .* was deleted"):
        fetch(host.download(expected), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert fetch(host.download(), tmp_path).read_bytes() == CONTENT


def test_without_a_length_only_the_sum_tells(host: Host, tmp_path: Path) -> None:
    host.length, host.cut_after = False, 5
    with pytest.raises(DataError, match="not the official file"):
        fetch(host.download(), tmp_path)


def test_a_file_may_have_a_sha256_sum(host: Host, tmp_path: Path) -> None:
    right = Download(url=host.download().url, sha256=hashlib.sha256(CONTENT).hexdigest())
    assert fetch(right, tmp_path / "right").read_bytes() == CONTENT
    with pytest.raises(DataError, match=f"not the official file: expected sha256 {'0' * 64}, got {right.sha256}"):
        fetch(replace(right, sha256="0" * 64), tmp_path / "wrong")
    assert list((tmp_path / "wrong").iterdir()) == []


def test_hosts_that_do_not_answer(host: Host, tmp_path: Path) -> None:
    host.status = 404
    with pytest.raises(UnreachableError, match="the host answers 404"):
        fetch(host.download(), tmp_path)
    host.status = 500
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT[:10])
    with pytest.raises(UnreachableError, match="the host answers 500"):
        fetch(host.download(), tmp_path)
    with pytest.raises(UnreachableError, match="cannot be reached: .*refused"):
        fetch(Download(url="http://127.0.0.1:1/set.tar.gz", md5=MD5), tmp_path)
    with pytest.raises(DataError, match="over http or https, got file:///etc/passwd"):
        fetch(Download(url="file:///etc/passwd", md5=MD5), tmp_path)
