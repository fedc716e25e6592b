"""Vary one setting at a time, and compare the results.

  pucl ablate alpha-c      SimCLR with PUCL for alpha 0.05 to 0.2 and c 0.01 to 0.1, as in the paper; drawn also over
                           tau', since the loss depends on tau' alone
  pucl ablate unlabelled   SimCLR with 62, 126, 254 and 510 unlabelled samples (batches of 32 to 256) and several alpha
  pucl ablate graphs       InfoGraph in several settings (objective, floor, learning rate, length, layers): plain, PUCL
                           with the prior that the classes have, and the oracle, by their accuracy on validation folds,
                           so that no setting is chosen by a test fold

After an interruption the same command continues.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pucl.commands.experiments import (
    add_experiment,
    finish,
    name_of_experiment,
    print_table,
    report_failures,
    resources_of,
)
from pucl.commands.options import given, names
from pucl.config import check_known
from pucl.paper import ablations, graph_settings
from pucl.paper.ablation_figure import draw_alpha_c, draw_unlabelled
from pucl.progress import StatusArea
from pucl.reports.canvas import write_figures
from pucl.runs.collection import RUNS
from pucl.runs.display import Display
from pucl.texts import say

GRAPHS = "graphs"
SUBJECTS = (*ablations.SUBJECTS, GRAPHS)
DRAW = {"alpha-c": draw_alpha_c, "unlabelled": draw_unlabelled}


EXAMPLES = (
    "pucl ablate alpha-c --budget quick",
    "pucl ablate graphs --data ENZYMES",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl ablate``."""
    parser.add_argument("subject", metavar="SUBJECT", help=f"what to vary: {', '.join(SUBJECTS)}")
    graphs = ",".join(graph_settings.DATA)
    usual = f"{ablations.DATA['small']} with the budget small, otherwise {ablations.USUAL_DATA}"
    data = f"data set (default: {usual}); for graphs several, separated by commas (default: {graphs})"
    parser.add_argument("--data", metavar="NAME", help=data)
    budgets = "; ".join(f"{name}: {budget.purpose}" for name, budget in ablations.BUDGETS.items())
    parser.add_argument("--budget", metavar="NAME", help=f"for images, the amount of work (default: small). {budgets}")
    variants = f"for graphs, settings to compare (default: {'; '.join(graph_settings.VARIANTS)})"
    parser.add_argument("--variants", type=partial(names, separator=";"), metavar="NAME;...", help=variants)
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds (default: 3; 2 with the budget quick)")
    parser.add_argument("--epochs", type=int, metavar="N", help="for images, passes over the data (default: by budget)")
    add_experiment(parser, out="runs/ablate-SUBJECT, and the budget or epochs that were given")


def run(arguments: argparse.Namespace) -> int:
    """Run the missing runs, print the tables, draw the figure, and report the files."""
    check_known("ablation", arguments.subject, SUBJECTS)
    out = arguments.out or Path("runs") / f"ablate-{arguments.subject}{name_of_experiment(arguments)}"
    return (_run_graphs if arguments.subject == GRAPHS else _run_images)(arguments, out)


def _run_images(arguments: argparse.Namespace, out: Path) -> int:
    _refuse(arguments, "variants", "is for graphs")
    part = ablations.part_of_ablation(
        arguments.subject,
        **given(arguments, "data", "budget", "seeds"),
        changes=given(arguments, "epochs"),
        root=arguments.root,
    )
    made = print_table([part], out, arguments)
    picture = out / f"{arguments.subject}.png"
    rows = [row for row in made.results[part.name].rows if row.scores]
    draw = partial(DRAW[arguments.subject], rows, part.rows, subject=part.name)
    say(f"plot:  {write_figures({picture: draw}) or picture}")
    return finish(out, arguments, made.failed)


def _run_graphs(arguments: argparse.Namespace, out: Path) -> int:
    _refuse(arguments, "budget", "is for images")
    _refuse(arguments, "epochs", "is for images; a variant has its own")
    chosen = given(arguments, "variants", "seeds")
    if arguments.data is not None:
        chosen["data"] = names(arguments.data)
    with Display(StatusArea(), score=_validation) as display:  # The dashboard must not show test folds either.
        results, failed = graph_settings.search_settings(
            out, **chosen, resources=resources_of(arguments), display=display, command=arguments.command_line
        )
    say(graph_settings.as_text(results))
    report_failures(failed)
    say(f"\ntable: {out / 'settings.json'}\nruns:  {out}/DATA/VARIANT/ROW/seed-N, collected in {RUNS}")
    return finish(out, arguments, failed)


def _validation(result: Mapping[str, Any]) -> float | None:
    """The accuracy that compares settings."""
    found: float | None = result.get("validation", {}).get(graph_settings.YARDSTICK)
    return found


def _refuse(arguments: argparse.Namespace, name: str, why: str) -> None:
    if getattr(arguments, name) is not None:
        raise ValueError(f"--{name} {why}, not for {arguments.subject}")
