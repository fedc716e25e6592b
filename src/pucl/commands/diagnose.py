"""How many negatives are false, and what do they cost? From embeddings alone, without training anything.

The command answers, for a contrastive loss that compares these embeddings:

  share    the share of false negatives among the unlabelled pairs, with an interval: pairs in groups of samples that
           two halves of the samples agree on, over all granularities that repeat
  cost     the share of the loss's gradient on unlabelled samples that pushes false negatives, by temperature
  floor    with views: the share of anchors that DEB and PUCL would have at their floor
  advice   which correction and setting to take

Where no groups repeat, it says so and estimates nothing. Labels are used for one thing: to show how right this is.

  RUN            directory of a finished run. Its training samples are embedded in two views, as its loss compares them
  FILE.npz       the arrays embeddings [sample, dim] and, if there are any, views (the positive of each sample), labels
                 and names; or a file of `pucl embed`
  FILE.npy       embeddings alone
  FILE.parquet   the columns embeddings (lists of numbers), views, labels and names
  FOLDER         a folder of such files, which are read in the order of their names as one set

Of more than 5,000 samples, 5,000 random ones are compared. Embeddings are divided by their length.
"""

import argparse
from pathlib import Path

import torch

import pucl
from pucl.commands.options import add_encoder, add_root
from pucl.diagnosis.diagnose import TEMPERATURE, Diagnosis, diagnose
from pucl.diagnosis.sources import Source, read_source
from pucl.files import check_folder, write_json
from pucl.progress import Progress
from pucl.texts import say

EXAMPLES = (
    "pucl diagnose embeddings.npz",
    "pucl diagnose embeddings.npz --temperature 0.1 --json answer.json",
    "pucl diagnose runs/simclr-digits-pucl-seed-0",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl diagnose``."""
    add_source(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer to this file as well")


def run(arguments: argparse.Namespace) -> int:
    """Diagnose, print the answer, and write the record."""
    check_folder("--json", arguments.json)
    source, result = ask(arguments)
    say(f"{source.note}\n\n{result}")
    if arguments.json is not None:
        write_json(arguments.json, about(arguments, source) | result.as_json())
        say(f"\nwritten: {arguments.json}")
    return 0


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add what is diagnosed, and how."""
    parser.add_argument(
        "source", type=Path, metavar="RUN|FILE|FOLDER", help="what to diagnose: a run, a file or a folder; see above"
    )
    temperature = f"temperature of the loss (default: that of the run, or {TEMPERATURE:g})"
    parser.add_argument("--temperature", type=float, metavar="X", help=temperature)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of random choices (default: 0)")
    add_encoder(parser)
    add_root(parser)


def ask(arguments: argparse.Namespace) -> tuple[Source, Diagnosis]:
    """Read what is to be diagnosed, and diagnose it."""
    source = read_source(arguments.source, root=arguments.root, encoder=arguments.encoder, seed=arguments.seed)
    given = (arguments.temperature, source.temperature, TEMPERATURE)
    progress = Progress(f"{source.note}: searching groups", "splits")
    try:
        result = diagnose(
            source.embeddings,
            source.views,
            source.labels,
            temperature=next(each for each in given if each is not None),
            names=source.names,
            features=source.features,
            seed=arguments.seed,
            progress=progress,
        )
    except ValueError as error:
        raise ValueError(f"{arguments.source}: {error}") from error
    finally:
        progress.close()
    return source, result


def about(arguments: argparse.Namespace, source: Source) -> dict[str, object]:
    """What a record says of how it was made."""
    return {
        "command": arguments.command_line,
        "pucl": pucl.__version__,
        "torch": str(torch.__version__),
        "source": source.note,
    }
