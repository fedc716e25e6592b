"""Run one of the paper's tables, and show its numbers beside those of the paper.

  pucl table 1   SimCLR, CMC and MoCo on CIFAR10, CIFAR100 and STL10: plain (also at another temperature), each
                 correction, PUCL with Hard's tilt, without training, and with labels (the oracle)
  pucl table 2   InfoGraph on PTC, ENZYMES, DD and REDDIT-BINARY: plain and with each correction, without training,
                 without an encoder, with labels (the oracle), and as HCL's authors published theirs

Every number is the mean over seeds, each a training of its own, with its standard deviation; differences to plain are
taken seed by seed. A table that was stopped goes on where it was: what is finished is not run again, what was
interrupted continues from its checkpoint.
"""

import argparse
from pathlib import Path

from pucl.commands.means import USUAL_BUDGET, add_experiment, name_of_experiment, page_of, print_table
from pucl.config import choose
from pucl.paper import table1, table2
from pucl.paper.graph_settings import VARIANTS
from pucl.runs.tables import Part
from pucl.texts import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl table``."""
    parser.add_argument("number", metavar="NUMBER", help="which table: 1 (images) or 2 (graphs)")
    budgets = "; ".join(f"{name}: {budget.purpose}" for name, budget in table1.BUDGETS.items())
    parser.add_argument("--budget", metavar="NAME", help=f"of table 1, how much work (default: small). {budgets}")
    parser.add_argument("--frameworks", metavar="NAME,...", help=f"of table 1 (default: {','.join(table1.FRAMEWORKS)})")
    parser.add_argument(
        "--data", metavar="NAME,...", help=f"(default: {','.join(table1.DATA)} or {','.join(table2.DATA)})"
    )
    parser.add_argument(
        "--rows",
        metavar="NAME;...",
        help=f"which rows (default: {'; '.join(table1.ROWS)} or {'; '.join(table2.ROWS)})",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds (default: by budget, 10 for table 2)")
    parser.add_argument(
        "--variant",
        metavar="NAME",
        help="of table 2, settings other than the references', as `pucl ablate graphs` compares them; every correction "
        f"then has the prior of the classes. One of {'; '.join(VARIANTS)}",
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the data (default: by table and budget)")
    add_experiment(parser, out="runs/table-NUMBER, and the budget, variant or epochs that were given")


def run(arguments: argparse.Namespace) -> int:
    """Run what is left of the table, print it, and say where everything is."""
    choose("table of the paper", arguments.number, ("1", "2"))
    out = arguments.out or Path("runs") / f"table-{arguments.number}{name_of_experiment(arguments)}"
    parts = _parts_of_1(arguments) if arguments.number == "1" else _parts_of_2(arguments)
    made = print_table(parts, out, arguments)
    say(f"page:  {page_of(out, arguments)}")
    return 1 if made.failed else 0


def _parts_of_1(arguments: argparse.Namespace) -> list[Part]:
    if arguments.variant is not None:
        raise ValueError("--variant is for table 2; table 1 has budgets")
    return table1.parts_of_table1(
        arguments.budget or USUAL_BUDGET,
        frameworks=table1.FRAMEWORKS if arguments.frameworks is None else _names(arguments.frameworks),
        data=table1.DATA if arguments.data is None else _names(arguments.data),
        rows=table1.ROWS if arguments.rows is None else _names(arguments.rows, ";"),
        seeds=arguments.seeds,
        changes={} if arguments.epochs is None else {"epochs": arguments.epochs},
        root=arguments.root,
    )


def _parts_of_2(arguments: argparse.Namespace) -> list[Part]:
    for name in ("budget", "frameworks"):
        if getattr(arguments, name) is not None:
            raise ValueError(
                f"--{name} is for table 1; table 2 has InfoGraph, at the references' settings or a --variant"
            )
    return table2.parts_of_table2(
        table2.DATA if arguments.data is None else _names(arguments.data),
        None if arguments.rows is None else _names(arguments.rows, ";"),
        table2.SEEDS if arguments.seeds is None else arguments.seeds,
        {} if arguments.epochs is None else {"epochs": arguments.epochs},
        variant=arguments.variant,
        root=arguments.root,
    )


def _names(given: str, separator: str = ",") -> list[str]:
    """Names with something between them; those of rows may have commas inside."""
    return [name.strip() for name in given.split(separator) if name.strip()]
