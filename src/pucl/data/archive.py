"""Unpack an archive that nobody vouches for: only plain files, only below the target directory, and not too much."""

import errno
import gzip
import io
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from pucl.data.errors import DataError, reason_of
from pucl.data.unpacking import check_unpacked, most_unpacked, too_large

CHUNK = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
MOST_MEMBERS = 100_000
MOST_LEVELS = 50  # Of directories in each other: Python makes and deletes them recursively.
LONGEST_NAME = 255  # Bytes of a file name on the usual file systems.
SHOWN = 80  # Characters of a name that an error shows.
BAD_NAMES = {errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ}
"""What the system says of names that it does not take, e.g. ``CON`` on Windows."""


def unpack_tar(archive: Path, directory: Path) -> None:
    """Unpack a tar archive into a directory.

    All members are checked before anything is written. Absolute paths, paths that climb out (``..``), links, devices,
    two members of one name and files that are directories too are refused, whatever the Python version would do with
    them. What it unpacks to is bounded, see `pucl.data.unpacking.most_unpacked`.

    Args:
        archive: A tar file, plain or packed with gzip.
        directory: Where to; on an error it may hold a part, so give one that is deleted then.
    """
    with _reading(archive, "tar"), _tar_stream(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as opened:
        members = _Members(archive)
        for member in opened:
            members.add(member.name, member.size, directory=member.isdir(), plain=member.isreg() or member.isdir())
        members.check_conflicts()
        for member in opened.getmembers():
            content = opened.extractfile(member) if member.isreg() else None
            _write(archive, member.name, content, directory)
        while stream.read(CHUNK):
            pass  # To the end, where the check sum of the packing is.


def unpack_zip(archive: Path, directory: Path) -> None:
    """Unpack a zip archive into a directory, with the same checks as `unpack_tar`.

    Args:
        archive: The zip file.
        directory: Where to; on an error it may hold a part, so give one that is deleted then.
    """
    with open_zip(archive) as opened:
        members = _Members(archive)
        for member in opened.infolist():
            link = stat.S_ISLNK(member.external_attr >> 16)
            members.add(member.filename, member.file_size, directory=member.is_dir(), plain=not link)
        members.check_conflicts()
        for member in opened.infolist():
            _write(archive, member.filename, None if member.is_dir() else opened.open(member), directory)


@contextmanager
def open_zip(archive: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive that does not unpack to too much; what is wrong with it is a DataError, also inside the block."""
    with _reading(archive, "zip"), zipfile.ZipFile(archive) as opened:
        check_unpacked(archive, sum(member.file_size for member in opened.infolist()))
        yield opened


@contextmanager
def _reading(archive: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # A hostile or cut archive may fail in any way, and all mean the same,
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # unless the disk does not answer.
            raise  # (EINVAL is from an offset below 0.)
        raise DataError(f"{archive} is no {kind} archive, or is cut off: {reason_of(error)}") from error


@contextmanager
def _tar_stream(archive: Path) -> Iterator["_Bounded"]:
    with archive.open("rb") as file:
        packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        file.seek(0)
        if not packed:
            yield _Bounded(archive, file)
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield _Bounded(archive, unpacked)


class _Bounded(io.RawIOBase):
    """A stream that refuses to be read beyond what its file may unpack to: headers of a tar can be large as well."""

    def __init__(self, archive: Path, stream: io.BufferedReader | gzip.GzipFile) -> None:
        super().__init__()
        self._archive, self._stream, self._limit = archive, stream, most_unpacked(archive)

    def read(self, size: int = -1) -> bytes:
        left = self._limit - self._stream.tell()
        if size < 0 or size > left:
            size = left + 1
        content = self._stream.read(size)
        if len(content) > left:
            raise too_large(self._archive, self._limit, "more")
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET and offset > self._limit:
            raise too_large(self._archive, self._limit, "more")
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


class _Members:
    """The members of an archive, each checked when it is added."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._size = self._count = 0
        self._files: set[PurePosixPath] = set()
        self._directories: set[PurePosixPath] = set()

    def add(self, name: str, size: int, *, directory: bool, plain: bool) -> None:
        """Refuse a member that is not a plain file or directory below the target, or is there already."""
        path = self._checked(name)
        if not path.parts and not directory:
            raise DataError(f"{self._archive} holds a file without a name, {_shown(name)}; nothing was unpacked")
        if not plain:
            raise DataError(
                f"{self._archive} holds a link or device, {_shown(name)}, which data has no need of; nothing unpacked"
            )
        if size < 0:
            raise DataError(f"{self._archive} is damaged: {_shown(name)} has a size below 0; nothing was unpacked")
        self._size += size
        self._count += 1
        check_unpacked(self._archive, self._size)
        if self._count > MOST_MEMBERS:
            raise DataError(
                f"{self._archive} holds too many files: expected at most {MOST_MEMBERS:,}; nothing was unpacked"
            )
        if directory:
            self._directories.add(path)
        elif path in self._files:
            raise DataError(f"{self._archive} holds {_shown(name)} twice; nothing was unpacked")
        else:
            self._files.add(path)
        self._directories.update(path.parents)

    def check_conflicts(self) -> None:
        """Refuse names that are a file and a directory."""
        if both := self._files & self._directories:
            name = _shown(str(min(both)))
            raise DataError(f"{self._archive} holds {name} as a file and as a directory; nothing was unpacked")

    def _checked(self, name: str) -> PurePosixPath:
        path, foreign = PurePosixPath(name), PureWindowsPath(name)
        if path.is_absolute() or foreign.is_absolute() or foreign.drive or ".." in (*path.parts, *foreign.parts):
            raise DataError(
                f"{self._archive} would write outside of its directory, to {_shown(name)}; nothing was unpacked"
            )
        if wrong := _wrong_name(path, name):
            raise DataError(f"{self._archive} holds a name {wrong}, {_shown(name)}; nothing was unpacked")
        return path


def _wrong_name(path: PurePosixPath, name: str) -> str | None:
    """What is wrong with the name of a member; None if it can be the name of a file."""
    if "\0" in name:
        return "with a null character"
    if len(path.parts) > MOST_LEVELS:
        return f"of {len(path.parts)} levels where at most {MOST_LEVELS} are allowed"
    longest = max((len(part.encode(errors="surrogatepass")) for part in path.parts), default=0)
    if longest > LONGEST_NAME:
        return f"of {longest} bytes where at most {LONGEST_NAME} are allowed"
    return None


def _write(archive: Path, name: str, content: IO[bytes] | io.BufferedIOBase | None, directory: Path) -> None:
    """Write a file, or make a directory where there is no content."""
    target = directory / name
    try:
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with content, target.open("wb") as file:
            shutil.copyfileobj(content, file, CHUNK)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno not in BAD_NAMES:
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{archive}: {_shown(name)} cannot be the name of a file here: {reason}") from error


def _shown(name: str) -> str:
    return ascii(name if len(name) <= SHOWN else f"{name[:SHOWN]}...")
