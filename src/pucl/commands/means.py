"""What all commands that make many runs have in common: with what they are run, and the page at their end."""

import argparse
from pathlib import Path

from pucl.devices import usable_cores
from pucl.experiments.grid import Means
from pucl.progress import Line


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


def add_places(parser: argparse.ArgumentParser) -> None:
    """Declare where data are and where to compute, for commands that have no other settings of a run."""
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: %(default)s)")
    parser.add_argument("--tensorboard", action="store_true", help="write metrics as TensorBoard's events as well")


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

    line = Line()
    try:
        return str(write_report(out / "report.html", [out], root=arguments.root, say=line.show))
    except (ValueError, OSError) as error:
        return f"left out; {error}"
    finally:
        line.close()


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
    )
