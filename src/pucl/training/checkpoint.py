"""The state of a training, in one file that is whole, holds no code, and is checked for damage."""

import hashlib
import io
from pathlib import Path
from typing import Any, TypedDict

import torch

from pucl.files import write_whole
from pucl.records import DamagedError, MismatchError, conform

FORMAT = 5  # Rises when this version of pucl cannot continue older checkpoints.
MARK = b"\npucl sha256 "  # Before the digest, which ends the file.


class TallyState(TypedDict):
    """Sums over the steps of an unfinished epoch."""

    sums: dict[str, float]
    steps: int


class WatchState(TypedDict):
    """Warnings that were given, and the last steps that the next ones depend on."""

    said: list[str]
    steps: list[dict[str, float]]


class TrainingState(TypedDict):
    """All that the rest of a training depends on. Random numbers are a function of seed and step."""

    step: int
    framework: dict[str, Any]
    correction: dict[str, Any]
    optimiser: dict[str, Any]
    scaler: dict[str, Any]
    tally: TallyState
    watch: WatchState


class Checkpoint(TrainingState):
    """The same with what the record of the run needs."""

    warnings: list[str]
    data: dict[str, Any]
    seconds: float
    processor_seconds: float


def save_checkpoint(path: Path, state: Checkpoint) -> None:
    """Write the state: a kill at any moment leaves the old file or the new one.

    The file ends with the SHA-256 of what is before it. ``torch.load`` reads it all the same.
    """
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    content = buffer.getvalue()
    write_whole(path, content + MARK + _digest(content))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a state back, without running anything that is in the file.

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
