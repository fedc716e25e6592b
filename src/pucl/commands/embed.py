"""Write the embeddings of images or graphs to a file, as the encoder of a finished run makes them.

DATA is a known name (digits, cifar10, ENZYMES, ...; see `pucl data list`) or a path: a folder of pictures, a .npz file,
or a directory with graphs as NAME_A.txt and so on.

  -o FILE.npz   embeddings [samples, features], and where they are known labels, names (files, or rows of the .npz file)
                and classes, in the order of the folder or file. Data that come with a test set, such as cifar10 or a
                folder with train/ and test/, are written in parts instead: train, test, and pretrain where that is
                another, each with PART_labels and PART_names
  -o FILE.npy   embeddings [samples, features] alone, in the same order; a known data set part after part
"""

import argparse
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.commands.loading import add_encoder
from pucl.files import write_whole
from pucl.graphs.trained import TrainedGraphs
from pucl.images.imageset import ImageData
from pucl.images.trained import Trained, in_order, load, parts, source_order
from pucl.progress import Progress
from pucl.texts import say

WHOLE = "embeddings"
"""Name of the array of data that are not in parts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl embed``."""
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a finished run")
    parser.add_argument("data", metavar="DATA", help="a known name, a folder of pictures, or a .npz file")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="where to: .npz or .npy")
    add_encoder(parser)
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def run(arguments: argparse.Namespace) -> int:
    """Embed, write, and say what is where."""
    out: Path = arguments.out
    if out.suffix not in (".npz", ".npy"):
        raise ValueError(f"--out is a file of arrays: expected a name that ends in .npz or .npy, got {out}")
    if out.is_dir() or (out.exists() and not arguments.force):
        raise ValueError(f"{out} is there already: choose another name, or give --force to write over a file")
    trained = load(arguments.run, encoder=arguments.encoder)
    out.parent.mkdir(parents=True, exist_ok=True)  # Now, so that a folder that cannot be made does not cost the work.
    if isinstance(trained, Trained):
        unit, arrays, joined = "images", *_images(trained, arguments)
    else:
        unit, arrays, joined = "graphs", *_graphs(trained, arguments)
    content = io.BytesIO()
    if out.suffix == ".npy":
        np.save(content, joined)
    else:
        np.savez(content, allow_pickle=False, **arrays)
    write_whole(out, content.getvalue())
    counts = ", ".join(f"{name} {len(arrays[name]):,}" for name in ("train", "test", "pretrain") if name in arrays)
    say(f"{unit}: {counts or f'{len(joined):,}'}; features of each: {trained.features}\nwritten: {out}")
    return 0


def _images(trained: Trained, arguments: argparse.Namespace) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    data = trained.data(arguments.data, root=arguments.root, test_share=0)
    _tell(data.notes)
    progress = Progress("pucl embed", "images")
    try:
        rows = trained.embed(parts(data), progress=progress)
    finally:
        progress.close()
    return with_labels(data, rows), in_order(data, rows)


def _graphs(
    trained: TrainedGraphs, arguments: argparse.Namespace
) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    graphs = trained.data(arguments.data, root=arguments.root)
    _tell(graphs.notes)
    progress = Progress("pucl embed", "graphs")
    try:
        rows = trained.encode(graphs, progress=progress)
    finally:
        progress.close()
    arrays: dict[str, NDArray[Any]] = {WHOLE: rows}
    if graphs.labels is not None:
        arrays |= {"labels": graphs.labels, "classes": np.array(graphs.classes)}
    return arrays, rows


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        say(f"note: {note}", error=True)


def with_labels(data: ImageData, rows: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """The embeddings of each part with what is known of its images, in the order in which they came.

    Args:
        data: The images.
        rows: Embeddings of each part.
    """
    arrays: dict[str, NDArray[Any]] = {}
    sets = parts(data)
    for part, images in sets.items():
        name, prefix = (WHOLE, "") if len(sets) == 1 else (part, f"{part}_")
        order = np.arange(len(images)) if images.names is None else source_order(images.names)
        arrays[name] = rows[part][order]
        if images.labels is not None:
            arrays |= {f"{prefix}labels": images.labels[order], "classes": np.array(images.classes)}
        if images.names is not None:
            arrays[f"{prefix}names"] = np.array(images.names)[order]
    return arrays
