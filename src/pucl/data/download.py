"""Download files: with progress, resumable, and visible under their names only after they were checked."""

import contextlib
import hashlib
import http.client
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from pucl.data.archive import open_zip
from pucl.data.errors import DataError, reason_of
from pucl.progress import Progress

CHUNK = 1 << 18
TIMEOUT = 30.0  # Seconds without a byte.
NOT_SATISFIABLE = 416  # The part on disk is as long as the file, or longer.


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file at its official address.

    Args:
        url: Its address, http or https.
        md5: Its MD5 sum. Without this or `sha256`, the file is a zip archive, which is checked by the sums inside it.
        sha256: Its SHA-256 sum.
    """

    url: str
    md5: str | None = None
    sha256: str | None = None

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]


class UnreachableError(DataError):
    """The host does not answer, does not have the file, or closes the connection too early."""


def fetch(download: Download, directory: Path) -> Path:
    """Download a file and check it.

    It is written to ``NAME.part`` in the directory. If the connection breaks, this file is kept and the next call asks
    for the rest only. A correct file is renamed to ``NAME``; a wrong one is deleted.
    """
    target = directory / download.file
    if target.is_file() and fault_of(target, download) is None:
        return target
    if not download.url.startswith(("http://", "https://")):
        raise DataError(f"downloads are over http or https, got {download.url}")
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive(download.url, part)
    except urllib.error.HTTPError as error:
        with error:
            raise UnreachableError(f"{download.url}: the host answers {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"{download.url} cannot be reached: {reason}") from error
    if fault := fault_of(part, download):
        length = part.stat().st_size
        part.unlink()
        raise DataError(f"{download.url} is {fault} ({length:,} bytes); the file was deleted, so try again")
    part.replace(target)
    return target


def fault_of(path: Path, download: Download) -> str | None:
    """Say what is wrong with a downloaded file; None if it is correct."""
    for algorithm, expected in (("sha256", download.sha256), ("md5", download.md5)):
        if expected is not None:
            found = sum_of_file(path, algorithm)
            return None if found == expected else f"not the official file: expected {algorithm} {expected}, got {found}"
    try:
        with open_zip(path) as opened:
            damaged = opened.testzip()  # The first file whose CRC-32 is wrong.
    except DataError as error:
        damaged = reason_of(error.__cause__) if error.__cause__ else str(error)
    return None if damaged is None else f"no zip archive, or is damaged: {damaged}"


def sum_of_file(path: Path, algorithm: str = "md5") -> str:
    """The MD5 or SHA-256 sum of a file. MD5 detects damage; it is no protection against an attacker."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _receive(url: str, part: Path) -> None:
    """Append what is missing of a file, or write all of it if the host cannot send a part."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "pucl"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - The caller checks that it is http or https.
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if not (have and error.code == NOT_SATISFIABLE):
            raise
        error.close()
        return  # Nothing is missing; the caller checks the sum.
    with response:
        rest, resumed = response.headers["Content-Range"], response.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and not str(rest).startswith(f"bytes {have}-"):
            raise http.client.HTTPException(f"asked for bytes from {have}, got {rest!r}")
        done = have if resumed else 0  # Otherwise the host sends all of it again.
        length = response.headers["Content-Length"]
        total = done + int(length) if length and length.isdigit() else 0
        progress = Progress(f"pucl data: fetching {part.stem}", "MB", 1e6)
        with part.open("ab" if resumed else "wb") as file, contextlib.closing(progress):
            try:
                progress(done, total)
                while chunk := response.read(CHUNK):
                    done += file.write(chunk)
                    progress(done, total)
            except http.client.IncompleteRead as error:
                done += file.write(error.partial)
    if done < total:
        raise http.client.HTTPException(
            f"the connection broke after {done:,} of {total:,} bytes; run the same command to continue"
        )
