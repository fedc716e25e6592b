"""Write the embeddings of images or graphs to a file, as the encoder of a finished run makes them.

DATA is a known name (digits, cifar10, ENZYMES, ...; see `pucl data list`) or a path: a folder of pictures, a .npz file,
or a directory with graphs as NAME_A.txt and so on. Graphs are one part, train.

  -o FILE.npz   for each part of the data (train, test, and pretrain where that is another): PART [images, features],
                and where they are known PART_labels and PART_names (files, or rows of the .npz file); and classes
  -o FILE.npy   one array [images, features]: a folder in the order of its file names, a .npz file in its own order,
                a known data set part after part
"""

import argparse
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.commands.loading import add_encoder
from pucl.data import ImageData
from pucl.experiments.trained import Trained, in_order, load, parts
from pucl.experiments.trained_graphs import TrainedGraphs
from pucl.files import write_whole
from pucl.progress import Progress
from pucl.texts import say


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
    say(f"{unit}: {counts}; features of each: {trained.features}\nwritten: {out}")
    return 0


def _images(trained: Trained, arguments: argparse.Namespace) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    data = trained.data(arguments.data, root=arguments.root)
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
    arrays: dict[str, NDArray[Any]] = {"train": rows}
    if graphs.labels is not None:
        arrays |= {"train_labels": graphs.labels, "classes": np.array(graphs.classes)}
    return arrays, rows


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        say(f"note: {note}", error=True)


def with_labels(data: ImageData, rows: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """The embeddings of each part with what is known of its images."""
    arrays: dict[str, NDArray[Any]] = dict(rows)
    for name, images in parts(data).items():
        if images.labels is not None:
            arrays |= {f"{name}_labels": images.labels, "classes": np.array(images.classes)}
        if images.names is not None:
            arrays[f"{name}_names"] = np.array(images.names)
    return arrays
