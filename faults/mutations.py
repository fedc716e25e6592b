"""Data files with wrong bytes in them, and such as somebody made to do harm: read, or refused with a sentence."""

import gzip
import io
import json
import pickle
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

import pucl
from faults.attempt import attempt
from faults.damage import damaged
from faults.trial import PATIENCE, Kind, Outcome, Trial, Workspace, judge_reading
from faults.victims import few_graphs, finished_run
from pucl.data.archive import unpack_tar, unpack_zip
from pucl.graphs.registry import load_graphs
from pucl.images.registry import load
from pucl.images.source import Form, Found
from pucl.images.sources import cifar, fashion, stl10
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
    read: Callable[[Path, Workspace], object]
    forge: Callable[[str, bytes, Trial], bytes]


def mutate(kind: Format, trial: Trial) -> Outcome:
    """Damage one file of a format, and read all of them."""
    files = kind.files(trial.workspace)
    place = trial.place / "data"
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    victim = trial.one_of(sorted(files))
    if trial.rng.random() < 0.4:
        content = kind.forge(victim, files[victim], trial)
    else:
        content = damaged(files[victim], trial.rng)
    (place / victim).write_bytes(content)
    ending = attempt(lambda: kind.read(place, trial.workspace) is None, PATIENCE)
    outcome = judge_reading(ending, [Path(victim).name, str(place)])
    escaped = [path for path in trial.place.parent.rglob("*escaped*") if UNPACKED not in path.as_posix()]
    if escaped:
        return Outcome("failed", f"{victim}: wrote outside of its directory, or ran what it holds: {escaped[0]}")
    return Outcome(outcome.verdict, f"{victim}: {outcome.words}")


def _root(place: Path) -> Path:
    return place.parent / "root"


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
    place = {".gif": 6, ".bmp": 18}.get(Path(name).suffix, int(trial.rng.integers(min(64, len(content)))))
    return content[:place] + struct.pack("<I", side) + content[place + 4 :]


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
        return (trial.workspace.made("bombs", _make_bombs) / "bomb.npz").read_bytes()
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


def _bomb_header() -> bytes:
    header = (
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({BOMB // 192}, 8, 8, 3), }}".ljust(117).encode() + b"\n"
    )
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def _make_bombs(place: Path) -> None:
    """A few megabytes each, that unpack to two gibibytes of black pictures."""
    zeros = bytes(1 << 20)
    with (
        zipfile.ZipFile(place / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("images.npy", "w", force_zip64=True) as member,
        gzip.open(place / "bomb.gz", "wb", compresslevel=1) as packed,
    ):
        member.write(_bomb_header())
        packed.write(bytes((0, 0, 8, 3)) + struct.pack(">3I", BOMB // 784, 28, 28))
        for _ in range(BOMB >> 20):
            member.write(zeros)
            packed.write(zeros)


# Text


def _replace_number(_name: str, content: bytes, trial: Trial) -> bytes:
    """A number of a text file that is another, or none."""
    words = content.decode().split(" ")
    lines = content.decode().splitlines()
    if len(lines) > 1:
        words = lines
    place = int(trial.rng.integers(len(words)))
    fields = words[place].split(",")
    fields[int(trial.rng.integers(len(fields)))] = trial.one_of(NUMBERS)
    words[place] = ",".join(fields)
    return ("\n" if len(lines) > 1 else " ").join(words).encode()


def _graph_files(workspace: Workspace) -> Files:
    return {file.name: file.read_bytes() for file in few_graphs(workspace).iterdir()}


# Known data sets


@cache
def _batches() -> Files:
    rows = np.random.default_rng(4).integers(0, 256, (2, 3072), dtype=np.uint8)
    batch = {b"data": rows, b"labels": [1, 2], b"filenames": [b"a.png", b"b.png"]}
    return {name: pickle.dumps(batch, protocol=2) for name in cifar.OFFICIAL_10.files if "meta" not in name} | {
        name: pickle.dumps({b"label_names": list(cifar.CIFAR10_CLASSES)}, protocol=2)
        for name in cifar.OFFICIAL_10.files
        if "meta" in name
    }


def _forge_pickle(_name: str, _content: bytes, trial: Trial) -> bytes:
    """Pickles that would run something, nest without end, or ask for much memory."""
    run = b"cos\nsystem\n(S'touch " + str(trial.place / "escaped").encode() + b"'\ntR."
    length = b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x."
    memo = (b"\x80\x02r\xff\xff\xff\x7f.", b"}r\xff\xff\xff\x0f.")  # Places in the memo that are far away.
    deep = (b"(" * 100_000 + b".", b"]" * 100_000 + b"a" * 99_999 + b".")
    labels = trial.one_of(([], None, [1, "2"], [10**30, 1], [-5, 99]))
    batch = {b"data": np.zeros((2, trial.one_of((0, 3, 3071)))), b"labels": labels}
    odd = trial.one_of(([], 1, None, {1: 2}, {b"\xff": 1}, {b"data": 3, b"labels": []}, {b"data": np.zeros(3, object)}))
    forged: bytes = trial.one_of(
        (run, length, *memo, *deep, *(pickle.dumps(each, protocol=2) for each in (batch, odd)))
    )
    return forged


@cache
def _sheets() -> Files:
    files: Files = {}
    for name in cifar.SHEETS_10.files:
        buffer = io.BytesIO()
        if name.endswith(".png"):
            Image.fromarray(np.random.default_rng(5).integers(0, 256, (2, 1024, 3), dtype=np.uint8)).save(buffer, "PNG")
        count = 2 if "test" in name else 2 * len(cifar.SHEETS)
        files[name] = buffer.getvalue() or json.dumps([1, 2] * (count // 2)).encode()
    return files


def _forge_sheet(name: str, content: bytes, trial: Trial) -> bytes:
    whole = ('{"a": 1}', "[1.5, 2]", "[true, 1]", "[1e400]", "[" * 100_000, "null", "[99, -1]", '["1", 2]')
    labels: str = trial.one_of((*whole, f"[{'9' * 5000}, 1]"))
    return labels.encode() if name.endswith(".json") else _forge_picture(name, content, trial)


STL10_PICTURES = {"train_X.bin": 10, "unlabeled_X.bin": 2, "test_X.bin": 2}


@cache
def _stl10() -> Files:
    rng = np.random.default_rng(6)
    files = {name: rng.bytes(count * stl10.PICTURE) for name, count in STL10_PICTURES.items()}
    files |= {"train_y.bin": bytes(range(1, 11)), "test_y.bin": bytes((1, 2))}
    return files | {"fold_indices.txt": b"\n".join(b"0 1 2 3" for _ in range(10))}


def _forge_stl10(name: str, content: bytes, trial: Trial) -> bytes:
    if name.endswith(".txt"):
        return _replace_number(name, content, trial)
    return content[: int(trial.rng.integers(len(content)))] + trial.rng.bytes(int(trial.rng.integers(4)))


@cache
def _fashion() -> Files:
    rng = np.random.default_rng(7)
    shapes = {name: (4, 28, 28) if "images" in name else (4,) for name in fashion.FILES}
    return {f"{name}.gz": gzip.compress(_idx(shape, rng), mtime=0) for name, shape in shapes.items()}


def _idx(shape: tuple[int, ...], rng: np.random.Generator) -> bytes:
    body = rng.integers(0, 10, shape, dtype=np.uint8).tobytes()
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + body


def _forge_idx(_name: str, content: bytes, trial: Trial) -> bytes:
    """Damage under the packing, a bomb, or headers that lie."""
    if trial.rng.random() < BOMBS:
        return (trial.workspace.made("bombs", _make_bombs) / "bomb.gz").read_bytes()
    inside = damaged(gzip.decompress(content), trial.rng)
    tail: bytes = trial.one_of((b"", b"", b"\x00" * 9, b"tail"))
    return gzip.compress(inside, mtime=0) + tail


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
    hostile = f"{trial.place}{ABSOLUTE}" if hostile == ABSOLUTE else hostile
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


def _unpack(name: str, unpack: Callable[[Path, Path], None], place: Path, _workspace: Workspace) -> None:
    target = place.parent / UNPACKED
    target.mkdir(parents=True)
    unpack(place / name, target)
    odd = [path.name for path in target.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
    if odd:
        raise RuntimeError(f"unpacked what is no file: {odd}")


# Encoders


def _encoder(workspace: Workspace) -> Files:
    return {"encoder.safetensors": (finished_run(workspace, "infograph") / "encoder.safetensors").read_bytes()}


def _forge_safetensors(_name: str, content: bytes, trial: Trial) -> bytes:
    """A header that lies about lengths, types and places."""
    length = struct.unpack("<Q", content[:8])[0]
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    entry = header[trial.one_of([name for name in header if name != "__metadata__"])]
    field = trial.one_of(sorted(entry))
    entry[field] = trial.one_of(
        ([-1], [2**62, 4], [0, 2**63], "F64", "F8_E4M3", [], None, {}, [len(body), 2 * len(body)], [0, 4])
    )
    text = json.dumps(header).encode()
    return struct.pack("<Q", trial.one_of((len(text), len(text), 2**62, 0, len(text) + 1))) + text + body


def _found(place: Path, form: Form, size: int | None = None) -> Found:
    return Found(directory=place, form=form, cache=_root(place), image_size=size)


TAR, ZIP = "archive.tar.gz", "archive.zip"
FORMATS = {
    "pictures": Format(
        "a folder of pictures: " + ", ".join(sorted(suffix[1:] for suffix in SUFFIXES)),
        lambda _: _pictures(),
        lambda place, _: load(place, root=_root(place)),
        _forge_picture,
    ),
    "npz": Format(
        "arrays in a `.npz` file", lambda _: _arrays(), lambda place, _: load(place / "arrays.npz"), _forge_npz
    ),
    "graphs": Format(
        "graphs as files of the TU collection",
        _graph_files,
        lambda place, _: load_graphs(place, root=_root(place)),
        _replace_number,
    ),
    "cifar": Format(
        "CIFAR's pickles, as if their sums were right",
        lambda _: _batches(),
        lambda place, _: cifar.read_cifar10(_found(place, cifar.OFFICIAL_10), None),
        _forge_pickle,
    ),
    "sheets": Format(
        "CIFAR as PNG sheets and JSON, as if their sums were right",
        lambda _: _sheets(),
        lambda place, _: cifar.read_cifar10(_found(place, cifar.SHEETS_10), None),
        _forge_sheet,
    ),
    "stl10": Format(
        "STL10's binaries",
        lambda _: _stl10(),
        lambda place, _: stl10.read_stl10(_found(place, stl10.OFFICIAL, 8), STL10_PICTURES),
        _forge_stl10,
    ),
    "fashion": Format(
        "Fashion-MNIST's packed idx files",
        lambda _: _fashion(),
        lambda place, _: fashion.read_fashion(_found(place, fashion.PACKED)),
        _forge_idx,
    ),
    "tar": Format("tar archives", lambda _: {TAR: _archives()[TAR]}, partial(_unpack, TAR, unpack_tar), _forge_archive),
    "zip": Format("zip archives", lambda _: {ZIP: _archives()[ZIP]}, partial(_unpack, ZIP, unpack_zip), _forge_archive),
    "safetensors": Format(
        "an encoder's file, through `pucl.load`",
        _encoder,
        lambda place, _: pucl.load(place / "encoder.safetensors"),
        _forge_safetensors,
    ),
}

KINDS = tuple(
    Kind(f"mutate-{name}", "mutated data", kind.about, partial(mutate, kind), 3) for name, kind in FORMATS.items()
)
