"""Files that appear whole or not at all."""

import errno
import io
import json
import os
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than is allowed here",
}
"""By the number of an error: why there is no room for a file."""


class DiskFullError(OSError):
    """There is no room for a file. The message has the file, the size that it needs and what is free."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write to a temporary file and rename it in one step, so that nobody ever finds a part of it.

    Where there is no room for it, the earlier file is kept and a `DiskFullError` is raised.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    raw: _Part | None = None
    try:
        with _Part(part) as raw, io.BufferedWriter(raw) as file:
            yield file
            file.flush()
            raw.finish()
        part.replace(path)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        part.unlink(missing_ok=True)  # Before the free space is measured.
        raise DiskFullError(_no_room(path, error, None if raw is None else raw.size)) from error
    finally:
        part.unlink(missing_ok=True)


class _Part(io.RawIOBase):
    """A temporary file. Once the disk is full it only counts, so that the size that was needed is known in the end.

    Writers that meet an error themselves report it badly: torch.save ends in a RuntimeError about positions.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._full: OSError | None = None
        self._position = 0
        self.size = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        written = len(view)
        if self._full is None:
            try:
                written = self._file.write(view)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._full = error
                self._file.truncate(0)  # It is of no use any more, and other processes need the room.
        self._position += written
        self.size = max(self.size, self._position)
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = self._file.seek(start + offset)
        return self._position

    def finish(self) -> None:
        """Bring everything to the disk, or raise the error that stopped it."""
        if self._full is not None:
            raise self._full
        os.fsync(self._file.fileno())  # Otherwise a power cut could leave the new name on an empty file.

    def close(self) -> None:
        self._file.close()
        super().close()


def _no_room(path: Path, error: OSError, needed: int | None) -> str:
    """Why a file cannot be saved, in one sentence."""
    facts = [] if needed is None else [f"it needs {_megabytes(needed)}"]
    if error.errno == errno.EFBIG:
        facts.append(f"the limit (ulimit -f) is {_megabytes(resource.getrlimit(resource.RLIMIT_FSIZE)[0])}")
    else:
        with suppress(OSError):
            facts.append(f"{_megabytes(shutil.disk_usage(path.parent).free)} are free in {path.parent}")
    kept = "the earlier file is kept; " if path.exists() else ""
    reason = NO_ROOM[error.errno or errno.ENOSPC]
    return f"{path} cannot be saved because {reason}: {', '.join(facts)}; {kept}make room and try again"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.3f} MB"


def left_parts(directory: Path) -> list[Path]:
    """Temporary files of killed or running writers."""
    return list(directory.glob(".*.part"))


def check_folder(option: str, file: Path | None) -> None:
    """Refuse a file in a folder that is not there, before any work is done for it."""
    if file is not None and not file.parent.is_dir():
        raise ValueError(f"{option} is a file to write: expected one in a folder that is there, got {file}")


def write_whole(path: Path, content: bytes) -> None:
    """Write this, whole or not at all."""
    with whole_file(path) as file:
        file.write(content)


def write_json(path: Path, record: Mapping[str, object]) -> None:
    """Write a record for people to read too: indented, but each list of numbers on one line."""
    text = json.dumps(record, indent=2, allow_nan=False)
    # A line break outside of a string is layout, and JSON has none inside of strings.
    text = re.sub(r"\[\n[^\[\]{}]*\]", lambda numbers: re.sub(r"\n\s*", " ", numbers[0]), text)
    write_whole(path, (text + "\n").encode())
