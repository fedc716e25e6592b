"""Embed data with the encoders of finished runs, and measure the embeddings with probes.

On a run's own data the numbers are those of its result.json.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import pucl
from pucl.commands.options import add_encoder, add_root, names
from pucl.evaluation import PROBES, known_numbers, numbers_in
from pucl.files import check_folder, write_json
from pucl.progress import Progress
from pucl.runs.trained import Evaluated, evaluate_run
from pucl.texts import fixed, percent, say, table

REFERENCE = "linear-reference"
ENOUGH_SAMPLES = 10_000  # From here on the recipe of the references takes enough steps to reach its optimum.


EXAMPLES = (
    "pucl eval runs/simclr-digits-pucl-seed-0",
    "pucl eval runs/simclr-digits/*/seed-0 --probes linear,knn --json numbers.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl eval``."""
    width = max(map(len, PROBES))
    probes = "\n".join(f"  {name:{width}}  {probe.about}" for name, probe in PROBES.items())
    parser.epilog = f"probes:\n{probes}"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directory of a finished run")
    probe = "some of the probes below (default: those of the run)"
    parser.add_argument("--probes", type=names, metavar="NAME,...", help=probe)
    parser.add_argument("--data", metavar="DATA", help="name of a data set, or a path (default: the data of each run)")
    add_encoder(parser)
    add_root(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file as well")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate each run and print the table."""
    if arguments.probes == []:
        raise ValueError(f"--probes names probes: expected one or more of {', '.join(PROBES)}, got none")
    check_folder("--json", arguments.json)
    done = []
    for directory in arguments.runs:
        progress = Progress(f"pucl eval: {directory}", "samples")
        try:
            options = {"source": arguments.data, "root": arguments.root, "encoder": arguments.encoder}
            done.append(evaluate_run(directory, arguments.probes, progress=progress, **options))
        finally:
            progress.close()
    say(as_text(done))
    fewest = min(each.samples for each in done)
    if any(REFERENCE in each.numbers for each in done) and fewest < ENOUGH_SAMPLES:
        say(
            f"\n{REFERENCE} is meant for {ENOUGH_SAMPLES:,} training samples or more: with {fewest:,} its 100 epochs "
            f"are too few steps, and its accuracy is too low"
        )
    for each in done:
        for name, recorded in each.recorded.items():
            if recorded != each.numbers[name]:
                say(
                    f"{each.run}: its result.json has {name} {percent(recorded)}, from another machine or version, "
                    f"or with other data",
                    error=True,
                )
    if arguments.json is not None:
        about = {"pucl": pucl.__version__, "torch": str(torch.__version__)}
        write_json(arguments.json, about | {"runs": [each.as_json() for each in done]})
        say(f"\nwritten: {arguments.json}")
    return 0


def as_text(done: Sequence[Evaluated]) -> str:
    """The table for a terminal, in percent."""
    names, known = numbers_in(each.numbers for each in done), known_numbers()
    rows = [["run", "data", *(f"{known[name].short}, %" for name in names)]]
    for each in done:
        numbers = [fixed(100 * each.numbers[name]) if name in each.numbers else "" for name in names]
        rows.append([each.run, each.data, *numbers])
    return table(rows)
