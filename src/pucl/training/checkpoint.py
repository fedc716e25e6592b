"""Checkpoints: the state of a training in one file, which holds no code and is checked for damage."""

import hashlib
import io
from pathlib import Path
from typing import Any, TypedDict

import torch

from pucl.files import write_whole
from pucl.records import DamagedError, MismatchError, conform

FORMAT = 5  # It is raised when older checkpoints can no longer be resumed.
MARK = b"\npucl sha256 "  # Stands before the digest at the end of the file.


class TallyState(TypedDict):
    """Sums over the steps of an unfinished epoch."""

    sums: dict[str, float]
    steps: int


class WatchState(TypedDict):
    """Warnings that were given, and the last steps, which decide on the next warning."""

    said: list[str]
    steps: list[dict[str, float]]


class TrainingState(TypedDict):
    """Everything that the rest of a training depends on. Random numbers are a function of seed and step."""

    step: int
    framework: dict[str, Any]
    correction: dict[str, Any]
    optimiser: dict[str, Any]
    scaler: dict[str, Any]
    tally: TallyState
    watch: WatchState


class Checkpoint(TrainingState):
    """The state of a training, and what the record of its run needs."""

    warnings: list[str]
    data: dict[str, Any]
    seconds: float
    processor_seconds: float


def save_checkpoint(path: Path, state: Checkpoint) -> None:
    """Write a checkpoint. A kill at any moment leaves the old file or the new one.

    The file ends with the SHA-256 of the bytes before it. ``torch.load`` can read it.
    """
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    content = buffer.getvalue()
    write_whole(path, content + MARK + _digest(content))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, without running code from the file.

    Raises:
        DamagedError: If a bit of the file changed since it was written, or if pucl did not write it.
    """
    content, mark, digest = path.read_bytes().rpartition(MARK)
    if not mark:
        raise DamagedError(path, "it does not end with a digest; it was cut short, or an older pucl wrote it")
    if digest != _digest(content):
        raise DamagedError(path, "its content does not match its digest")
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        raise DamagedError(path, f"torch cannot read it: {error}") from error
    version = state.get("format") if isinstance(state, dict) else None
    if isinstance(version, int) and version != FORMAT:
        raise ValueError(f"{path} was written by another version of pucl: expected format {FORMAT}, got {version}")
    try:
        checkpoint: Checkpoint = conform(state, Checkpoint, "the checkpoint")
    except MismatchError as error:
        raise DamagedError(path, str(error)) from error
    return checkpoint


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
