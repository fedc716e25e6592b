"""Train with several corrections on the same data and seeds, and compare the results.

Each framework has settings of its own: `pucl compare FRAMEWORK --help` shows them. The data need labels.

Other rows stand beside the corrections: the untrained encoder, and two oracles, whose losses know the labels. The row
oracle leaves false negatives out, and shows what that can gain; oracle-attract makes positives of them. tilt-alone is
Hard without a prior. Finished runs are not trained again; interrupted runs continue.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from pucl import processes
from pucl.commands.configfile import add_config, check_encoder, fill_in, with_framework
from pucl.commands.experiments import add_workers, finish, report_failures, resources_of
from pucl.commands.frameworks import (
    OptionGroups,
    add_frameworks,
    changes,
    compared_rows,
    given_settings,
    settings_by_row,
)
from pucl.commands.naming import name_of_changes
from pucl.commands.options import names
from pucl.config import RunConfig
from pucl.devices import choose_device
from pucl.evaluation import number_named
from pucl.frameworks import modality_of
from pucl.frameworks.kind import FrameworkKind
from pucl.frameworks.recipes import modalities_of, recipe
from pucl.progress import StatusArea
from pucl.reports.canvas import write_figures
from pucl.reports.curves import draw_curves
from pucl.reports.scores import draw_scores
from pucl.runs.collection import RUNS
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.rows import as_text
from pucl.runs.tables import ComparedRows, compare_corrections
from pucl.texts import say

EXAMPLES = ("pucl compare simclr --help", "pucl compare simclr digits", "pucl compare infograph ENZYMES --seeds 5")
DEFAULTS: dict[str, Any] = {"corrections": None, "seeds": 3}
EXAMPLES_OF_FRAMEWORK = (
    "{data}",
    "{data} --corrections plain,pucl,oracle --seeds 5",
    "{path} --alpha 0.12 --c 0.1 --epochs 50 --workers 2",
)


expand = with_framework
"""Completes the arguments before they are parsed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl compare``."""
    add_frameworks(parser, _add_own, EXAMPLES_OF_FRAMEWORK)


def _add_own(groups: OptionGroups, kind: FrameworkKind) -> None:
    modalities = modalities_of(kind)
    rows = compared_rows(modalities)
    corrections = f"rows of the table, separated by commas (default: {','.join(rows)})"
    groups["correction"].add_argument("--corrections", type=names, choices=rows, metavar="NAME,...", help=corrections)
    run = groups["run"]
    yardstick = "number that leads the table and the page, such as linear, ARI or clustering_ari (default: mAP)"
    run.add_argument("--yardstick", metavar="NAME", type=number_named, default="", help=yardstick)
    run.add_argument("--seeds", type=int, metavar="N", help=f"number of seeds (default: {DEFAULTS['seeds']})")
    add_workers(run, default="one for each core" if any(each.side_by_side for each in modalities) else "1")
    add_config(run)
    out = "directory of the runs (default: runs/FRAMEWORK-DATA, and the settings that were given)"
    run.add_argument("--out", type=Path, metavar="DIR", help=out)


def run(arguments: argparse.Namespace) -> int:
    """Train all rows, print the table, and report where the results are."""
    fill_in(arguments, DEFAULTS, unused=("correction", "seed"))
    base = recipe(arguments.framework, arguments.data, arguments.recipe, **changes(arguments))
    check_encoder(base, arguments)
    modality = modality_of(base)
    corrections = compared_rows([modality]) if arguments.corrections is None else arguments.corrections
    resources = resources_of(arguments, workers=None if modality.side_by_side and not processes.launched() else 1)
    suffix = name_of_changes(base, arguments.recipe, given_settings(arguments))
    out = arguments.out or Path("runs") / f"{base.framework}-{Path(base.data).name}{suffix}"
    settings = settings_by_row(arguments, corrections)
    with (
        processes.torchrun_world(choose_device(arguments.device)),
        Display(StatusArea() if processes.rank() == 0 else None) as display,
    ):
        first = processes.rank() == 0
        compared = compare_corrections(
            base,
            corrections,
            arguments.seeds,
            out,
            settings=settings,
            resources=resources,
            display=display,
            command=arguments.command_line,
            yardstick=arguments.yardstick,
        )
    if not first:
        return 0
    say(as_text(compared.rows, yardstick=arguments.yardstick))
    report_failures(compared.failed)
    for words in plain_at_the_end(compared, out):
        say(words)
    say(f"\ntable: {out / 'comparison.json'} and comparison.csv\nruns:  {out}/CORRECTION/seed-N, collected in {RUNS}")
    say(f"plots: {draw(compared, base, out, arguments.yardstick)}")
    return finish(out, arguments, compared.failed)


def plain_at_the_end(compared: ComparedRows, out: Path) -> list[str]:
    """A line for each row whose correction corrected nothing in the last epoch of some runs, with the reason of one."""
    lines = []
    for name, paths in compared.runs.items():
        results = [RunDirectory(out / path).result() or {} for path in paths]
        plain = [str(each["correction.report"]) for each in results if each.get("correction.removed") == 0]
        if plain:
            lines.append(
                f"{name} corrected nothing at the end of {len(plain)} of {len(results)} runs, one says: {plain[0]}"
            )
    return lines


def draw(compared: ComparedRows, base: RunConfig, out: Path, yardstick: str) -> str:
    """Draw the comparison into its directory, and return a line that names the files."""
    histories = {name: [RunDirectory(out / path).history() for path in paths] for name, paths in compared.runs.items()}
    scores, curves = out / "scores.png", out / "curves.png"
    curves.unlink(missing_ok=True)
    figures = {scores: partial(draw_scores, compared.rows, subject=base.subject, yardstick=yardstick)}
    words = f"{scores}; no curves, since nothing was trained"
    if any(run for runs in histories.values() for run in runs):
        figures[curves] = partial(draw_curves, histories, subject=base.subject, cosines=base.compares_cosines)
        words = f"{scores} and {curves.name}"
    return write_figures(figures) or words
