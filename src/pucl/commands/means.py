"""Options that say with what many runs are made: the same for every command that makes them."""

import argparse
from pathlib import Path

from pucl.experiments.grid import Means, cores


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


def add_places(parser: argparse.ArgumentParser) -> None:
    """Declare where data are and where to compute, for commands that have no other settings of a run."""
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: %(default)s)")
    parser.add_argument("--tensorboard", action="store_true", help="write metrics as TensorBoard's events as well")


def means_of(arguments: argparse.Namespace, *, workers: int | None = None) -> Means:
    """What was given.

    Args:
        arguments: As parsed.
        workers: How many, where none are given; None for as many as there are cores.
    """
    usual = cores() if workers is None else workers
    return Means(
        root=arguments.root,
        device=arguments.device,
        compiled=getattr(arguments, "compile", False),
        workers=usual if arguments.workers is None else arguments.workers,
        ray=arguments.ray,
        tensorboard=arguments.tensorboard,
    )
