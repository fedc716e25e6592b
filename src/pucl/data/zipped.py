"""Archives of the zip kind: fetched where no sum is published, and unpacked with the same suspicion as others."""

import http.client
import shutil
import stat
import urllib.error
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from pucl.data.download import UnreachableError, _receive
from pucl.data.images import DataError


def fetch_zip(url: str, directory: Path) -> Path:
    """Download a zip archive for which no sum is published, and check it by the sums that it has inside.

    It grows as ``NAME.part``, which stays when the connection breaks, and the next call asks for the rest only. Once
    the CRC-32 of every file in it is right it becomes ``NAME``; if one is wrong, the part is deleted.

    Args:
        url: Its address, http or https.
        directory: Where to.
    """
    if not url.startswith(("http://", "https://")):
        raise DataError(f"downloads are over http or https, got {url}")
    target = directory / url.rpartition("/")[2]
    part = target.with_name(f"{target.name}.part")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        _receive(url, part)
    except urllib.error.HTTPError as error:
        with error:
            raise UnreachableError(f"{url}: the host answers {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"{url} cannot be reached: {reason}") from error
    try:
        with zipfile.ZipFile(part) as opened:
            damaged = opened.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        damaged = str(error)
    if damaged is not None:
        length = part.stat().st_size
        part.unlink()
        raise DataError(
            f"{url} is no zip archive, or is damaged ({damaged}; {length:,} bytes); it was thrown away, and the next "
            "try begins anew"
        )
    part.replace(target)
    return target


def unpack_zip(archive: Path, directory: Path) -> None:
    """Unpack a zip archive into a directory.

    All names are looked at before anything is written: absolute paths, paths that climb out (``..``) and links are
    refused.

    Args:
        archive: The zip file.
        directory: Where to; on an error it may hold a part, so give one that is thrown away then.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            for member in members:
                _check(member, archive)
            for member in members:
                target = directory / member.filename
                if member.is_dir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(member) as content, target.open("wb") as file:
                    shutil.copyfileobj(content, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{archive} is no zip archive, or is cut off: {error}") from error


def _check(member: zipfile.ZipInfo, archive: Path) -> None:
    path, foreign = PurePosixPath(member.filename), PureWindowsPath(member.filename)
    if path.is_absolute() or foreign.is_absolute() or foreign.drive or ".." in (*path.parts, *foreign.parts):
        raise DataError(f"{archive} would write outside of its directory, to {member.filename!r}; nothing was unpacked")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DataError(f"{archive} holds a link, {member.filename!r}, which data has no need of; nothing unpacked")
