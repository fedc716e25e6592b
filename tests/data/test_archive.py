"""Archives are unpacked below their directory or not at all."""

import gzip
import io
import random
import tarfile
import tempfile
import warnings
import zipfile
from pathlib import Path

import pytest

from pucl.data.archive import unpack_tar, unpack_zip
from pucl.data.errors import DataError


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


@pytest.mark.parametrize("name", ["/evil", "../evil", "a/../../evil", "C:\\evil", "..\\evil"])
def test_zip_members_that_climb_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="would write outside of its directory"):
        unpack_zip(write_zip(tmp_path / "a.zip", "good.txt", name), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_cut_archives(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.tar.gz", _file("noise", 50_000)).read_bytes()
    for content in (b"", b"nonsense", whole[:40], whole[: len(whole) // 2], whole[:-10]):
        (tmp_path / "a.tar.gz").write_bytes(content)
        with pytest.raises(DataError, match="is no tar archive, or is cut off"):
            unpack_tar(tmp_path / "a.tar.gz", tmp_path / "out")
    (tmp_path / "a.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match="is no zip archive, or is cut off"):
        unpack_zip(tmp_path / "a.zip", tmp_path / "out")


def write_zip(path: Path, *names: str) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # Of names that are there twice.
        for name in names:
            archive.writestr(name, "hello")
    return path


ODD_NAMES = [
    (("a", "a/b"), "cannot be the name of a file here: (Not a directory|File exists)"),
    (("a/b", "a"), "cannot be the name of a file here: Is a directory"),
    (("a/b", "a//b"), "twice"),
    (("a/b", "./a/b"), "twice"),
    (("x" * 300,), "cannot be the name of a file here: File name too long"),
    (("ä" * 200,), "cannot be the name of a file here: File name too long"),
    (("a/" * 60 + "b",), "holds a path of 61 levels, .* expected at most 50"),
    (("a/" * 3000 + "b",), "holds a path of 3001 levels, .* expected at most 50"),
    ((".",), "holds a file without a name"),
]


@pytest.mark.parametrize(("names", "message"), ODD_NAMES, ids=lambda value: str(value)[:20])
def test_names_that_cannot_be_files(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    tar = write(tmp_path / "a.tar.gz", *map(_file, names))
    with pytest.raises(DataError, match=f"a.tar.gz.*({message})"):
        unpack_tar(tar, tmp_path / "out")
    packed = write_zip(tmp_path / "a.zip", *names)
    with pytest.raises(DataError, match=f"a.zip.*({message})"):
        unpack_zip(packed, tmp_path / "other")


def test_a_null_character_in_a_name(tmp_path: Path) -> None:
    member = _file("x")
    member.pax_headers = {"path": "a\0b"}
    with pytest.raises(DataError, match="embedded null"):
        unpack_tar(write(tmp_path / "a.tar.gz", member), tmp_path / "out")


def test_a_zip_with_a_link(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match="holds a link or device, 'link'"):
        unpack_zip(tmp_path / "a.zip", tmp_path / "out")


def test_archives_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one large file, as many, as a long header, and as a file with holes, which takes no bytes in a tar at all."""
    size = 20 << 20
    large = write(tmp_path / "large.tar.gz", _file("zeros", size))
    many = write(tmp_path / "many.tar.gz", *(_file(f"zeros-{number}", size // 10) for number in range(10)))
    named = _file("x")
    named.pax_headers = {"comment": "x" * size}
    padded = write(tmp_path / "named.tar.gz", named)
    holes = tmp_path / "holes.tar"
    with tarfile.open(holes, "w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(_file("x", 512), io.BytesIO(bytes(512)))
    content = bytearray(holes.read_bytes())
    content[156:157] = tarfile.GNUTYPE_SPARSE
    content[386:410] = b"00000000000\0" + b"00000001000\0"  # 512 bytes at 0,
    content[483:495] = b"77777777777\0"  # of a file of 8 GiB.
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    holes.write_bytes(content)
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive_zip:
        archive_zip.writestr("zeros", bytes(size))
    monkeypatch.setenv("PUCL_MAX_UNPACKED", "0.01")
    for archive_path in (large, many, padded, holes):
        with pytest.raises(
            DataError, match=f"{archive_path.name} .* would unpack to too much.* --max-unpacked .*PUCL_MAX_UNPACKED"
        ):
            unpack_tar(archive_path, tmp_path / "out")
    with pytest.raises(DataError, match="a.zip .* would unpack to too much.* --max-unpacked 1, .*PUCL_MAX_UNPACKED"):
        unpack_zip(packed, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("PUCL_MAX_UNPACKED", "1")
    unpack_tar(large, tmp_path / "out")
    assert (tmp_path / "out" / "zeros").stat().st_size == size


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.data.archive.MOST_MEMBERS", 5)
    with pytest.raises(DataError, match="holds too many files: expected at most 5"):
        unpack_tar(write(tmp_path / "a.tar.gz", *(_file(str(number)) for number in range(9))), tmp_path / "out")


def test_any_damage_is_a_sentence(tmp_path: Path) -> None:
    members = write(tmp_path / "a.tar.gz", _file("noise", 500), _file("ä" * 60)).read_bytes()
    plain = gzip.decompress(members)
    packed = write_zip(tmp_path / "a.zip", "a/b", "c/", "ä").read_bytes()
    refused = []
    path = tmp_path / "damaged"
    for seed in range(90):
        chance = random.Random(seed)  # noqa: S311
        content, unpack = ((members, unpack_tar), (plain, unpack_tar), (packed, unpack_zip))[seed % 3]
        place = chance.randrange(len(content))
        path.write_bytes(content[:place] + chance.randbytes(chance.choice((1, 4))) + content[place + 1 :])
        with tempfile.TemporaryDirectory() as out:
            try:
                unpack(path, Path(out) / "out")
            except DataError as error:
                refused.append(str(error))
    assert len(refused) > 30
    assert all(str(path) in message and "\n" not in message for message in refused)
