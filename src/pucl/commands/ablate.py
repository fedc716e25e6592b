"""Change one thing at a time, and see what it is worth.

  pucl ablate graphs   InfoGraph in several settings (objective, floor, learning rate, length, layers): plain, PUCL with
                       the prior that the classes have, and the oracle, by their accuracy on validation folds. No test
                       fold is looked at, so a setting may be chosen by what is seen here.

What was stopped goes on where it was.
"""

import argparse
from pathlib import Path

from pucl.experiments.display import Display
from pucl.experiments.graph_settings import DATA, SEEDS, VARIANTS, as_text, search_settings
from pucl.experiments.grid import Means, cores
from pucl.progress import Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl ablate``."""
    parser.add_argument("subject", metavar="SUBJECT", choices=["graphs"], help="what is changed: graphs")
    parser.add_argument("--data", default=",".join(DATA), metavar="NAME,...", help="sets (default: %(default)s)")
    parser.add_argument("--variants", metavar="NAME;...", help=f"which (default: {'; '.join(VARIANTS)})")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="how many seeds (default: %(default)s)")
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="how many runs at a time (default: as many as there are cores)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the runs go (default: runs/ablate-graphs)")


def run(arguments: argparse.Namespace) -> int:
    """Run what is left, print the tables, and say where everything is."""
    out = arguments.out or Path("runs") / f"ablate-{arguments.subject}"
    display = Display(Line())
    settings = search_settings(
        out,
        data=[name for name in arguments.data.split(",") if name],
        variants=[name.strip() for name in (arguments.variants or ";".join(VARIANTS)).split(";") if name.strip()],
        seeds=arguments.seeds,
        means=Means(root=arguments.root, device=arguments.device, workers=arguments.workers or cores()),
        display=display,
        command=arguments.command_line,
    )
    display.close()
    print(as_text(settings))
    print(f"\ntable: {out / 'settings.json'}\nruns:  {out}/DATA/VARIANT/ROW/seed-N")
    return 0
