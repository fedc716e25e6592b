"""Estimate tau', the share of hidden positives among the unlabelled samples of a finished run.

The command compares training samples with each other, as the training did. From the cosines alone it computes

  bbe      best bin estimation: the largest share of the unlabelled pairs that can be distributed like the known
           positives (two views of one image). Graphs have no views, so they have no bbe.
  mixture  the weight of the upper of two Gaussians that are fitted to the unlabelled pairs

If the run's own correction has r, the probability that a pair is a hidden positive (ratio, clusters, auto), the table
has a third estimate from its record:

  mean r   the mean of r when the training ended; 0 if nothing was corrected by then
  ECE      the expected calibration error of r, by the labels of pairs with r above 0

The table also shows the tau' that the run used and, if there are labels, the truth: the share of pairs of the same
class. Labels are used for nothing else. All estimates can be far off, in either direction. alpha and c follow from an
estimate by counting: of the samples that an anchor meets in a step, M+ are known positives and N are unlabelled.
"""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

import torch

import pucl
from pucl.commands.options import add_encoder, add_root
from pucl.diagnosis.similarities import Similarities, measure_similarities
from pucl.estimation.calibration import CALIBRATED
from pucl.estimation.mixture import APART
from pucl.files import check_folder, write_json
from pucl.texts import say, table

ANCHORS = 1000

EXAMPLES = (
    "pucl prior runs/simclr-digits-pucl-seed-0",
    "pucl prior runs/first runs/second --anchors 2000 --json priors.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl prior``."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directory of a finished run")
    parser.add_argument(
        "--anchors",
        type=int,
        default=ANCHORS,
        metavar="N",
        help="number of samples that are compared with each other (default: %(default)s)",
    )
    add_encoder(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of samples and views (default: 0)")
    add_root(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the estimates to this file as well")


def run(arguments: argparse.Namespace) -> int:
    """Measure each run, print the table and what it means, and write the record."""
    check_folder("--json", arguments.json)
    found = [
        measure_similarities(
            directory,
            root=arguments.root,
            anchors=arguments.anchors,
            seed=arguments.seed,
            encoder=arguments.encoder,
        )
        for directory in arguments.runs
    ]
    say(as_text(found))
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


def as_text(found: Sequence[Similarities]) -> str:
    """A table with one line for each run."""
    with_r = any(each.mean_r is not None for each in found)
    header = ["run", "tau' used", "bbe", "mixture", *(["mean r", "ECE"] if with_r else []), "truth"]
    header += ["known positives", "pairs", "M+", "N", "alpha, c by bbe", "alpha, c by mixture"]
    rows = [header + (["alpha, c by r"] if with_r else [])]
    for each in found:
        by_bin, by_mixture = None if each.best_bin is None else each.best_bin.tau_plus, each.mixture.tau_plus
        estimates = [by_bin, by_mixture, *([each.mean_r] if with_r else [])]
        doubt = "" if each.mixture.separation >= APART else " ?"
        rows.append(
            [
                str(each.run),
                _number(each.tau_plus),
                _number(by_bin),
                _number(by_mixture) + doubt,
                *([_number(each.mean_r), _number(each.calibration_error)] if with_r else []),
                _number(each.truth),
                "" if each.positive is None else f"{len(each.positive):,}",
                f"{len(each.unlabelled):,}",
                str(each.positives_met),
                str(each.unlabelled_met),
                *("" if tau is None else "{:.4f}, {:.4f}".format(*each.parameters(tau)) for tau in estimates),
            ]
        )
    return table(rows)


def advice(found: Sequence[Similarities]) -> str:
    """What the estimates assume, and when they are too high or too low."""
    known = list(dict.fromkeys(each.known for each in found if each.positive is not None))
    sentences = []
    if known:
        sentences.append(
            f"bbe compares known positives ({' or '.join(known)}) with pairs of different samples. It assumes that "
            "hidden positives are as similar as known ones. Usually they are less similar, and bbe is too low. If true "
            "negatives are as similar as known positives, bbe is too high; near 1 it only says that the encoder does "
            "not separate them."
        )
    sentences.append(
        "mixture uses the pairs of different samples alone, and assumes that the upper of two Gaussians is the hidden "
        "positives. It is too high if the cosines have another peak or a long tail, and too low if hidden positives "
        "are as dissimilar as the other pairs."
    )
    if any(each.mixture.separation < APART for each in found):
        sentences.append(
            f"A question mark means that the two Gaussians are less than {APART:g} standard deviations apart: the "
            "estimate is then not reliable."
        )
    if any(each.mean_r is not None for each in found):
        sentences.append(_about_r(found))
    no_labels = all(each.truth is None for each in found)
    check = "without labels they cannot be checked" if no_labels else "compare them with the truth, which labels give"
    sentences.append(f"The estimates are not bounds: {check}.")
    return textwrap.fill(" ".join(sentences), 112)


def _about_r(found: Sequence[Similarities]) -> str:
    """What the mean of r rests on, and how far r can be trusted."""
    sentence = (
        "mean r is tau' as the run's own correction sees it. It says as much as r does: by its expected calibration "
        f"error (ECE), 0 is perfect, and above {CALIBRATED:g} r is a rank rather than a probability."
    )
    with_r = [each for each in found if each.mean_r is not None]
    bad = [str(each.run) for each in with_r if (each.calibration_error or 0) > CALIBRATED]
    if bad:
        sentence += f" It is above that in {', '.join(bad)}."
    if any(not each.mean_r for each in with_r):
        sentence += " Where mean r is 0, the correction was plain when the training ended."
    return sentence


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
