"""List the pairs of samples that are probably false negatives, those that cost the loss most first.

The groups are those of `pucl diagnose`, which describes what can be read. The cost of a pair is the share of all push
of the loss that it takes, times r, the share of partitions that have both samples together, squared. The file has

  first, second            indices of the two samples, from 0
  first_name, second_name  what they are called, if names are known: paths in a folder, texts
  similarity               their cosine
  cost                     share of all push of the loss
  r, r_is                  how surely the pair is a false negative, 0 to 1: a probability if labels showed that it is
                           calibrated, otherwise a rank
  kind                     duplicate, near-duplicate, likely mislabelled (if there are labels) or same group
  first_label, ...         the classes, if there are labels

`pucl train --exclude FILE` reads it: these pairs are then never each other's negatives. Without groups that repeat,
duplicates and near-duplicates alone are listed. Of more than 10,000 samples, the neighbours of 10,000 random ones are
looked at.
"""

import argparse
from pathlib import Path

from pucl.commands.diagnose import about, add_source, ask
from pucl.commands.options import add_force, check_new
from pucl.data.pairlist import check_suffix
from pucl.diagnosis.suspects import Suspects
from pucl.files import check_folder
from pucl.progress import Progress
from pucl.texts import counted, fixed, percent, say, shortened, table

COUNT = 1000
SHOWN = 10
LONGEST = 32  # Characters of a name in the table.

EXAMPLES = (
    "pucl suspects embeddings.npz -o pairs.csv",
    "pucl suspects runs/simclr-digits-auto-seed-0 -o pairs.parquet --count 5000",
    "pucl train simclr digits --exclude pairs.csv",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl suspects``."""
    add_source(parser)
    out = "file to write: .csv, .parquet or .json; without it, the first pairs are printed"
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=out)
    count = "number of pairs (default: %(default)s)"
    parser.add_argument("--count", type=int, default=COUNT, metavar="N", help=count)
    add_force(parser)


def run(arguments: argparse.Namespace) -> int:
    """Find the pairs, print the first ones, and write the file."""
    if arguments.out is not None:
        check_suffix(arguments.out)
        check_folder("--out", arguments.out)
        check_new(arguments.out, force=arguments.force)
    if arguments.count < 1:
        raise ValueError(f"--count is the number of pairs to list: expected at least 1, got {arguments.count}")
    source, result = ask(arguments)
    progress = Progress(f"{source.note}: searching neighbours", "anchors")
    try:
        found = result.suspects(arguments.count, progress=progress)
    finally:
        progress.close()
    if source.indices is not None:
        found = found.renumbered(source.indices)
    say(as_text(found, result.refused))
    if arguments.out is not None:
        found.write(arguments.out, about(arguments, source))
        say(f"\nwritten: {arguments.out}")
    return 0


def as_text(found: Suspects, refused: str | None) -> str:
    """The first pairs in a table, and what they are."""
    parts = [] if refused is None else [f"Copies alone are listed: {refused}."]
    if not found.pairs:
        return "\n\n".join([*parts, "There is no such pair."])
    labelled = found.pairs[0].first_label is not None
    rows = [["first", "second", "similarity", "cost", "r", "kind", *(["labels"] if labelled else [])]]
    for pair in found.pairs[:SHOWN]:
        row = [
            shortened(pair.first_name or str(pair.first), LONGEST),
            shortened(pair.second_name or str(pair.second), LONGEST),
            fixed(pair.similarity, 3),
            percent(pair.cost, 4),
            "" if pair.r is None else fixed(pair.r),
            pair.kind,
        ]
        rows.append([*row, f"{pair.first_label}, {pair.second_label}"] if labelled else row)
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in found.kinds.items())
    summary = f"{counted(len(found), 'pair')}: {kinds}. Together they take {percent(found.cost, 2)} of all push."
    if labelled:
        same = sum(pair.first_label == pair.second_label for pair in found.pairs)
        summary += f" By the labels {same:,} of them are of one class."
    if found.anchors < found.samples:
        summary += f" Neighbours of {found.anchors:,} of {found.samples:,} samples were looked at."
    return "\n\n".join([*parts, table(rows), summary])
