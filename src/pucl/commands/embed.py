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
from pathlib import Path

import numpy as np

from pucl.commands.loading import add_encoder
from pucl.files import write_whole
from pucl.frameworks import FRAMEWORKS
from pucl.progress import Progress
from pucl.runs.trained import load
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
    unit = FRAMEWORKS[trained.config.framework].modality.name
    progress = Progress("pucl embed", unit)
    try:
        made = trained.embed_data(
            arguments.data,
            root=arguments.root,
            progress=progress,
            note=lambda text: say(f"note: {text}", error=True),
        )
    finally:
        progress.close()
    content = io.BytesIO()
    if out.suffix == ".npy":
        np.save(content, made.rows)
    else:
        np.savez(content, allow_pickle=False, **made.arrays)
    write_whole(out, content.getvalue())
    counts = ", ".join(f"{name} {count:,}" for name, count in made.parts.items()) or f"{len(made.rows):,}"
    say(f"{unit}: {counts}; features of each: {trained.features}\nwritten: {out}")
    return 0
