"""Draw the embeddings of finished runs in the plane, and the similarities of the pairs that their losses compare.

Writes these files:

  FILE.png                  the runs side by side, samples coloured by class; test samples if there are any
  FILE.npz                  the same as numbers: for run 1, 1_points [samples, 2], 1_indices (which samples) and, where
                            they are known, 1_labels and 1_classes; for run 2, 2_points and so on; runs, their names
  FILE-similarities-1.png   for each run, the cosines of known positives, of pairs of the same class and of
                            different classes, and what its correction assumes about unlabelled pairs

Prints the estimates of tau' from the cosines; `pucl prior` also gives alpha and c. Existing files of these names are
overwritten.
"""

import argparse
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.commands.options import add_encoder, add_root
from pucl.commands.prior import advice, as_text
from pucl.diagnosis.layout2d import POINTS, Layout, check_umap, lay_out_runs
from pucl.diagnosis.similarities import measure_similarities
from pucl.files import write_whole
from pucl.progress import StatusArea
from pucl.reports.canvas import write_figures
from pucl.reports.embedding import draw_embedding
from pucl.reports.similarities import draw_similarities
from pucl.texts import say

EXAMPLES = (
    "pucl umap runs/simclr-digits/plain/seed-0 runs/simclr-digits/pucl/seed-0",
    "pucl umap runs/first --out first.png",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl umap``."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directory of a finished run")
    points = "most samples of each run (default: %(default)s)"
    parser.add_argument("--points", type=int, default=POINTS, metavar="N", help=points)
    add_encoder(parser)
    add_root(parser)
    out = "file of the picture (default: %(default)s)"
    parser.add_argument("--out", type=Path, default=Path("umap.png"), metavar="FILE.png", help=out)
    similarities = "draw similarities and estimate tau' too (default: yes)"
    parser.add_argument("--similarities", action=argparse.BooleanOptionalAction, default=True, help=similarities)


def run(arguments: argparse.Namespace) -> int:
    """Make the layouts, measure similarities, print and write the results."""
    out: Path = arguments.out
    if out.suffix != ".png" or out.is_dir():
        raise ValueError(f"--out is the file of the picture: expected a name that ends in .png, got {out}")
    check_umap()
    similarities = []
    with StatusArea() as area:
        for directory in arguments.runs if arguments.similarities else []:
            area.show_text(f"{directory}: comparing samples")
            similarities.append(measure_similarities(directory, root=arguments.root, encoder=arguments.encoder))
        layouts = lay_out_runs(
            arguments.runs,
            points=arguments.points,
            root=arguments.root,
            report=area.show_text,
            encoder=arguments.encoder,
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    if similarities:
        say(f"{as_text(similarities)}\n\n{advice(similarities)}\n")
    numbers = out.with_suffix(".npz")
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **as_arrays(layouts))
    write_whole(numbers, content.getvalue())
    say(f"coordinates:  {numbers}")
    pictures = [out.with_name(f"{out.stem}-similarities-{number}.png") for number in range(1, len(similarities) + 1)]
    figures = {out: partial(draw_embedding, layouts)}
    figures |= {file: partial(draw_similarities, each) for file, each in zip(pictures, similarities, strict=True)}
    if problem := write_figures(figures):
        say(f"figures:      {problem}")
        return 0
    say(f"embeddings:   {out}")
    for picture, each in zip(pictures, similarities, strict=True):
        say(f"similarities: {picture} ({each.run})")
    return 0


def as_arrays(layouts: Sequence[Layout]) -> dict[str, NDArray[Any]]:
    """The arrays of the .npz file. Their names begin with the number of the layout, from 1."""
    arrays: dict[str, NDArray[Any]] = {"runs": np.array([str(layout.run) for layout in layouts])}
    for number, layout in enumerate(layouts, 1):
        arrays |= {f"{number}_points": layout.points, f"{number}_indices": layout.indices}
        if layout.labels is not None:
            arrays |= {f"{number}_labels": layout.labels, f"{number}_classes": np.array(layout.classes)}
    return arrays
