"""Show the embeddings of finished runs in the plane, and how alike the pairs are that their losses compare.

Writes, beside each other,

  FILE.png                  the runs side by side, samples coloured by class: those of the test set, where there is one
  FILE.npz                  the same as numbers: for run 1, 1_points [samples, 2], 1_places (which samples) and, where
                            they are known, 1_labels and 1_classes; for run 2, 2_points and so on; runs, their names
  FILE-similarities-1.png   for each run, the cosines of known positives, of pairs of one class and of different
                            classes, and how its correction reads the unlabelled pairs

and prints the estimates of tau' that follow from the cosines; `pucl prior` gives alpha and c besides. The first layout
takes half a minute more, in which umap-learn is compiled. Files of these names are written over.
"""

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.commands.loading import add_encoder
from pucl.commands.prior import advice, as_text
from pucl.diagnosis.layout2d import POINTS, Layout, lay_out_runs, need_umap
from pucl.diagnosis.similarities import measure_similarities
from pucl.files import write_whole
from pucl.progress import StatusArea
from pucl.reports.canvas import MatplotlibMissingError
from pucl.reports.embedding import draw_embedding
from pucl.reports.similarities import draw_similarities
from pucl.texts import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl umap``."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directory of a finished run")
    parser.add_argument(
        "--points", type=int, default=POINTS, metavar="N", help="samples of each run at most (default: %(default)s)"
    )
    add_encoder(parser)
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument(
        "--out", type=Path, default=Path("umap.png"), metavar="FILE.png", help="where to (default: %(default)s)"
    )
    parser.add_argument(
        "--similarities",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="draw similarities and estimate tau' as well (default: yes)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Lay out, measure, print, write."""
    out: Path = arguments.out
    if out.suffix != ".png" or out.is_dir():
        raise ValueError(f"--out is a picture to write: expected a name that ends in .png, got {out}")
    need_umap()
    similarities = []
    with StatusArea() as area:
        for place in arguments.runs if arguments.similarities else []:
            area.show_text(f"{place}: comparing samples")
            similarities.append(measure_similarities(place, root=arguments.root, encoder=arguments.encoder))
        layouts = lay_out_runs(
            arguments.runs,
            points=arguments.points,
            root=arguments.root,
            tell=area.show_text,
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
    for picture in (out, *pictures):
        picture.unlink(missing_ok=True)  # That of an earlier call would not go with these numbers.
    try:
        write_whole(out, draw_embedding(layouts))
        say(f"embeddings:   {out}")
        for picture, each in zip(pictures, similarities, strict=True):
            write_whole(picture, draw_similarities(each))
            say(f"similarities: {picture} ({each.run})")
    except MatplotlibMissingError as error:
        say(f"figures:      left out; {error}")
    return 0


def as_arrays(layouts: Sequence[Layout]) -> dict[str, NDArray[Any]]:
    """The layouts for a .npz file, each under its number, from 1."""
    arrays: dict[str, NDArray[Any]] = {"runs": np.array([str(layout.run) for layout in layouts])}
    for number, layout in enumerate(layouts, 1):
        arrays |= {f"{number}_points": layout.points, f"{number}_places": layout.places}
        if layout.labels is not None:
            arrays |= {f"{number}_labels": layout.labels, f"{number}_classes": np.array(layout.classes)}
    return arrays
