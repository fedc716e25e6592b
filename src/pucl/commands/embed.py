"""Write the embeddings of images, graphs or texts to a file, as the encoder of a finished run makes them.

The order of the samples is that of the folder or file.

  -o FILE.npz  embeddings [samples, features] and, where they are known, labels, classes and names (of files, or rows of
               the .npz file). Data with a test set, such as cifar10 or a folder with train/ and test/, are written in
               parts: train, test, and pretrain if it is another set, each with PART_labels and PART_names
               Pairs of texts have seconds too, the embeddings of their second texts
  -o FILE.npy  embeddings [samples, features] only; for data with a test set, part after part
"""

import argparse
import io
from pathlib import Path

import numpy as np

from pucl.commands.options import add_encoder, add_force, add_root, check_new
from pucl.files import write_whole
from pucl.frameworks import modality_of
from pucl.modalities import MODALITIES
from pucl.progress import Progress
from pucl.runs.trained import load
from pucl.texts import say

EXAMPLES = (
    "pucl embed runs/simclr-digits-pucl-seed-0 digits -o digits.npz",
    "pucl embed runs/first pictures/ -o pictures.npy",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl embed``."""
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a finished run")
    names = [name for modality in MODALITIES.values() for name in modality.sources]
    paths = ", ".join(modality.paths for modality in MODALITIES.values())
    parser.add_argument("data", metavar="DATA", choices=names, help=f"name of a data set, or {paths}")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="file to write: .npz or .npy")
    add_encoder(parser)
    add_root(parser)
    add_force(parser)


def run(arguments: argparse.Namespace) -> int:
    """Embed, write the file, and print how many samples it holds."""
    out: Path = arguments.out
    if out.suffix not in (".npz", ".npy"):
        raise ValueError(f"--out is a file of arrays: expected a name that ends in .npz or .npy, got {out}")
    check_new(out, force=arguments.force)
    trained = load(arguments.run, encoder=arguments.encoder)
    out.parent.mkdir(parents=True, exist_ok=True)  # Before the work, in case the directory cannot be made.
    unit = modality_of(trained.config).name
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
