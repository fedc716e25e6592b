"""Train with several corrections on the same data and seeds, and show what each was worth.

FRAMEWORK is simclr, moco or cmc for images, infograph for graphs. DATA is a known name (digits, cifar10, ENZYMES, ...;
see `pucl data list`) or a path: a folder of pictures with labels as sub-folders, a .npz file, or a directory with
graphs as NAME_A.txt and so on.

Beside the corrections stand the encoder without training and the oracle, whose loss knows the labels: what a correction
can win lies between plain and oracle. What is finished is not run again, what was interrupted goes on.
"""

import argparse
from pathlib import Path

from pucl import processes
from pucl.commands.means import add_means, add_page, means_of, page_of, tell_failed
from pucl.commands.train import (
    add_run_arguments,
    changes,
    check_settings,
    correction_settings,
    given_settings,
    name_of_changes,
)
from pucl.config import ROWS, RunConfig
from pucl.devices import choose_device
from pucl.files import write_whole
from pucl.frameworks.recipes import recipe
from pucl.progress import StatusArea
from pucl.reports.canvas import MatplotlibMissingError
from pucl.reports.curves import draw_accuracies, draw_curves
from pucl.runs.build import modality_of
from pucl.runs.collection import RUNS
from pucl.runs.compare import Comparison, compare_corrections
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.lines import as_text
from pucl.texts import say

EVERYTHING = "untrained,plain,deb,hard,ring,pucl,oracle"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl compare``."""
    add_run_arguments(parser)
    parser.add_argument(
        "--corrections", metavar="NAME,...", help=f"rows (default: {EVERYTHING}, and raw features for graphs)"
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="how many seeds (default: %(default)s)")
    add_means(parser, workers="1 for images, all cores for graphs")
    add_page(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where the runs go (default: runs/FRAMEWORK-DATA, and the settings that were given)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run all rows, print the table, and say where everything is."""
    base = recipe(arguments.framework, arguments.data, arguments.recipe, **changes(arguments))
    modality = modality_of(base)
    everything = ",".join((*modality.extra_rows, EVERYTHING))
    given = everything if arguments.corrections is None else arguments.corrections
    corrections = [name for name in given.split(",") if name]
    means = means_of(arguments, workers=None if modality.side_by_side and not processes.launched() else 1)
    suffix = name_of_changes(base, arguments.recipe, given_settings(arguments))
    out = arguments.out or Path("runs") / f"{base.framework}-{Path(base.data).name}{suffix}"
    check_settings(arguments, corrections)
    with (
        processes.torchrun_world(choose_device(arguments.device)),
        Display(StatusArea() if processes.rank() == 0 else None) as display,
    ):
        first = processes.rank() == 0
        comparison = compare_corrections(
            base,
            corrections,
            arguments.seeds,
            out,
            settings={name: correction_settings(arguments, name) for name in ROWS},
            means=means,
            display=display,
            command=arguments.command_line,
        )
    if not first:
        return 0
    say(as_text(comparison.lines))
    tell_failed(words for line in comparison.lines for words in line.failed)
    say(f"\ntable: {out / 'comparison.json'} and comparison.csv\nruns:  {out}/CORRECTION/seed-N, collected in {RUNS}")
    say(f"plots: {draw(comparison, base, out)}")
    say(f"page:  {page_of(out, arguments)}")
    return 1 if any(line.failed for line in comparison.lines) else 0


def draw(comparison: Comparison, base: RunConfig, out: Path) -> str:
    """Draw the comparison into its directory, and say in words what is there."""
    subject = f"{base.framework} on {Path(base.data).name}"
    histories = {
        name: [RunDirectory(out / place).history() for place in places] for name, places in comparison.runs.items()
    }
    accuracies, curves = out / "accuracies.png", out / "curves.png"
    for file in (accuracies, curves):
        file.unlink(missing_ok=True)  # That of an earlier comparison would not go with these numbers.
    try:
        write_whole(accuracies, draw_accuracies(comparison.lines, subject=subject))
        if not any(run for runs in histories.values() for run in runs):
            return f"{accuracies}; nothing was trained, so there are no curves"
        write_whole(curves, draw_curves(histories, subject=subject, cosines=base.compares_cosines))
    except MatplotlibMissingError as error:
        return f"left out; {error}"
    return f"{accuracies} and {curves.name}"
