"""Measure what pucl costs, compared with its dense form, with other libraries and with a lower bound.

All contenders run in turn in one process on the same data. Ratios are taken round by round, so that a busy machine or a
changing clock rate slows both sides and cancels.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.graph_report import GRAPH
from benchmarks.grid import GRID
from benchmarks.loss_report import LOSS
from benchmarks.subject import Subject
from benchmarks.train_report import TRAIN

SUBJECTS: dict[str, Subject[Any, Any]] = {subject.name: subject for subject in (LOSS, TRAIN, GRAPH, GRID)}
"""What can be measured. A new subject is a new module and a name in this line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return the exit code: 0 done, 1 a check failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True, title="subjects")
    for name, subject in SUBJECTS.items():
        subject.add_arguments(commands.add_parser(name, help=subject.purpose, description=f"{subject.purpose}."))
    parsed = parser.parse_args(arguments)
    try:
        return SUBJECTS[parsed.subject].run(parsed)
    except (ValueError, OSError) as error:
        print(f"benchmarks {parsed.subject}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
