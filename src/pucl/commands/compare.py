"""Train with several corrections on the same data and seeds, and show what each was worth.

FRAMEWORK is simclr, moco or cmc. DATA is a known name (digits, cifar10, ...; see `pucl data list`) or a path: a folder
of pictures with labels as sub-folders, or a .npz file.

Beside the corrections stand the encoder without training and the oracle, whose loss knows the labels: what a correction
can win lies between plain and oracle. What is finished is not run again, what was interrupted goes on.
"""

import argparse
import sys
from pathlib import Path

from pucl.commands.train import add_run_arguments, changes, correction_settings, say
from pucl.corrections import CORRECTIONS
from pucl.experiments.compare import as_text, compare_corrections
from pucl.experiments.recipes import recipe

EVERYTHING = "untrained,plain,deb,hard,ring,pucl,oracle"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl compare``."""
    add_run_arguments(parser)
    parser.add_argument("--corrections", default=EVERYTHING, metavar="NAME,...", help="rows (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="how many seeds (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the runs go (default: runs/FRAMEWORK-DATA)")


def run(arguments: argparse.Namespace) -> int:
    """Run all rows, print the table, and say where everything is."""
    corrections = [name for name in arguments.corrections.split(",") if name]
    base = recipe(arguments.framework, arguments.data, **changes(arguments))
    out = arguments.out or Path("runs") / f"{base.framework}-{Path(base.data).name}"
    comparison = compare_corrections(
        base,
        corrections,
        arguments.seeds,
        out,
        settings={name: correction_settings(arguments, name) for name in CORRECTIONS},
        root=arguments.root,
        report=say,
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(as_text(comparison))
    print(f"\ntable: {out / 'comparison.json'} and comparison.csv\nruns:  {out}/CORRECTION/seed-N")
    return 0
