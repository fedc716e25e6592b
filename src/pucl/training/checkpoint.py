"""The state of a training, in one file that is whole and holds no code."""

from pathlib import Path
from typing import Any

import torch

from pucl.files import whole_file

FORMAT = 3  # Rises when a checkpoint of an older pucl can no longer be continued.


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write the state whole: a kill at any moment leaves the old one or the new."""
    with whole_file(path) as file:
        torch.save({"format": FORMAT, **state}, file)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was saved, read without running anything that is in the file."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(f"{path} should hold the state of a training, but cannot be read: {error}") from error
    if state.get("format") != FORMAT:
        raise ValueError(
            f"{path} was written by another version of pucl: expected format {FORMAT}, got {state.get('format')}"
        )
    return state
