"""Unpack archives from untrusted sources: plain files only, inside the target directory only, of limited size."""

import errno
import gzip
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from pucl.data.errors import DataError, reason_of
from pucl.data.unpacking import check_unpacked, most_unpacked, too_large

CHUNK = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
MOST_MEMBERS = 100_000
MOST_LEVELS = 50  # Nested directories; Python deletes them recursively.
SHOWN = 80  # Characters of a name that an error shows.
BAD_NAMES = (errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EILSEQ)
BAD_ARCHIVE = (None, errno.EINVAL, *BAD_NAMES)
"""Errors of the operating system that the archive causes, not the disk. EINVAL: a negative offset, or a bad name."""


def unpack_tar(archive: Path, directory: Path) -> None:
    """Unpack a tar archive, with or without gzip, into a directory.

    All members are checked before a file is written. Absolute paths, paths with ``..``, links, devices and duplicate
    names are refused. The number of unpacked bytes is limited; see `pucl.data.unpacking.most_unpacked`. After an error
    the directory may hold some of the files, so delete it then.
    """
    with _reading(archive, "tar"):
        with archive.open("rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        if packed:
            _check_gzip(archive)
        with tarfile.open(archive, "r:gz" if packed else "r:") as opened:
            _check_members(
                archive,
                (_Member(each.name, each.size, each.isdir(), each.isreg() or each.isdir()) for each in opened),
            )
            opened.extractall(directory, filter="data")


def unpack_zip(archive: Path, directory: Path) -> None:
    """Unpack a zip archive into a directory, with the same checks as `unpack_tar`."""
    with open_zip(archive) as opened:
        _check_members(
            archive,
            (
                _Member(each.filename, each.file_size, each.is_dir(), not stat.S_ISLNK(each.external_attr >> 16))
                for each in opened.infolist()
            ),
        )
        opened.extractall(directory)  # noqa: S202 - All members were checked.


@contextmanager
def open_zip(archive: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive of limited size. A damaged archive raises DataError, also inside the block."""
    with _reading(archive, "zip"), zipfile.ZipFile(archive) as opened:
        check_unpacked(archive, sum(member.file_size for member in opened.infolist()))
        yield opened


@contextmanager
def _reading(archive: Path, form: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # A damaged or hostile archive may raise any exception.
        if isinstance(error, OSError) and error.errno not in BAD_ARCHIVE:
            raise
        if isinstance(error, OSError) and error.errno in BAD_NAMES:
            name = _shown(str(error.filename or ""))
            raise DataError(f"{archive}: {name} cannot be the name of a file here: {error.strerror}") from error
        raise DataError(f"{archive} is no {form} archive, or is cut off: {reason_of(error)}") from error


def _check_gzip(archive: Path) -> None:
    """Read a packed file to its end: too many bytes are refused, and gzip compares its checksum."""
    limit, total = most_unpacked(archive), 0
    with gzip.open(archive) as unpacked:
        while chunk := unpacked.read(CHUNK):
            total += len(chunk)
            if total > limit:
                raise too_large(archive, limit, "more")


class _Member(NamedTuple):
    """A member of an archive; plain: a file or directory, no link or device."""

    name: str
    size: int
    is_directory: bool
    is_plain: bool


def _check_members(archive: Path, members: Iterable[_Member]) -> None:
    """Refuse the whole archive if one of its members is refused."""
    total, files = 0, set[PurePosixPath]()
    for count, member in enumerate(members, 1):
        path, name = PurePosixPath(member.name), _shown(member.name)
        if _leaves_directory(member.name):
            raise DataError(f"{archive} would write outside of its directory, to {name}; nothing was unpacked")
        if not member.is_plain:
            raise DataError(f"{archive} holds a link or device, {name}; nothing was unpacked")
        if member.size < 0:
            raise DataError(f"{archive} is damaged: {name} has a negative size; nothing was unpacked")
        if count > MOST_MEMBERS:
            raise DataError(f"{archive} holds too many files: expected at most {MOST_MEMBERS:,}; nothing was unpacked")
        if len(path.parts) > MOST_LEVELS:
            raise DataError(
                f"{archive} holds a path of {len(path.parts)} levels, {name}: expected at most {MOST_LEVELS}; nothing "
                "was unpacked"
            )
        if not member.is_directory:
            if not path.parts:
                raise DataError(f"{archive} holds a file without a name, {name}; nothing was unpacked")
            if path in files:
                raise DataError(f"{archive} holds {name} twice; nothing was unpacked")
            files.add(path)
        total += member.size
        check_unpacked(archive, total)


def _leaves_directory(name: str) -> bool:
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    absolute = posix.is_absolute() or windows.is_absolute() or bool(windows.drive)
    return absolute or ".." in (*posix.parts, *windows.parts)


def _shown(name: str) -> str:
    return ascii(name if len(name) <= SHOWN else f"{name[:SHOWN]}...")
