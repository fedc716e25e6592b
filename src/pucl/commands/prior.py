"""Estimate from the similarities in finished runs what share of their unlabelled samples are hidden positives: tau'.

Takes training samples, sees them as the training did, compares each with each, and estimates from the cosines alone

  bbe      best bin estimation: the largest weight of known positives (two views of one image) that the unlabelled
           pairs have room for; not for graphs, which have no views
  mixture  the weight of the upper of two Gaussians fitted to the unlabelled pairs

beside tau' that the run used and, where there are labels, the truth: the share of pairs that are of one class. Labels
are used for nothing else. Either estimate may be far off, in either direction: the command says on how many pairs they
rest and what they assume. alpha and c follow by counting: known positives are M+ of the M+ + N samples that an anchor
meets in a step.
"""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

import torch

import pucl
from pucl.commands.loading import add_encoder
from pucl.diagnosis.priors import APART
from pucl.diagnosis.similarities import Similarities, measure_similarities
from pucl.files import check_folder, write_json
from pucl.texts import say, table

ANCHORS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl prior``."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directory of a finished run")
    parser.add_argument(
        "--anchors",
        type=int,
        default=ANCHORS,
        metavar="N",
        help="how many samples are compared with each other (default: %(default)s)",
    )
    add_encoder(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of samples and views (default: 0)")
    parser.add_argument("--root", type=Path, metavar="DIR", help="where data are kept (default: $PUCL_DATA or a cache)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the estimates to this file as well")


def run(arguments: argparse.Namespace) -> int:
    """Measure each run, print the table, and say what to make of it."""
    check_folder("--json", arguments.json)
    found = [
        measure_similarities(
            place,
            root=arguments.root,
            anchors=arguments.anchors,
            seed=arguments.seed,
            encoder=arguments.encoder,
        )
        for place in arguments.runs
    ]
    say(as_text(found, parameters=True))
    say(f"\n{advice(found)}")
    if arguments.json is not None:
        about = {
            "command": arguments.command_line,
            "pucl": pucl.__version__,
            "torch": str(torch.__version__),
            "seed": arguments.seed,
        }
        write_json(arguments.json, about | {"runs": [each.as_json() for each in found]})
        say(f"\nwritten: {arguments.json}")
    return 0


def as_text(found: Sequence[Similarities], *, parameters: bool = False) -> str:
    """The table for a terminal.

    Args:
        found: What was measured, a run each.
        parameters: Whether alpha and c that follow from the estimates are shown too.
    """
    header = ["run", "tau' used", "bbe", "mixture", "truth", "known positives", "pairs"]
    if parameters:
        header += ["M+", "N", "alpha, c by bbe", "alpha, c by mixture"]
    rows = [header]
    for each in found:
        low = None if each.best_bin is None else each.best_bin.tau_plus
        high = each.mixture.tau_plus
        doubt = "" if each.mixture.separation >= APART else " ?"
        cells = [str(each.run), _number(each.tau_plus), _number(low), _number(high) + doubt, _number(each.truth)]
        cells += ["" if each.positive is None else f"{len(each.positive):,}", f"{len(each.unlabelled):,}"]
        if parameters:
            cells += [str(each.positives_met), str(each.unlabelled_met)]
            cells += ["" if tau is None else "{:.4f}, {:.4f}".format(*each.parameters(tau)) for tau in (low, high)]
        rows.append(cells)
    return table(rows)


def advice(found: Sequence[Similarities]) -> str:
    """On what the estimates rest, and in which direction they may be off."""
    known = list(dict.fromkeys(each.known for each in found if each.positive is not None))
    words = []
    if known:
        words.append(
            f"bbe compares known positives ({' or '.join(known)}) with pairs of different samples, and assumes that "
            "hidden positives are as alike as known ones. They are mostly less alike: then it is too low. Where true "
            "negatives are as alike as known positives, it is too high; near 1 it says only that the encoder does not "
            "separate them."
        )
    words.append(
        "mixture looks at the pairs of different samples alone, and takes the upper of two Gaussians for the hidden "
        "positives: any other hump or tail of the cosines makes it too high, and hidden positives among the rest make "
        "it too low."
    )
    if any(each.mixture.separation < APART for each in found):
        words.append(
            f"With a question mark its two Gaussians are less than {APART:g} deviations apart, and it is little but a "
            "guess."
        )
    unlabelled = all(each.truth is None for each in found)
    check = "without labels nothing here can check it" if unlabelled else "compare it with the truth, which labels give"
    words.append(f"No estimate is a bound: {check}.")
    return textwrap.fill(" ".join(words), 112)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
