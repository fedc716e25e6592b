"""Files that appear whole or not at all."""

import errno
import json
import os
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than is allowed here",
}
"""By the number of an error: why there is no room for a file."""


class DiskFullError(OSError):
    """There is no room for a file. The message has the file, its size if it is known, and what is free."""


@contextmanager
def whole_file(path: Path, size: int | None = None) -> Iterator[IO[bytes]]:
    """Write to a temporary file and rename it in one step, so that a reader never finds a part of it.

    Args:
        path: The file.
        size: Its size in bytes, if known, for the error.

    Raises:
        DiskFullError: If there is no room for the file. The earlier file is kept.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # Otherwise a power cut could leave the new name on an empty file.
        part.replace(path)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        part.unlink(missing_ok=True)  # Before the free space is measured.
        raise DiskFullError(_no_room(path, error.errno, size)) from error
    finally:
        part.unlink(missing_ok=True)


def _no_room(path: Path, reason: int, needed: int | None) -> str:
    """Why a file cannot be saved, in one sentence."""
    facts = [] if needed is None else [f"it needs {_megabytes(needed)}"]
    if reason == errno.EFBIG:
        facts.append(f"the limit (ulimit -f) is {_megabytes(resource.getrlimit(resource.RLIMIT_FSIZE)[0])}")
    else:
        with suppress(OSError):
            facts.append(f"{_megabytes(shutil.disk_usage(path.parent).free)} are free in {path.parent}")
    kept = "the earlier file is kept; " if path.exists() else ""
    return f"{path} cannot be saved because {NO_ROOM[reason]}: {', '.join(facts)}; {kept}make room and try again"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.3f} MB"


def left_parts(directory: Path) -> list[Path]:
    """Temporary files of killed or running writers."""
    return list(directory.glob(".*.part"))


def check_folder(option: str, file: Path | None) -> None:
    """Refuse a file in a directory that does not exist, before any work is done for it."""
    if file is not None and not file.parent.is_dir():
        raise ValueError(f"{option} is a file to write: expected one in an existing directory, got {file}")


def write_whole(path: Path, content: bytes) -> None:
    """Write these bytes, whole or not at all."""
    with whole_file(path, len(content)) as file:
        file.write(content)


def write_json(path: Path, record: Mapping[str, object]) -> None:
    """Write a record for people to read too: indented, but each list of numbers on one line."""
    text = json.dumps(record, indent=2, allow_nan=False)
    # A line break outside of a string is layout, and JSON has none inside of strings.
    text = re.sub(r"\[\n[^\[\]{}]*\]", lambda numbers: re.sub(r"\n\s*", " ", numbers[0]), text)
    write_whole(path, (text + "\n").encode())
