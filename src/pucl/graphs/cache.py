"""Graphs in binary form: what was read from text once is read in a fraction of a second from then on.

An entry is one ``.npz`` file, written whole or not at all. It knows the sizes and times of the text files it was made
from: when one of them changes, the text is read again and the entry is replaced.
"""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pucl.data.npz import read_npz_arrays
from pucl.files import write_whole
from pucl.graphs.features import PlainGraphs

FORMAT = 2  # Raise it when the same text would give other arrays, so that no old entry is taken for a new one.
ARRAYS = ("node_start", "edge_start", "edges", "node_labels", "node_attributes", "labels")


def cached(directory: Path, name: str, cache: Path, read: Callable[[Path, str], PlainGraphs]) -> PlainGraphs:
    """The graphs that ``read`` finds in text files, or has found before.

    Args:
        directory: Where the text files are.
        name: What their names begin with.
        cache: Where entries are kept. If it cannot be written to, the graphs have a note of that.
        read: Reads the text.
    """
    place = hashlib.sha256(str(directory.resolve()).encode(errors="surrogateescape")).hexdigest()[:16]
    entry = cache / f"{name}-{place}.npz"
    state = _state(directory, name)
    if (graphs := _open(entry, name, state)) is not None:
        return graphs
    graphs = read(directory, name)
    if _state(directory, name) != state:  # Changed while it was read: it is not known what was read.
        return graphs
    try:
        cache.mkdir(parents=True, exist_ok=True)
        write_whole(entry, _packed(graphs, state))
    except OSError as error:
        note = f"no binary copy could be kept in {cache} ({error.strerror or error}), so the text is read every time"
        return replace(graphs, notes=(*graphs.notes, note))
    return graphs


def _state(directory: Path, name: str) -> list[list[Any]]:
    """Names, sizes and times of the text files, as JSON gives them back."""
    files = sorted(path for path in directory.iterdir() if path.name.startswith(f"{name}_") and path.suffix == ".txt")
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def _packed(graphs: PlainGraphs, state: list[list[Any]]) -> bytes:
    about = {"format": FORMAT, "files": state, "classes": graphs.classes, "notes": graphs.notes}
    arrays = {part: array for part in ARRAYS if (array := getattr(graphs, part)) is not None}
    buffer = io.BytesIO()
    np.savez(buffer, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    return buffer.getvalue()


def _open(entry: Path, name: str, state: list[list[Any]]) -> PlainGraphs | None:
    try:
        arrays, _ = read_npz_arrays(entry, {"about", *ARRAYS})
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != FORMAT or about["files"] != state:
            return None
        return PlainGraphs(name=name, **arrays, classes=tuple(about["classes"]), notes=tuple(about["notes"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # Not there, or not as we wrote it: then the text is read.
