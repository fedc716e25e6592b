"""What all commands that make many runs have in common: with what they are run, their table, and the page at their end.

Commands without settings of a run, those of the paper's experiments, take all of it at once: `add_experiment`.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from pucl.commands.naming import suffix_of
from pucl.devices import usable_cores
from pucl.progress import StatusArea, duration
from pucl.runs.collection import RUNS
from pucl.runs.display import Display
from pucl.runs.grid import Means
from pucl.runs.tables import Part, Table, as_text, make_table
from pucl.texts import printable, say

USUAL_BUDGET = "small"


def add_experiment(parser: argparse.ArgumentParser, *, out: str) -> None:
    """Declare where data are and where to compute, with what, whether a page is made, and where everything goes."""
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: %(default)s)")
    parser.add_argument("--tensorboard", action="store_true", help="write metrics as TensorBoard's events as well")
    add_means(parser)
    add_page(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"where the runs go (default: {out})")


def name_of_experiment(arguments: argparse.Namespace) -> str:
    """The end of the default directory's name: what was given that makes the runs other ones."""
    given = {name: getattr(arguments, name, None) for name in ("budget", "variant", "epochs")}
    if given["budget"] == USUAL_BUDGET:
        given["budget"] = None
    return suffix_of({name: value for name, value in given.items() if value is not None})


def add_means(parser: argparse.ArgumentParser, *, workers: str = "as many as there are cores") -> None:
    """Declare how many runs go on at a time, and where."""
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help=f"how many runs at a time, each with its share of the cores (default: {workers})",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run on the Ray cluster at this address (auto finds one, local starts one here); the output directory "
        "and the data must be there on all its machines",
    )
    parser.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="how much work of a run a kill may cost at most (default: %(default)g)",
    )
    parser.add_argument(
        "--reuse",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="copy finished runs of the same configuration from this directory or below it, in place of running them "
        "once more; may be given several times. A collection (runs.jsonl) has no encoders: its runs are run again",
    )


def add_page(parser: argparse.ArgumentParser) -> None:
    """Declare whether a page is made in the end."""
    parser.add_argument(
        "--page",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="make a page of the runs in the end (default: yes)",
    )


def page_of(out: Path, arguments: argparse.Namespace) -> str:
    """Make the page of what was run, where it is wanted, and say in words where it is. Numbers do not depend on it."""
    if not arguments.page:
        return "left out, as --no-page says"
    from pucl.reports.page import write_report  # noqa: PLC0415 - only here.

    try:
        with StatusArea() as area:
            return str(write_report(out / "report.html", [out], root=arguments.root, say=area.show_text))
    except (ValueError, OSError) as error:
        return f"left out; {error}"


def means_of(arguments: argparse.Namespace, *, workers: int | None = None) -> Means:
    """What was given.

    Args:
        arguments: As parsed.
        workers: How many, where none are given; None for as many as there are cores.
    """
    usual = usable_cores() if workers is None else workers
    return Means(
        root=arguments.root,
        device=arguments.device,
        compiled=getattr(arguments, "compile", False),
        workers=usual if arguments.workers is None else arguments.workers,
        ray=arguments.ray,
        tensorboard=arguments.tensorboard,
        checkpoint_seconds=arguments.checkpoint_seconds,
        reuse=tuple(arguments.reuse),
    )


def print_table(parts: Sequence[Part], out: Path, arguments: argparse.Namespace) -> Table:
    """Run what is left of a table, and print it, with what it took."""
    with Display(StatusArea()) as display:
        made = make_table(parts, out, means=means_of(arguments), display=display, command=arguments.command_line)
    say(as_text(made))
    tell_failed(made.failed)
    say(f"\nall runs together took {duration(made.seconds)} of one core")
    say(f"table: {out / 'table.json'} and table.csv\nruns:  {out}/PART/ROW/seed-N, collected in {RUNS}")
    return made


def tell_failed(failed: Iterable[str]) -> None:
    """A line for each run that failed."""
    for words in failed:
        say(f"failed: {printable(words)}", error=True)
