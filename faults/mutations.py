"""Data files with wrong bytes in them, and such as somebody made to do harm: read, or refused with a sentence."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from PIL import Image

from faults.attempt import attempt
from faults.damage import damaged
from faults.trial import PATIENCE, Kind, Outcome, Trial, Workspace, judge
from faults.victims import few_graphs
from pucl.data.archive import unpack_tar, unpack_zip
from pucl.graphs.registry import load_graphs
from pucl.images.registry import load
from pucl.images.sources.picture import SUFFIXES

Files = dict[str, bytes]
UNPACKED = "deep/out"  # Where archives are unpacked.
BOMBS = 0.04  # How many of the forged files are bombs: each takes seconds where it goes off.
BOMB = 2 << 30  # Bytes that a few kilobytes unpack to: more than an attempt may take.
NUMBERS = (
    *("-1", "0", "1e9", "9" * 25, "nan", "inf", "1_0", "0x10", "\u0663", "", "1e400", "-", "1 2", "2147483648", "\x00"),
    "1" * 5000,
)
"""What a number in a text file may be replaced by."""


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Args:
        about: What it is.
        files: The undamaged files by name.
        read: Reads the directory that they are in.
        forge: Makes one of the files anew, with its form right and its content hostile.
    """

    about: str
    files: Callable[[Workspace], Files]
    read: Callable[[Path], object]
    forge: Callable[[str, bytes, Trial], bytes]


def mutate(kind: Format, trial: Trial) -> Outcome:
    """Damage one file of a format, and read all of them."""
    files = kind.files(trial.workspace)
    directory = trial.directory / "data"
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    victim = trial.one_of(sorted(files))
    if trial.rng.random() < 0.4:
        content = kind.forge(victim, files[victim], trial)
    else:
        content = damaged(files[victim], trial.rng)
    (directory / victim).write_bytes(content)

    def read() -> None:
        kind.read(directory)

    outcome = judge(attempt(read, PATIENCE), [Path(victim).name, str(directory)])
    escaped = [path for path in trial.directory.parent.rglob("*escaped*") if UNPACKED not in path.as_posix()]
    if escaped:
        return Outcome("failed", f"{victim}: wrote outside of its directory, or ran what it holds: {escaped[0]}")
    return Outcome(outcome.verdict, f"{victim}: {outcome.words}")


def _root(directory: Path) -> Path:
    return directory.parent / "root"


# Pictures


@cache
def _pictures() -> Files:
    pixels = np.random.default_rng(2).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    files = {}
    for suffix in sorted(SUFFIXES):
        buffer = io.BytesIO()
        with suppress(OSError, KeyError, ValueError):  # Not every Pillow can write every format.
            Image.fromarray(pixels).save(buffer, Image.registered_extensions()[suffix])
            files[f"picture{suffix}"] = buffer.getvalue()
    return files


def _forge_picture(name: str, content: bytes, trial: Trial) -> bytes:
    """Pictures that say they are enormous."""
    side = trial.one_of((0, 1, 9_000, 60_000, 2**31 - 1))
    if name.endswith(".png"):
        header = struct.pack(">II", side, side) + content[24:29]
        return content[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + content[33:]
    if name.endswith((".ppm", ".pgm", ".pbm")):
        return content.replace(b"24 16", b"%d %d" % (side, side), 1)
    index = {".gif": 6, ".bmp": 18}.get(Path(name).suffix, int(trial.rng.integers(min(64, len(content)))))
    return content[:index] + struct.pack("<I", side) + content[index + 4 :]


# Arrays


@cache
def _arrays() -> Files:
    rng, buffer = np.random.default_rng(3), io.BytesIO()
    np.savez_compressed(
        buffer,
        images=rng.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8),
        labels=np.arange(12) % 3,
        classes=np.array(list("abc")),
    )
    return {"arrays.npz": buffer.getvalue()}


SHAPES = (
    *("(-1,)", "(12, -8, 8, 3)", "(1000000000000,)", "(2147483648, 2147483648)", "()", "(0, 8, 8)", "(12, 8, 8, 3, 0)"),
    *("(True,)", "(1e9,)", "[12]", "(" * 200 + ")" * 200, "(12)", f"({'9' * 5000},)"),
)
TYPES = (
    *("'|u1'", "'|O'", "'<f16'", "'|S1000000000'", "'|V9'", "[('a', '<i4')]", "'<U99999999'", "'<M8[s]'", "3", "'?'"),
)


def _forge_npz(_name: str, content: bytes, trial: Trial) -> bytes:
    """Headers that lie: hostile shapes and types, a bomb, members that are none."""
    if trial.rng.random() < BOMBS:
        return (trial.workspace.made("bombs", _make_bomb) / "bomb.npz").read_bytes()
    shape, kind = trial.one_of(SHAPES), trial.one_of(TYPES)
    header = (
        f"{{'descr': {kind}, 'fortran_order': {trial.one_of(('False', 'True', '1'))}, 'shape': {shape}, }}\n".encode()
    )
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) % 65536) + header + bytes(64)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    members[trial.one_of(sorted(members))] = trial.one_of((member, member, member, b"", b"\x93NUMPY"))
    if trial.rng.random() < 0.2:
        members[trial.one_of(("../images.npy", "images", "x.npy", "y.npy"))] = member
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, inside in members.items():
            archive.writestr(each, inside)
    return buffer.getvalue()


def _make_bomb(directory: Path) -> None:
    """A few megabytes that unpack to two gibibytes of black pictures."""
    shape = f"({BOMB // 192}, 8, 8, 3)"
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    with (
        zipfile.ZipFile(directory / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("images.npy", "w", force_zip64=True) as member,
    ):
        member.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        for _ in range(BOMB >> 20):
            member.write(bytes(1 << 20))


# Text


def _replace_number(_name: str, content: bytes, trial: Trial) -> bytes:
    """A number of a text file that is another, or none."""
    lines = content.decode().splitlines()
    index = int(trial.rng.integers(len(lines)))
    fields = lines[index].split(",")
    fields[int(trial.rng.integers(len(fields)))] = trial.one_of(NUMBERS)
    lines[index] = ",".join(fields)
    return "\n".join(lines).encode()


def _graph_files(workspace: Workspace) -> Files:
    return {file.name: file.read_bytes() for file in few_graphs(workspace).iterdir()}


# Archives

ABSOLUTE = "/escaped"  # Put below the directory of the attack, lest it succeed.
CLIMBING = (
    *("../escaped", "../../escaped", ABSOLUTE, "a/../../escaped", "..\\escaped", "C:\\escaped", "good/../../escaped"),
    *("", ".", "./", "a\x00b", "x" * 5000, "good/first.txt/below", "\udcff", "con", "a//b", "good"),
)
KINDS_OF_MEMBERS = (
    *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE),
    *(tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, b"Z"),
)


def _tar(members: list[tuple[str, bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind, size in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, size, "../escaped"
            with suppress(ValueError, UnicodeError):
                archive.addfile(member, io.BytesIO(b"x" * size))
    return buffer.getvalue()


@cache
def _archives() -> Files:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("good/first.txt", "hello" * 50)
        archive.writestr("good/second.txt", "there")
    return {
        "archive.tar.gz": _tar([("good/first.txt", tarfile.REGTYPE, 500), ("good/second.txt", tarfile.REGTYPE, 5)]),
        "archive.zip": buffer.getvalue(),
    }


def _forge_archive(name: str, content: bytes, trial: Trial) -> bytes:
    """Members that climb out, link, or are no files."""
    hostile = trial.one_of(CLIMBING)
    hostile = f"{trial.directory}{ABSOLUTE}" if hostile == ABSOLUTE else hostile
    if name.endswith(".tar.gz"):
        if trial.rng.random() < 0.3:
            return gzip.compress(damaged(gzip.decompress(content), trial.rng), mtime=0)
        return _tar([("good/first.txt", tarfile.REGTYPE, 5), (hostile, trial.one_of(KINDS_OF_MEMBERS), 3)])
    buffer = io.BytesIO(content)
    with suppress(ValueError, UnicodeError, struct.error), zipfile.ZipFile(buffer, "a") as archive:
        member = zipfile.ZipInfo(hostile or "x")
        member.external_attr = trial.one_of((0o100644, 0o120777, 0o010644)) << 16
        archive.writestr(member, "../escaped")
    return buffer.getvalue()


def _unpack(name: str, unpack: Callable[[Path, Path], None], directory: Path) -> None:
    target = directory.parent / UNPACKED
    target.mkdir(parents=True)
    unpack(directory / name, target)
    odd = [path.name for path in target.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
    if odd:
        raise RuntimeError(f"unpacked what is no file: {odd}")


TAR, ZIP = "archive.tar.gz", "archive.zip"
FORMATS = {
    "pictures": Format(
        "a folder of pictures: " + ", ".join(sorted(suffix[1:] for suffix in SUFFIXES)),
        lambda _: _pictures(),
        lambda directory: load(directory, root=_root(directory)),
        _forge_picture,
    ),
    "npz": Format(
        "arrays in a `.npz` file", lambda _: _arrays(), lambda directory: load(directory / "arrays.npz"), _forge_npz
    ),
    "graphs": Format(
        "graphs as files of the TU collection",
        _graph_files,
        lambda directory: load_graphs(directory, root=_root(directory)),
        _replace_number,
    ),
    "tar": Format("tar archives", lambda _: {TAR: _archives()[TAR]}, partial(_unpack, TAR, unpack_tar), _forge_archive),
    "zip": Format("zip archives", lambda _: {ZIP: _archives()[ZIP]}, partial(_unpack, ZIP, unpack_zip), _forge_archive),
}

KINDS = tuple(
    Kind(f"mutate-{name}", "mutated data", kind.about, partial(mutate, kind), 3) for name, kind in FORMATS.items()
)
