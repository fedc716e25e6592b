"""Run one of the paper's tables, and show its numbers beside those of the paper.

  pucl table 2   InfoGraph on PTC, ENZYMES, DD and REDDIT-BINARY: plain and with each correction, without training,
                 without an encoder, with labels (the oracle), and as HCL's authors published theirs

Every number is the mean over seeds, each a training of its own, with its standard deviation; differences to plain
InfoGraph are taken seed by seed on the same folds. A table that was stopped goes on where it was: what is finished is
not run again, what was interrupted continues from its checkpoint.
"""

import argparse
import sys
from pathlib import Path

from pucl.experiments.display import Display
from pucl.experiments.grid import Means, cores
from pucl.experiments.table2 import DATA, ROWS, SEEDS, as_text, make_table2
from pucl.progress import Line, duration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl table``."""
    parser.add_argument("number", metavar="NUMBER", choices=["2"], help="which table: 2")
    parser.add_argument("--data", metavar="NAME,...", help=f"columns (default: {','.join(DATA)})")
    parser.add_argument("--rows", metavar="NAME,...", help=f"which rows (default: {', '.join(ROWS)})")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="how many seeds (default: %(default)s)")
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the data (default: 20)")
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="how many runs at a time (default: as many as there are cores)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the runs go (default: runs/table-2)")


def run(arguments: argparse.Namespace) -> int:
    """Run what is left of the table, print it, and say where everything is."""
    out = arguments.out or Path("runs") / f"table-{arguments.number}"
    display = Display(Line())
    workers = cores() if arguments.workers is None else arguments.workers
    made = make_table2(
        out,
        data=DATA if arguments.data is None else _names(arguments.data),
        rows=tuple(ROWS) if arguments.rows is None else _names(arguments.rows),
        seeds=arguments.seeds,
        changes={} if arguments.epochs is None else {"epochs": arguments.epochs},
        means=Means(root=arguments.root, device=arguments.device, workers=workers),
        display=display,
        command=arguments.command_line,
    )
    display.close()
    print(as_text(made))
    failed = [words for lines in made.lines.values() for line in lines for words in line.failed]
    for words in failed:
        print(f"failed: {words}", file=sys.stderr)
    print(f"\nall runs together took {duration(made.seconds)} of one core")
    print(f"table: {out / 'table.json'} and table.csv\nruns:  {out}/DATA/ROW/seed-N")
    return 1 if failed else 0


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]
