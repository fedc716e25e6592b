"""Binary copies of graphs that were read from text. They are read in a fraction of a second.

A copy is one ``.npz`` file. It records the sizes and times of the text files: if one of these changes, the text is read
again and the copy is replaced.
"""

import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pucl.data.npz import read_npz_arrays
from pucl.files import write_whole
from pucl.graphs.features import PlainGraphs
from pucl.graphs.sources.tu import read_tu

FORMAT = 2  # Increase it if the same text would give other arrays, so that no old copy is used.
ARRAYS = ("node_start", "edge_start", "edges", "node_labels", "node_attributes", "labels")


def read_cached(directory: Path, name: str, cache: Path) -> PlainGraphs:
    """`read_tu`, with a binary copy in the directory `cache`. If no copy can be written, the graphs have a note."""
    digest = hashlib.sha256(str(directory.resolve()).encode(errors="surrogateescape")).hexdigest()[:16]
    copy = cache / f"{name}-{digest}.npz"
    state = _state(directory, name)
    if (graphs := _open(copy, name, state)) is not None:
        return graphs
    graphs = read_tu(directory, name)
    if _state(directory, name) != state:  # A file changed while it was read.
        return graphs
    try:
        cache.mkdir(parents=True, exist_ok=True)
        write_whole(copy, _packed(graphs, state))
    except OSError as error:
        note = f"no binary copy could be kept in {cache} ({error.strerror or error}), so the text is read every time"
        return replace(graphs, notes=(*graphs.notes, note))
    return graphs


def _state(directory: Path, name: str) -> list[list[Any]]:
    """Names, sizes and times of the text files, in types that JSON has."""
    files = sorted(path for path in directory.iterdir() if path.name.startswith(f"{name}_") and path.suffix == ".txt")
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def _packed(graphs: PlainGraphs, state: list[list[Any]]) -> bytes:
    about = {"format": FORMAT, "files": state, "classes": graphs.classes, "notes": graphs.notes}
    arrays = {part: array for part in ARRAYS if (array := getattr(graphs, part)) is not None}
    buffer = io.BytesIO()
    np.savez(buffer, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    return buffer.getvalue()


def _open(copy: Path, name: str, state: list[list[Any]]) -> PlainGraphs | None:
    try:
        arrays, _ = read_npz_arrays(copy, {"about", *ARRAYS})
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != FORMAT or about["files"] != state:
            return None
        return PlainGraphs(name=name, **arrays, classes=tuple(about["classes"]), notes=tuple(about["notes"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # It is missing, or pucl did not write it.
