"""Parts of the commands that run many trainings: options, the printed table, failures, and the page at the end."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from pucl.commands.naming import suffix_of
from pucl.commands.options import (
    Container,
    add_checkpoint_seconds,
    add_device,
    add_log,
    add_root,
    given,
    loggers_of,
)
from pucl.devices import usable_cores
from pucl.progress import StatusArea, duration
from pucl.runs.collection import RUNS
from pucl.runs.display import Display
from pucl.runs.grid import Resources
from pucl.runs.tables import Part, Table, as_text, make_table
from pucl.texts import printable, say

DEFAULT_BUDGET = "small"


def add_experiment(parser: argparse.ArgumentParser, *, out: str) -> None:
    """Add the options of experiments whose settings are fixed; `out` is the default directory in words."""
    add_root(parser)
    add_device(parser)
    add_log(parser)
    add_workers(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"directory of the runs (default: {out})")


def add_workers(container: Container, *, default: str = "one for each core") -> None:
    """Add the options of workers, Ray, reused runs and the page at the end.

    `default` is the default number of workers in words.
    """
    workers = f"runs at a time, each with its share of the cores (default: {default})"
    container.add_argument("--workers", type=int, metavar="N", help=workers)
    container.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run on the Ray cluster at this address (auto finds one, local starts one here). The output directory and "
        "the data must be available on all its machines",
    )
    add_checkpoint_seconds(container)
    container.add_argument(
        "--reuse",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="copy finished runs of the same configuration from this directory instead of training them again; may be "
        "given several times. A collection (runs.jsonl) has no encoders, so its runs are trained again",
    )
    page = "write an HTML page about the runs at the end"
    container.add_argument("--page", action=argparse.BooleanOptionalAction, default=True, help=page)


def name_of_experiment(arguments: argparse.Namespace) -> str:
    """The end of the default directory's name: the options that change the runs."""
    changed = given(arguments, "budget", "variant", "epochs")
    if changed.get("budget") == DEFAULT_BUDGET:
        del changed["budget"]
    return suffix_of(changed)


def resources_of(arguments: argparse.Namespace, *, workers: int | None = None) -> Resources:
    """The resources that were given. `workers` is their default number; None for one for each core."""
    default = usable_cores() if workers is None else workers
    return Resources(
        root=arguments.root,
        device=arguments.device,
        compiled=getattr(arguments, "compile", False),
        workers=default if arguments.workers is None else arguments.workers,
        ray=arguments.ray,
        log=loggers_of(arguments),
        checkpoint_seconds=arguments.checkpoint_seconds,
        reuse=tuple(arguments.reuse),
    )


def print_table(parts: Sequence[Part], out: Path, arguments: argparse.Namespace) -> Table:
    """Run what is missing from a table, and print the table and the time that it took."""
    with Display(StatusArea()) as display:
        made = make_table(
            parts, out, resources=resources_of(arguments), display=display, command=arguments.command_line
        )
    say(as_text(made))
    report_failures(made.failed)
    say(f"\nall runs together took {duration(made.seconds)} of one core")
    say(f"table: {out / 'table.json'} and table.csv\nruns:  {out}/PART/ROW/seed-N, collected in {RUNS}")
    return made


def report_failures(failed: Iterable[str]) -> None:
    """Print a line for each run that failed."""
    for words in failed:
        say(f"failed: {printable(words)}", error=True)


def finish(out: Path, arguments: argparse.Namespace, failed: Iterable[str]) -> int:
    """Write the page about the runs unless it is not wanted, and return the exit code: 1 if a run failed.

    If the page cannot be written, a line says why; the numbers do not depend on it.
    """
    written = str(out / "report.html") if arguments.page else "not written, because of --no-page"
    if arguments.page:
        from pucl.reports.page import write_page  # noqa: PLC0415 - only here.
        from pucl.reports.page.records import gather  # noqa: PLC0415

        try:
            with StatusArea() as area:
                write_page(gather([out]), out / "report.html", root=arguments.root, report=area.show_text)
        except (ValueError, OSError) as error:
            written = f"not written: {error}"
    say(f"page:  {written}")
    return 1 if any(failed) else 0
