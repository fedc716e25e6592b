"""Check Lemma 1 and Theorem 1 by numbers, and draw the biases of the losses and their bound.

The data are classes on a sphere whose distributions are known exactly. There one can compare the loss with true
negatives (ideal), the loss that treats unlabelled samples as negatives (standard) and the corrected loss. The corrected
loss has three forms: with the exact mean over negatives, which Theorem 1 is about, and as training estimates it from
unlabelled samples, with one positive or with several.

Writes theory.json (all numbers) and theory.png (the figure). The same command writes the same bytes.
The exit code is 0 if Lemma 1 and Theorem 1 hold in every check, and 1 if one fails.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pucl.commands.options import add_setting, given
from pucl.files import write_json
from pucl.paper.theory.figure import draw_theory
from pucl.paper.theory.sweeps import LossEstimate, LossRow, TheoryResult, TheorySettings, check_theory
from pucl.progress import Progress
from pucl.reports.canvas import write_figures
from pucl.runs.tables import origin
from pucl.settings import read_settings
from pucl.texts import say, table

SETTINGS = [each for each in read_settings(TheorySettings) if each.meaning]
"""The settings that are options. The values of the sweeps are not."""

EXAMPLES = (
    "pucl theory",
    "pucl theory --alpha 0.2 --c 0.5 --unlabelled 512 --out theory-0.2",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl theory``."""
    parser.add_argument(
        "--out", type=Path, default=Path("theory"), metavar="DIR", help="where to write (default: theory)"
    )
    for each in SETTINGS:
        add_setting(parser, each, each.name, f"{each.meaning} (default: {each.default})")


def run(arguments: argparse.Namespace) -> int:
    """Run the checks, print and write the results; return 0 if all checks hold."""
    settings = TheorySettings(**given(arguments, *(each.name for each in SETTINGS)))
    out: Path = arguments.out
    if out.exists() and not out.is_dir():
        raise ValueError(
            f"--out is the directory of the results: expected a directory or a new name, got the file {out}"
        )
    out.mkdir(parents=True, exist_ok=True)  # Before the work, in case this fails.

    progress = Progress("pucl theory", "the work")
    try:
        result = check_theory(settings, lambda share: progress(share, 1))
    finally:
        progress.close()
    say(describe(result))

    numbers, figure = out / "theory.json", out / "theory.png"
    write_json(numbers, origin(arguments.command_line) | result.as_json())
    say(f"\nnumbers: {numbers}")
    say(f"figure:  {write_figures({figure: lambda: draw_theory(result)}) or figure}")
    return 0 if result.lemma_holds and result.bound_holds else 1


def describe(result: TheoryResult) -> str:
    """The results as text: the checks, the losses over each sweep, and what the correction leaves of the bias."""
    settings, base = result.settings, result.base
    rows = set(result.rows)
    inside = sum(row.within_bound for row in rows)
    closest = max(abs(row.exact.bias.value) / row.bound for row in rows)
    standard = base.standard.bias.value
    left = [
        abs(loss.bias.value / standard) if standard else 0.0 for loss in (base.corrected_one, base.corrected_several)
    ]
    return "\n\n".join(
        [
            f"{settings.classes} classes on a sphere, concentration {settings.concentration:g}, temperature "
            f"{settings.temperature:g}, {settings.trials} anchors, seed {settings.seed}",
            f"Lemma 1 at alpha = {base.alpha:g}, c = {base.c:g}, so tau' = {base.tau_plus:.4f}\n{_lemma(result)}",
            f"Losses minus the ideal loss, ± standard error. Floored: share of anchors at the floor, M+ = 1 and "
            f"{settings.positives}.",
            _sweep("N", f"alpha = {base.alpha:g}, c = {base.c:g}", settings.positives, result.over_unlabelled),
            _sweep("alpha", f"N = {base.unlabelled}, c = {base.c:g}", settings.positives, result.over_alpha),
            _sweep("c", f"N = {base.unlabelled}, alpha = {base.alpha:g}", settings.positives, result.over_c),
            f"Theorem 1: |exact - ideal| is within the bound in {inside} of {len(rows)} rows, at most {closest:.2g} of "
            f"it  {_verdict(result.bound_holds)}",
            f"At N = {base.unlabelled}, alpha = {base.alpha:g}, c = {base.c:g} the standard loss is {standard:+.3g} "
            f"from the ideal one.\nThe correction leaves {left[0]:.1%} of that bias with 1 positive and {left[1]:.1%} "
            f"with {settings.positives}.",
        ]
    )


def _verdict(holds: bool) -> str:
    return "holds" if holds else "FAILS"


def _lemma(result: TheoryResult) -> str:
    densities = result.lemma_densities
    error = f"largest relative error {densities.largest_error:.1e}"
    rows = [["check", "result", ""], [f"densities at {densities.points:,} points", error, _verdict(densities.holds)]]
    for check in result.lemma_samples:
        numbers = (
            f"expected {check.expected:.5g}, drawn {check.measured.value:.5g} ± {check.measured.error:.2g} "
            f"({check.deviation:+.1f} errors)"
        )
        rows.append([check.quantity, numbers, _verdict(check.holds)])
    return table(rows)


def _sweep(varies: str, fixed: str, positives: int, rows: Sequence[LossRow]) -> str:
    corrected = ["corrected, M+=1", f"corrected, M+={positives}", "corrected, exact"]
    lines = [[varies, "tau'", "ideal", "standard", *corrected, "bound", "floored"]]
    for row in rows:
        value = {"N": row.unlabelled, "alpha": row.alpha, "c": row.c}[varies]
        biases = [_bias(loss) for loss in (row.standard, row.corrected_one, row.corrected_several, row.exact)]
        floored = f"{row.corrected_one.floored:.1%} {row.corrected_several.floored:.1%}"
        lines.append(
            [str(value), f"{row.tau_plus:.3f}", f"{row.ideal.value:.3f}", *biases, f"{row.bound:.3g}", floored]
        )
    return f"{varies} varies, {fixed}\n{table(lines)}"


def _bias(loss: LossEstimate) -> str:
    return f"{loss.bias.value:+.6f}±{loss.bias.error:.6f}"
