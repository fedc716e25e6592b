"""Unpack an archive that nobody vouches for: only plain files, and only below the directory that is meant."""

import gzip
import shutil
import stat
import tarfile
import zipfile
import zlib
from io import BufferedWriter
from pathlib import Path, PurePosixPath, PureWindowsPath

from pucl.data.images import DataError

CHUNK = 1 << 20


def unpack_tar(archive: Path, directory: Path) -> None:
    """Unpack a tar archive into a directory.

    All names are looked at before anything is written: absolute paths, paths that climb out (``..``), links and
    devices are refused, whatever the Python version would make of them.

    Args:
        archive: A tar file, packed or not.
        directory: Where to; on an error it may hold a part, so give one that is thrown away then.
    """
    try:
        with tarfile.open(archive) as opened:
            members = opened.getmembers()
            for member in members:
                _check(archive, member.name, plain=member.isreg() or member.isdir())
            for member in members:
                if member.isdir():
                    (directory / member.name).mkdir(parents=True, exist_ok=True)
                    continue
                content = opened.extractfile(member)
                if content is None:
                    raise DataError(f"{archive}: {member.name} has no content")
                with content, _open_new(directory / member.name) as file:
                    shutil.copyfileobj(content, file)
            while opened.fileobj.read(CHUNK):
                pass  # To the end, where the check sum of the packing is.
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{archive} is no tar archive, or is cut off: {error}") from error


def unpack_zip(archive: Path, directory: Path) -> None:
    """Unpack a zip archive into a directory, with the same suspicion.

    Args:
        archive: The zip file.
        directory: Where to; on an error it may hold a part, so give one that is thrown away then.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            for member in members:
                _check(archive, member.filename, plain=not stat.S_ISLNK(member.external_attr >> 16))
            for member in members:
                if member.is_dir():
                    (directory / member.filename).mkdir(parents=True, exist_ok=True)
                    continue
                with opened.open(member) as content, _open_new(directory / member.filename) as file:
                    shutil.copyfileobj(content, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{archive} is no zip archive, or is cut off: {error}") from error


def _open_new(target: Path) -> BufferedWriter:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.open("wb")


def _check(archive: Path, name: str, *, plain: bool) -> None:
    """Refuse what would be written elsewhere, and what is neither a plain file nor a directory."""
    path, foreign = PurePosixPath(name), PureWindowsPath(name)
    if path.is_absolute() or foreign.is_absolute() or foreign.drive or ".." in (*path.parts, *foreign.parts):
        raise DataError(f"{archive} would write outside of its directory, to {name!r}; nothing was unpacked")
    if not plain:
        raise DataError(f"{archive} holds a link or device, {name!r}, which data has no need of; nothing unpacked")
