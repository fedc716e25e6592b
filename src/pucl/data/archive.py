"""Unpack an archive that nobody vouches for: only plain files, and only below the directory that is meant."""

import gzip
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from pucl.data.images import DataError

CHUNK = 1 << 20


def unpack(archive: Path, directory: Path) -> None:
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
                _check(member, archive)
            for member in members:
                target = directory / member.name
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                content = opened.extractfile(member)
                if content is None:
                    raise DataError(f"{archive}: {member.name} has no content")
                with content, target.open("wb") as file:
                    shutil.copyfileobj(content, file)
            while opened.fileobj.read(CHUNK):
                pass  # To the end, where the check sum of the packing is.
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{archive} is no tar archive, or is cut off: {error}") from error


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path, foreign = PurePosixPath(member.name), PureWindowsPath(member.name)
    if path.is_absolute() or foreign.is_absolute() or foreign.drive or ".." in (*path.parts, *foreign.parts):
        raise DataError(f"{archive} would write outside of its directory, to {member.name!r}; nothing was unpacked")
    if not (member.isreg() or member.isdir()):
        raise DataError(
            f"{archive} holds a link or device, {member.name!r}, which data has no need of; nothing unpacked"
        )
