"""Archives are unpacked below their directory or not at all."""

import io
import tarfile
from pathlib import Path

import pytest

from pucl.data import DataError
from pucl.data.archive import unpack_tar


def write(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(_file("good/first.txt", 5), io.BytesIO(b"hello"))
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def _file(name: str, size: int = 3) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_plain_files(tmp_path: Path) -> None:
    archive = write(tmp_path / "a.tar.gz", _special("other", tarfile.DIRTYPE), _file("other/deep/x.bin"))
    unpack_tar(archive, tmp_path / "out")
    assert (tmp_path / "out" / "good" / "first.txt").read_bytes() == b"hello"
    assert (tmp_path / "out" / "other" / "deep" / "x.bin").read_bytes() == b"xxx"


@pytest.mark.parametrize(
    "member",
    [
        _file("../evil"),
        _file("good/../../evil"),
        _file("/evil"),
        _file("C:\\evil"),
        _file("..\\evil"),
        _special("good/link", tarfile.SYMTYPE, "/etc/passwd"),
        _special("good/inner", tarfile.SYMTYPE, "first.txt"),
        _special("good/hard", tarfile.LNKTYPE, "good/first.txt"),
        _special("good/pipe", tarfile.FIFOTYPE),
        _special("good/device", tarfile.CHRTYPE),
    ],
    ids=lambda member: member.name,
)
def test_members_that_climb_out_or_link(tmp_path: Path, member: tarfile.TarInfo) -> None:
    archive = write(tmp_path / "a.tar.gz", member)
    with pytest.raises(DataError, match="outside of its directory|link or device"):
        unpack_tar(archive, tmp_path / "deep" / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["a.tar.gz"]


def test_cut_archives(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.tar.gz", _file("noise", 50_000)).read_bytes()
    for content in (b"", b"nonsense", whole[:40], whole[: len(whole) // 2], whole[:-10]):
        (tmp_path / "a.tar.gz").write_bytes(content)
        with pytest.raises(DataError, match="is no tar archive, or is cut off"):
            unpack_tar(tmp_path / "a.tar.gz", tmp_path / "out")
