"""Check Lemma 1 and Theorem 1 by numbers, and draw the biases against the bound.

The world is a sphere with classes whose laws are known exactly. There the loss with true negatives (ideal), the loss
that takes unlabelled samples for negatives (standard) and the corrected loss can be compared without guesswork. The
corrected loss comes in three forms: with the exact mean over negatives, which is the one that Theorem 1 is about, and
as training estimates it from unlabelled samples, with one positive or with several.

Writes theory.json (all numbers) and theory.png (the figure). The same command writes the same bytes again.
The exit code is 0 if Lemma 1 and Theorem 1 hold in every check, and 1 if one fails.
"""

import argparse
import math
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path

import torch

import pucl
from pucl.files import write_json, write_whole
from pucl.paper.theory import Estimate, LossEstimate, Row, TheoryResult, TheorySettings, measure_theory
from pucl.paper.theory_figure import draw_theory
from pucl.progress import Progress
from pucl.reports.canvas import MatplotlibMissingError
from pucl.texts import say

DEFAULTS = TheorySettings()
DEFAULT_OUT = "theory"
OPTIONS: dict[str, tuple[type[int] | type[float], str]] = {
    "alpha": (float, "share of positives in the data"),
    "c": (float, "share of the positives that is labelled and removed"),
    "temperature": (float, "what similarities are divided by; the paper has 1"),
    "classes": (int, "number of classes on the sphere"),
    "concentration": (float, "how tight a class is; near 0 it is spread over the whole sphere"),
    "unlabelled": (int, "N, unlabelled samples per anchor, where alpha or c varies"),
    "positives": (int, "M+, positives per anchor, of the corrected loss with several"),
    "trials": (int, "anchors over which a loss is averaged; four times as many halve the errors"),
    "draws": (int, "size of the data set on which Lemma 1 is acted out"),
    "seed": (int, "seed of all random numbers"),
}
"""The settings that can be given, and what their help says. All are fields of `TheorySettings`."""

SURE = 3.0  # Standard errors from which the text calls a difference a difference.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl theory``."""
    parser.add_argument("--out", default=DEFAULT_OUT, metavar="DIR", help=f"where to write (default: {DEFAULT_OUT})")
    for name, (kind, meaning) in OPTIONS.items():
        default = getattr(DEFAULTS, name)
        parser.add_argument(
            f"--{name}",
            type=kind,
            default=default,
            metavar="N" if kind is int else "X",
            help=f"{meaning} (default: {default})",
        )


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write; 0 if every check holds."""
    settings = TheorySettings(**{name: getattr(arguments, name) for name in OPTIONS})
    out = Path(arguments.out)
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out is the folder for the results: expected a folder or a new name, got the file {out}")
    out.mkdir(parents=True, exist_ok=True)  # Now, so that a folder that cannot be made does not cost the work.

    progress = Progress("pucl theory", "the work")
    try:
        result = measure_theory(settings, lambda share: progress(share, 1))
    finally:
        progress.close()
    say("\n".join(describe(result)))

    record = {"command": command_line(arguments), "pucl": pucl.__version__, "torch": str(torch.__version__)}
    numbers, figure = out / "theory.json", out / "theory.png"
    write_json(numbers, record | result.as_json())
    say(f"\nnumbers: {numbers}")
    try:
        write_whole(figure, draw_theory(result))
        say(f"figure:  {figure}")
    except MatplotlibMissingError as error:
        figure.unlink(missing_ok=True)  # That of an earlier run would not go with these numbers.
        say(f"figure:  left out; {error}")
    return 0 if result.lemma_holds and result.bound_holds else 1


def command_line(arguments: argparse.Namespace) -> str:
    """The command that was given, in one order and without the options that repeat a default."""
    words = ["pucl", "theory"]
    for name in ("out", *OPTIONS):
        value = getattr(arguments, name)
        if value != (DEFAULT_OUT if name == "out" else getattr(DEFAULTS, name)):
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def describe(result: TheoryResult) -> list[str]:
    """The result as lines of text: the checks, the losses, and what they come to."""
    settings, base = result.settings, result.base
    return [
        f"{settings.classes} classes on a sphere, concentration {settings.concentration:g}, temperature "
        f"{settings.temperature:g}, {settings.trials} anchors, seed {settings.seed}",
        "",
        f"Lemma 1 at alpha = {base.alpha:g}, c = {base.c:g}, so tau' = {base.tau_plus:.4f}",
        *_lemma(result),
        "",
        f"Losses less the ideal loss, ± standard error. Floored: share of anchors at the floor, M+ = 1 and "
        f"{settings.positives}.",
        *_table("N", f"alpha = {base.alpha:g}, c = {base.c:g}", settings, result.over_unlabelled),
        *_table("alpha", f"N = {base.unlabelled}, c = {base.c:g}", settings, result.over_alpha),
        *_table("c", f"N = {base.unlabelled}, alpha = {base.alpha:g}", settings, result.over_c),
        "Theorem 1",
        _theorem(result),
        "",
        "In short",
        *(textwrap.fill(s, 112, initial_indent="- ", subsequent_indent="  ") for s in _conclusions(result)),
    ]


def _verdict(holds: bool) -> str:
    return "holds" if holds else "FAILS"


def _lemma(result: TheoryResult) -> list[str]:
    densities = result.lemma_densities
    lines = [
        (
            f"as densities, at {densities.points:,} points",
            f"largest relative error {densities.largest_error:.1e}",
            _verdict(densities.holds),
        )
    ]
    for check in result.lemma_samples:
        numbers = (
            f"expected {check.expected:.5g}, drawn {check.measured.value:.5g} ± {check.measured.error:.2g} "
            f"({check.deviation:+.1f} errors)"
        )
        lines.append((check.quantity, numbers, _verdict(check.holds)))
    return _aligned(lines, "<")


def _table(varies: str, fixed: str, settings: TheorySettings, rows: Sequence[Row]) -> list[str]:
    several = settings.positives
    lines = [
        (
            varies,
            "tau'",
            "ideal",
            "standard",
            "corrected, M+=1",
            f"corrected, M+={several}",
            "corrected, exact",
            "bound",
            "floored",
        )
    ]
    for row in rows:
        one, many = row.corrected_one, row.corrected_several
        lines.append(
            (
                str({"N": row.unlabelled, "alpha": row.alpha, "c": row.c}[varies]),
                f"{row.tau_plus:.3f}",
                f"{row.ideal.value:.3f}",
                _bias(row.standard),
                _bias(one),
                _bias(many),
                _bias(row.exact),
                f"{row.bound:.3g}",
                f"{one.floored:.1%} {many.floored:.1%}",
            )
        )
    return [f"  {varies} varies, {fixed}", *_aligned(lines, ">"), ""]


def _aligned(lines: Sequence[tuple[str, ...]], side: str) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  " + "  ".join(f"{cell:{side}{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines
    ]


def _bias(loss: LossEstimate) -> str:
    return f"{loss.bias.value:+.6f}±{loss.bias.error:.6f}"


def _theorem(result: TheoryResult) -> str:
    rows = set(result.rows)
    inside = sum(row.within_bound for row in rows)
    closest = max(abs(row.exact.bias.value) / row.bound for row in rows)
    return (
        f"  |exact - ideal| is within the bound in {inside} of {len(rows)} rows, at most {closest:.2g} of it  "
        f"{_verdict(result.bound_holds)}"
    )


def _conclusions(result: TheoryResult) -> list[str]:
    """What the numbers say, in words that follow from them."""
    base, first, last = result.base, result.over_unlabelled[0], result.over_unlabelled[-1]
    several, standard = result.settings.positives, base.standard.bias
    sentences = []
    here = f"At N = {base.unlabelled}, alpha = {base.alpha:g}, c = {base.c:g}"
    if _sure(standard):
        left = [abs(loss.bias.value / standard.value) for loss in (base.corrected_one, base.corrected_several)]
        sentences.append(
            f"{here} the standard loss is {abs(standard.value):.3g} {'above' if standard.value > 0 else 'below'} the "
            f"ideal one. The correction leaves {left[0]:.1%} of that bias with 1 positive and {left[1]:.1%} with "
            f"{several}{', so it does not help here' if min(left) >= 1 else ''}."
        )
    else:
        sentences.append(f"{here} the standard loss has no bias that could be measured.")
    if last.unlabelled > first.unlabelled and _sure(first.exact.bias) and _sure(last.exact.bias):
        fall = math.log(abs(first.exact.bias.value / last.exact.bias.value))
        sentences.append(
            f"From N = {first.unlabelled} to {last.unlabelled} the bias of the exact form falls as "
            f"1/N^{fall / math.log(last.unlabelled / first.unlabelled):.2f}, the bound as 1/N^0.5."
        )
    one, many, exact = (abs(loss.bias.value) for loss in (last.corrected_one, last.corrected_several, last.exact))
    if _sure(last.corrected_one.bias) and one > max(many, exact):
        sentences.append(
            f"At N = {last.unlabelled} the estimate from 1 positive keeps a bias of "
            f"{last.corrected_one.bias.value:+.2g}, from {several} one of {last.corrected_several.bias.value:+.2g}: "
            f"the noise of few positives{' and the floor' if last.corrected_one.floored > 0.01 else ''}, of which "
            f"Theorem 1 does not speak."
        )
    if _sure(standard):
        enough = base.unlabelled * (base.bound / standard.value) ** 2
        sentences.append(
            f"The bound is below the bias of the standard loss only from about N = {_rounded(enough)} on; with fewer "
            f"samples it cannot tell a corrected loss from a standard one."
        )
    worst = max(result.rows, key=lambda row: row.corrected_one.floored)
    if worst.corrected_one.floored > 0:
        sentences.append(
            f"Up to {worst.corrected_one.floored:.1%} of the anchors stand at the floor and learn nothing from their "
            f"negatives (1 positive, N = {worst.unlabelled}, alpha = {worst.alpha:g}, c = {worst.c:g})."
        )
    return sentences


def _rounded(number: float) -> str:
    """Two digits, and zeros as long as they can be read."""
    return f"{float(f'{number:.2g}'):,.0f}" if number < 1e9 else f"{number:.0e}"


def _sure(bias: Estimate) -> bool:
    return abs(bias.value) > SURE * bias.error
