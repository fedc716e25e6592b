"""Change one thing at a time, and see what it is worth.

  pucl ablate alpha-c      SimCLR with PUCL for alpha 0.05 to 0.2 and c 0.01 to 0.1, as in the paper; drawn also over
                           tau', which is all that reaches the loss
  pucl ablate unlabelled   SimCLR with 62, 126, 254 and 510 unlabelled samples (batches of 32 to 256) and several alpha
  pucl ablate graphs       InfoGraph in several settings (objective, floor, learning rate, length, layers): plain, PUCL
                           with the prior that the classes have, and the oracle, by their accuracy on validation folds,
                           so that no setting is chosen by a test fold

What was stopped goes on where it was.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pucl.commands.means import (
    USUAL_BUDGET,
    add_experiment,
    means_of,
    name_of_experiment,
    page_of,
    print_table,
    tell_failed,
)
from pucl.config import choose
from pucl.files import write_whole
from pucl.paper import ablations, graph_settings
from pucl.paper.ablation_figure import draw_alpha_c, draw_unlabelled
from pucl.paper.table1 import BUDGETS
from pucl.progress import StatusArea
from pucl.reports.canvas import MatplotlibMissingError
from pucl.runs.collection import RUNS
from pucl.runs.display import Display
from pucl.texts import say

GRAPHS = "graphs"
SUBJECTS = (*ablations.SUBJECTS, GRAPHS)
DRAW = {"alpha-c": draw_alpha_c, "unlabelled": draw_unlabelled}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl ablate``."""
    parser.add_argument("subject", metavar="SUBJECT", help=f"what is changed: {', '.join(SUBJECTS)}")
    parser.add_argument(
        "--data",
        metavar="NAME",
        help=f"(default: cifar10); for graphs several, with commas (default: {','.join(graph_settings.DATA)})",
    )
    budgets = "; ".join(f"{name}: {budget.purpose}" for name, budget in BUDGETS.items())
    parser.add_argument("--budget", metavar="NAME", help=f"for images, how much work (default: small). {budgets}")
    parser.add_argument(
        "--variants", metavar="NAME;...", help=f"for graphs (default: {'; '.join(graph_settings.VARIANTS)})"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds (default: 2, for graphs 3)")
    parser.add_argument("--epochs", type=int, metavar="N", help="for images, passes over the data (default: by budget)")
    add_experiment(parser, out="runs/ablate-SUBJECT, and the budget or epochs that were given")


def run(arguments: argparse.Namespace) -> int:
    """Run what is left, print the tables, draw, and say where everything is."""
    choose("ablation", arguments.subject, SUBJECTS)
    out = arguments.out or Path("runs") / f"ablate-{arguments.subject}{name_of_experiment(arguments)}"
    return (_run_graphs if arguments.subject == GRAPHS else _run_images)(arguments, out)


def _run_images(arguments: argparse.Namespace, out: Path) -> int:
    _refuse(arguments, "variants", "is for graphs")
    part = ablations.part_of_ablation(
        arguments.subject,
        arguments.data or "cifar10",
        budget=arguments.budget or USUAL_BUDGET,
        seeds=arguments.seeds,
        changes={} if arguments.epochs is None else {"epochs": arguments.epochs},
        root=arguments.root,
    )
    made = print_table([part], out, arguments)
    picture = out / f"{arguments.subject}.png"
    picture.unlink(missing_ok=True)
    try:
        lines = [line for line in made.lines[part.name] if line.scores]
        drawn = {line.name for line in lines}
        cells = ablations.cells(
            {name: config for name, config in part.rows.items() if name in drawn}, arguments.subject
        )
        write_whole(picture, DRAW[arguments.subject](lines, cells, subject=part.name))
        words = str(picture)
    except MatplotlibMissingError as error:
        words = f"left out; {error}"
    say(f"plot:  {words}")
    say(f"page:  {page_of(out, arguments)}")
    return 1 if made.failed else 0


def _run_graphs(arguments: argparse.Namespace, out: Path) -> int:
    _refuse(arguments, "budget", "is for images")
    _refuse(arguments, "epochs", "is for images; a variant has its own")
    variants = graph_settings.VARIANTS if arguments.variants is None else arguments.variants.split(";")
    with Display(StatusArea(), score=_validation) as display:  # The dashboard must not show test folds either.
        settings, failed = graph_settings.search_settings(
            out,
            data=graph_settings.DATA
            if arguments.data is None
            else [name for name in arguments.data.split(",") if name],
            variants=[name.strip() for name in variants if name.strip()],
            seeds=graph_settings.SEEDS if arguments.seeds is None else arguments.seeds,
            means=means_of(arguments),
            display=display,
            command=arguments.command_line,
        )
    say(graph_settings.as_text(settings))
    tell_failed(failed)
    say(f"\ntable: {out / 'settings.json'}\nruns:  {out}/DATA/VARIANT/ROW/seed-N, collected in {RUNS}")
    say(f"page:  {page_of(out, arguments)}")
    return 1 if failed else 0


def _validation(result: Mapping[str, Any]) -> float | None:
    """The accuracy by which settings are compared; see `pucl.paper.graph_settings.as_text`."""
    found: float | None = result.get("validation", {}).get("svm_scaled")
    return found


def _refuse(arguments: argparse.Namespace, name: str, why: str) -> None:
    if getattr(arguments, name) is not None:
        raise ValueError(f"--{name} {why}, not for {arguments.subject}")
