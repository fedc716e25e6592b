"""Measure what false negatives cost, and how much each correction brings back: ``python -m study``.

First the temperature of each row is chosen, on validation images. Then each row is trained at the temperature that is
best for plain, and at its own best one, and tested on the test images. Graphs are compared without a temperature and
tested on ten folds. After an interruption the same command continues: finished runs are not run again, others continue
from their checkpoints.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pucl.commands.experiments import add_experiment, finish, print_table
from pucl.config import PLAIN
from pucl.texts import say
from study.command import command_line, exit_code_of, names_of, parser_of
from study.plan import ROWS, SUBJECTS, best_temperatures, choice_part, final_part


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the tables, and return the exit code: 0 done, 1 a run failed, 2 wrong usage."""
    parser = parser_of("study", __doc__)
    parser.add_argument(
        "--parts", default=",".join(SUBJECTS), metavar="NAME,...", help=f"some of {', '.join(SUBJECTS)} (default: all)"
    )
    known = f"some of {', '.join(ROWS)}; plain included (default: those of the part, nearly always all)"
    parser.add_argument("--rows", metavar="NAME,...", help=known)
    add_experiment(parser, out="runs/study")
    parsed = parser.parse_args(arguments)
    parsed.command_line = command_line("study", arguments)
    return exit_code_of("study", lambda: _run(parsed))


def _run(arguments: argparse.Namespace) -> int:
    parts = names_of(arguments.parts, "part", SUBJECTS)
    rows = [] if arguments.rows is None else names_of(arguments.rows, "row", ROWS)
    if rows and PLAIN not in rows:
        raise ValueError(f"all rows are compared with {PLAIN}: expected it among the rows, got {', '.join(rows)}")
    subjects = [SUBJECTS[part] for part in parts]
    out = arguments.out or Path("runs/study")
    rows_of = {subject.name: rows or subject.rows for subject in subjects}
    best: dict[str, Mapping[str, float | None]] = {name: dict.fromkeys(chosen) for name, chosen in rows_of.items()}
    failed = []
    if tempered := [subject for subject in subjects if subject.reference_temperature is not None]:
        say("First the temperatures, chosen on validation images:")
        parts_of_choice = [choice_part(subject, rows_of[subject.name]) for subject in tempered]
        choice = print_table(parts_of_choice, out / "choice", arguments)
        best |= {subject.name: best_temperatures(choice, subject.name, rows_of[subject.name]) for subject in tempered}
        failed += choice.failed
        say("\nThen the rows, on test images:")
    final = print_table([final_part(subject, best[subject.name]) for subject in subjects], out / "rows", arguments)
    return finish(out / "rows", arguments, [*failed, *final.failed])


if __name__ == "__main__":
    sys.exit(main())
