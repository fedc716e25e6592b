"""Files that appear whole or not at all."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write beside the place and then into it in one step, so that nobody ever finds a part of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # Otherwise a power cut could leave the new name on an empty file.
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def left_parts(directory: Path) -> list[Path]:
    """What writers left here that were killed; those of writers who are at it, too."""
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
