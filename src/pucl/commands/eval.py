"""Embed data anew with the encoders of finished runs, and measure what classifiers make of the embeddings.

On a run's own data, linear and knn give what the run has in its result.json. The probes are

  linear            logistic regression to its optimum, as strong as cross-validation in the training set says
  linear-reference  the same by the recipe of the reference programs (Adam, 100 epochs), meant for 10,000 images or more
  knn               the weighted vote of the 200 nearest training images

and for graphs, each on ten folds,

  svm               support vector machine, its C chosen by inner folds: the references' protocol
  svm_scaled        the same on features scaled by each training set
  linear, knn       as above, with 10 neighbours

With both linear ones, the table has their difference too.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import pucl
from pucl.commands.loading import add_encoder
from pucl.files import check_folder, write_json
from pucl.graphs.config import GRAPH_PROBES
from pucl.progress import Progress
from pucl.runs.probing import ENOUGH_IMAGES, KNN, LINEAR, PROBES, REFERENCE, Evaluated, evaluate_run
from pucl.texts import fixed, percent, say, signed, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl eval``."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directory of a finished run")
    parser.add_argument(
        "--probe",
        metavar="NAME,...",
        help=f"which classifiers: for images {', '.join(PROBES)}, for graphs {', '.join(GRAPH_PROBES)} "
        f"(default: {LINEAR},{KNN} for images, those of the run for graphs)",
    )
    parser.add_argument("--data", metavar="DATA", help="a known name, folder or .npz file (default: each run's own)")
    add_encoder(parser)
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the accuracies to this file as well")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate each run and print the table."""
    probes = None
    if arguments.probe is not None:
        probes = list(dict.fromkeys(name for name in arguments.probe.split(",") if name))
        if not probes:
            raise ValueError(f"--probe names classifiers: expected one or more of {', '.join(PROBES)}, got none")
    check_folder("--json", arguments.json)
    done = []
    for place in arguments.runs:
        progress = Progress(f"pucl eval: {place}", "samples")
        try:
            evaluated = evaluate_run(
                place,
                probes,
                source=arguments.data,
                root=arguments.root,
                progress=progress,
                encoder=arguments.encoder,
            )
            done.append(evaluated)
        finally:
            progress.close()
    shown = list(dict.fromkeys(name for each in done for name in each.accuracies))
    say(as_text(done, shown))
    if REFERENCE in shown and (fewest := min(each.samples for each in done)) < ENOUGH_IMAGES:
        say(
            f"\n{REFERENCE} is meant for {ENOUGH_IMAGES:,} images or more: on {fewest:,} its 100 epochs are so few "
            f"steps that it stops short of what a linear classifier can do"
        )
    for each in done:
        for name, recorded in each.recorded.items():
            if recorded != each.accuracies[name]:
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


def as_text(done: Sequence[Evaluated], probes: Sequence[str]) -> str:
    """The table for a terminal: accuracies in percent."""
    both = {LINEAR, REFERENCE} <= set(probes)
    header = ["run", "data", *(f"{name}, %" for name in probes), *(["reference - linear"] if both else [])]
    rows = [header]
    for each in done:
        cells = [each.run, each.data]
        cells += [fixed(100 * each.accuracies[name]) if name in each.accuracies else "" for name in probes]
        if both:
            cells.append(signed(100 * (each.accuracies[REFERENCE] - each.accuracies[LINEAR])))
        rows.append(cells)
    return table(rows)
