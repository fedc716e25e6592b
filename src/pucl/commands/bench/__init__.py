"""Measure what things cost, against their plain form, against the peers that are installed, and against the limit.

All contenders run in turn in one process, on the same data, and ratios are taken round by round: the machine may
be busy or change its pace, and the ratios stay.
"""

import argparse
from typing import Any

from pucl.commands.bench.graph import GRAPH
from pucl.commands.bench.grid import GRID
from pucl.commands.bench.loss import LOSS
from pucl.commands.bench.shared import Subject
from pucl.commands.bench.train import TRAIN

SUBJECTS: dict[str, Subject[Any, Any]] = {"loss": LOSS, "train": TRAIN, "graph": GRAPH, "grid": GRID}
"""What can be measured. A new one is a file here and a word in this line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, and the options that go with it."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True, title="subjects")
    for name, subject in SUBJECTS.items():
        subject.add_arguments(subjects.add_parser(name, help=subject.purpose, description=f"{subject.purpose}."))


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, and keep the figures if asked to."""
    return SUBJECTS[arguments.subject].run(arguments.subject, arguments)
