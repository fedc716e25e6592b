"""Measure what known positives and corrections are worth on real pairs: ``python -m study.pairs``.

First the temperature of each row is chosen, on validation samples. Then each row is trained at its best temperature and
tested on test samples, those of classes that nothing was trained on too. After an interruption the same command
continues: finished trials are not run again.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from pucl.commands.options import add_root
from pucl.config import PLAIN, UNTRAINED, check_known, check_once
from pucl.files import write_json
from pucl.runs.rows import TableRow, as_text, make_row
from pucl.runs.statistics import Spread
from pucl.runs.tables import origin
from pucl.texts import say
from study.command import command_line, exit_code_of, parser_of
from study.pairs.plan import (
    CHOOSING_SEEDS,
    SUBJECTS,
    YARDSTICK,
    Subject,
    best_temperatures,
    check_rows,
)
from study.pairs.rows import ROWS
from study.pairs.texts import TEST
from study.pairs.trials import Finished, Trial, Trials

RECORD, TRIALS = "pairs.json", "trials.jsonl"
"""The files of a measurement: its tables, and a line for each trial."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the tables, and return the exit code: 0 done, 2 wrong usage."""
    parser = parser_of("study.pairs", __doc__)
    parser.add_argument(
        "--parts", default=",".join(SUBJECTS), metavar="NAME,...", help=f"some of {', '.join(SUBJECTS)} (default: all)"
    )
    parser.add_argument(
        "--rows",
        default=",".join(ROWS),
        metavar="NAME,...",
        help=f"some of {', '.join(ROWS)}, plain included (default: all)",
    )
    add_root(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/pairs"), metavar="DIR", help="trials and table (default: %(default)s)"
    )
    cache = "directory of the model and of features of texts, kept between runs (default: cache in --out)"
    parser.add_argument("--cache", type=Path, metavar="DIR", help=cache)
    parsed = parser.parse_args(arguments)
    command = command_line("study.pairs", arguments)
    return exit_code_of("study.pairs", lambda: _run(parsed, command))


def _run(arguments: argparse.Namespace, command: str) -> int:
    rows, parts = ([name for name in given.split(",") if name] for given in (arguments.rows, arguments.parts))
    check_once("rows are what is compared", rows)
    check_once("parts are what is measured", parts)
    for part in parts:
        check_known("part", part, SUBJECTS)
    for row in rows:
        check_known("row", row, ROWS)
    check_rows(rows)
    out, cache = arguments.out, arguments.cache or arguments.out / "cache"
    for directory in (out, cache):
        directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # The networks are small, and one thread gives the same numbers on every machine.
    trials = Trials(out / TRIALS)
    record: dict[str, Any] = {}
    for part in parts:
        record[part] = _measure(part, SUBJECTS[part], rows, trials, arguments.root, cache)
        write_json(out / RECORD, origin(command) | {"data": record})
    say(f"\ntable:  {out / RECORD}\ntrials: {out / TRIALS}")
    return 0


def _measure(
    part: str, subject: Subject, rows: Sequence[str], trials: Trials, root: Path | None, cache: Path
) -> dict[str, Any]:
    """Run the trials of a subject, print its tables, and return its record."""
    rows = [row for row in rows if row in subject.rows]
    chooser = subject.temperatures_of or part
    world, temperatures = SUBJECTS[chooser].load(root, cache), SUBJECTS[chooser].temperatures
    seeds = range(CHOOSING_SEEDS)
    choosing = {
        (row, temperature): [
            Trial(subject=chooser, row=row, temperature=temperature, seed=seed, validation=True) for seed in seeds
        ]
        for row in rows
        for temperature in temperatures
    }
    name = f"{part}: temperatures by validation"
    trials.run((trial for each in choosing.values() for trial in each), SUBJECTS[chooser], world, name)
    scores = {key: _mean(trials[trial] for trial in each) for key, each in choosing.items()}
    best = best_temperatures(scores, rows)
    if subject.temperatures_of:
        world = subject.load(root, cache)
    final = {
        row: [
            Trial(subject=part, row=row, temperature=at, seed=seed, validation=False) for seed in range(subject.seeds)
        ]
        for row, at in ({UNTRAINED: best[PLAIN]} | best).items()
    }
    # Seed by seed: after an interruption all rows have as many.
    ordered = (each[seed] for seed in range(subject.seeds) for each in final.values())
    trials.run(ordered, subject, world, f"{part}: rows by tests")
    results = {row: {trial.seed: trials[trial] for trial in each} for row, each in final.items()}
    lines: dict[str, list[TableRow]] = {}
    for searched in results[PLAIN][0].parts:
        lines[searched] = _rows(results, searched)
        say(f"\n{part}, {searched} ({subject.about})\n{as_text(lines[searched], yardstick=YARDSTICK)}")
    return {
        "about": subject.about,
        "temperatures": best,
        "temperatures_of": subject.temperatures_of,
        "choice": {row: {f"{at:g}": scores[row, at] for at in temperatures} for row in rows},
        "shares": {row: Spread.of([done.tau_plus for done in each.values()]).mean for row, each in results.items()},
        "parts": {searched: {"lines": [row.as_json() for row in each]} for searched, each in lines.items()},
    }


def _rows(results: dict[str, dict[int, Finished]], searched: str) -> list[TableRow]:
    """The rows of a table, of one part that was searched."""
    by_row = {
        row: {
            seed: done.parts[searched] | {"seconds": done.seconds, "tau_plus": done.tau_plus, "floored": done.floored}
            for seed, done in each.items()
        }
        for row, each in results.items()
    }
    kinds = {UNTRAINED: UNTRAINED} | {name: row.kind for name, row in ROWS.items()}
    return [make_row(row, kinds[row], each, None if row == PLAIN else by_row[PLAIN]) for row, each in by_row.items()]


def _mean(finished: Iterable[Finished]) -> float:
    return 100 * Spread.of([each.parts[TEST][YARDSTICK] for each in finished]).mean


if __name__ == "__main__":
    sys.exit(main())
