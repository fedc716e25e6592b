"""Run one of the paper's tables, and show its numbers beside those of the paper.

  pucl table 1   SimCLR, CMC and MoCo on CIFAR10, CIFAR100 and STL10: plain (at two temperatures), each correction,
                 PUCL with Hard's tilt, the untrained encoder, and the oracle, which knows the labels
  pucl table 2   InfoGraph on PTC, ENZYMES, DD and REDDIT-BINARY: plain, each correction, DEB and Hard as HCL's authors
                 published them, the untrained encoder, raw features, and the oracle

Every number is the mean over seeds with its standard deviation. Differences to plain are paired by seed. After an
interruption the same command continues: finished runs are not run again, others continue from their checkpoints.
"""

import argparse
from functools import partial
from pathlib import Path

from pucl.commands.experiments import add_experiment, finish, name_of_experiment, print_table
from pucl.commands.options import given, names
from pucl.config import check_known
from pucl.paper import table1, table2
from pucl.paper.graph_settings import VARIANTS

EXAMPLES = (
    "pucl table 1 --budget quick --frameworks simclr --data cifar10",
    "pucl table 2 --data PTC,ENZYMES --seeds 3",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl table``."""
    parser.add_argument("number", metavar="NUMBER", help="which table: 1 (images) or 2 (graphs)")
    budgets = "; ".join(f"{name}: {budget.purpose}" for name, budget in table1.BUDGETS.items())
    parser.add_argument("--budget", metavar="NAME", help=f"for table 1, the amount of work (default: small). {budgets}")
    frameworks = f"for table 1 (default: {','.join(table1.FRAMEWORKS)})"
    parser.add_argument("--frameworks", type=names, metavar="NAME,...", help=frameworks)
    data = f"data sets (default: {','.join(table1.DATA)} or {','.join(table2.DATA)})"
    parser.add_argument("--data", type=names, metavar="NAME,...", help=data)
    rows = f"which rows (default: {'; '.join(table1.ROWS)} or {'; '.join(table2.ROWS)})"
    parser.add_argument("--rows", type=partial(names, separator=";"), metavar="NAME;...", help=rows)
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds (default: by budget, 10 for table 2)")
    parser.add_argument(
        "--variant",
        metavar="NAME",
        help="for table 2, settings other than the references', as `pucl ablate graphs` compares them; every "
        f"correction then has the prior of the classes. One of {'; '.join(VARIANTS)}",
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the data (default: by table and budget)")
    add_experiment(parser, out="runs/table-NUMBER, and the budget, variant or epochs that were given")


def run(arguments: argparse.Namespace) -> int:
    """Run the missing runs of the table, print it, and report the files."""
    check_known("table of the paper", arguments.number, ("1", "2"))
    out = arguments.out or Path("runs") / f"table-{arguments.number}{name_of_experiment(arguments)}"
    chosen = given(arguments, "data", "rows", "seeds") | {"changes": given(arguments, "epochs"), "root": arguments.root}
    if arguments.number == "1":
        if arguments.variant is not None:
            raise ValueError("--variant is for table 2; table 1 has budgets")
        parts = table1.parts_of_table1(**given(arguments, "budget", "frameworks"), **chosen)
    else:
        for name in given(arguments, "budget", "frameworks"):
            raise ValueError(
                f"--{name} is for table 1; table 2 has InfoGraph, at the references' settings or a --variant"
            )
        parts = table2.parts_of_table2(variant=arguments.variant, **chosen)
    made = print_table(parts, out, arguments)
    return finish(out, arguments, made.failed)
