"""Graphs in TU form, small enough to be read at a glance."""

import zipfile
from pathlib import Path

# A triangle, a path of two edges, and a lone node with another: graphs 1, 2 and 3.
PARTS = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n5, 6\n6, 5\n7, 8\n8, 7\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n3\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "5\n3\n3\n5\n8\n3\n3\n3\n",
    "node_attributes": "0.5, 1\n0, 2\n-1e-1, 3\n0, 4\n0, 5\n0, 6\n0, 7\n0, 8\n",
}


def write_tu(directory: Path, name: str = "TINY", /, **parts: str | None) -> Path:
    """Write the set, with some files other than they are, or left out (None)."""
    directory.mkdir(parents=True, exist_ok=True)
    for part, text in (PARTS | parts).items():
        if text is not None:
            (directory / f"{name}_{part}.txt").write_text(text, newline="")
    return directory


def write_zip(path: Path, name: str, /, **parts: str | None) -> Path:
    """An archive as the collection has them: the files in a directory of that name."""
    directory = write_tu(path.parent / f"{path.stem}-files", name, **parts)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/README.txt", "about")
        for file in sorted(directory.iterdir()):
            archive.write(file, f"{name}/{file.name}")
    return path
