"""Fetch a file over the network: with progress, going on where it broke off, and visible only once it is right."""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pucl.data.archive import open_zip
from pucl.data.errors import DataError, reason_of
from pucl.progress import Progress

CHUNK = 1 << 18
PATIENCE = 30.0  # Seconds without a byte after which a host counts as silent.
NOT_SATISFIABLE = 416  # The part that we have is as long as the file, or longer.


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file at its official address, and the md5 sum by which it is known."""

    url: str
    md5: str

    @property
    def file(self) -> str:
        """Its name."""
        return self.url.rpartition("/")[2]


class UnreachableError(DataError):
    """The host does not answer, does not have the file, or breaks off."""


def fetch(download: Download, directory: Path) -> Path:
    """Download a file into a directory and check its sum.

    It grows as ``NAME.part``, which stays when the connection breaks, and the next call asks for the rest only. Once
    the md5 sum is right it becomes ``NAME``; if it is wrong, the part is deleted.

    Args:
        download: What to fetch.
        directory: Where to.
    """
    target = directory / download.file
    if target.is_file() and md5_of_file(target) == download.md5:
        return target

    def wrong(part: Path) -> str | None:
        found = md5_of_file(part)
        return None if found == download.md5 else f"not the official file: expected md5 {download.md5}, got {found}"

    return _receive(download.url, target, wrong)


def fetch_zip(url: str, directory: Path) -> Path:
    """Download a zip archive for which no sum is published, and check it by those that it has inside.

    It grows and goes on like `fetch`'s files, and is kept once the CRC-32 of every file in it is right.

    Args:
        url: Its address, http or https.
        directory: Where to.
    """

    def wrong(part: Path) -> str | None:
        try:
            with open_zip(part) as opened:
                damaged = opened.testzip()
        except DataError as error:
            damaged = reason_of(error.__cause__) if error.__cause__ else str(error)
        return None if damaged is None else f"no zip archive, or is damaged: {damaged}"

    return _receive(url, directory / url.rpartition("/")[2], wrong)


def md5_of_file(path: Path) -> str:
    """The md5 sum of a file of any length."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _receive(url: str, target: Path, wrong: Callable[[Path], str | None]) -> Path:
    """Download to the target, which appears once nothing is wrong with it."""
    if not url.startswith(("http://", "https://")):
        raise DataError(f"downloads are over http or https, got {url}")
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive_part(url, part)
    except urllib.error.HTTPError as error:
        with error:
            raise UnreachableError(f"{url}: the host answers {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"{url} cannot be reached: {reason}") from error
    if fault := wrong(part):
        length = part.stat().st_size
        part.unlink()
        raise DataError(f"{url} is {fault} ({length:,} bytes); it was thrown away, and the next try begins anew")
    part.replace(target)
    return target


def _receive_part(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "pucl"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - The caller admits http(s) alone.
    try:
        response = urllib.request.urlopen(request, timeout=PATIENCE)  # noqa: S310
    except urllib.error.HTTPError as error:
        if not (have and error.code == NOT_SATISFIABLE):
            raise
        error.close()
        return  # Nothing is left to ask for; the sum will tell whether it is right.
    with response:
        goes_on = response.status == http.HTTPStatus.PARTIAL_CONTENT and _first_byte(response) == have
        if not goes_on and response.status == http.HTTPStatus.PARTIAL_CONTENT:
            raise http.client.HTTPException(f"asked for bytes from {have}, got {response.headers['Content-Range']!r}")
        have = have if goes_on else 0  # A host that cannot go on sends all of it again.
        length = response.headers["Content-Length"]
        total = have + int(length) if length and length.isdigit() else 0
        with part.open("ab" if goes_on else "wb") as file:
            done = _copy(response, file, have, total, Progress(f"pucl data: fetching {part.stem}", "MB", 1e6))
    if done < total:
        raise http.client.HTTPException(
            f"it broke off after {done:,} of {total:,} bytes; the same command goes on from there"
        )


def _first_byte(response: Any) -> int | None:
    """Where the body begins in the file, from ``Content-Range: bytes FIRST-LAST/TOTAL``."""
    first = str(response.headers["Content-Range"] or "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdigit() else None


def _copy(response: Any, file: IO[bytes], have: int, total: int, progress: Progress) -> int:
    done = have
    try:
        progress(done, total)
        while chunk := response.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            progress(done, total)
    except http.client.IncompleteRead as error:
        file.write(error.partial)
        done += len(error.partial)
    finally:
        progress.close()
    return done
