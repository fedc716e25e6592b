"""A diagnosis in words."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pucl.diagnosis.cost import Cost
from pucl.estimation.calibration import CALIBRATED
from pucl.estimation.granularity import COMMON
from pucl.texts import capitalised, fixed, percent, table

if TYPE_CHECKING:
    from pucl.diagnosis.diagnose import Diagnosis, Truth

WIDTH = 110
WORTH = 0.05  # Share of the push from which a correction is worth its trouble.
FEW_CLASSES = 0.3  # Share of false negatives from which there are two or three groups, which auto may not find.


def report(result: "Diagnosis") -> str:
    """The whole answer, for a terminal."""
    parts = [_subject(result), _share(result), _costs(result)]
    if result.truth is not None:
        parts.append(_right(result, result.truth))
    parts.append(f"What to do: {result.advice}")
    return "\n\n".join(part if "\n" in part else textwrap.fill(part, WIDTH) for part in parts)


def advice(share: float | None, cost: Cost, refused: str | None) -> str:
    """Which correction and setting to take, in one sentence."""
    if refused is not None or share is None or cost.share is None:
        return (
            "train with plain (NTXentLoss), or with auto (AutoLoss), which stays plain until groups repeat: nothing in "
            "these embeddings says which negatives are false."
        )
    push = percent(cost.share, 1)
    if max(cost.share, cost.most or 0.0) < WORTH:
        return (
            f"stay with plain (NTXentLoss(temperature={cost.temperature:g})): about {push} of its push is on false "
            f"negatives, which a correction would hardly change."
        )
    floored = (
        "" if cost.floored is None else f", which would have {percent(cost.floored, 0)} of the anchors at its floor"
    )
    prior = f"a loss with a fixed prior would be DebiasedLoss(tau_plus={_digits(share)}){floored}."
    if share < COMMON:
        return (
            f"leave the costliest pairs out (`pucl suspects`, then --exclude or groups of the loss): groups are small, "
            f"and auto finds coarser ones in such data; {prior}"
        )
    few = "" if share < FEW_CLASSES else ", though with two or three groups it may stay plain, and says so"
    return (
        f"train with auto (AutoLoss(temperature={cost.temperature:g}), or pucl train --correction auto): it finds such "
        f"groups itself and needs no prior{few}; {prior}"
    )


def _subject(result: "Diagnosis") -> str:
    views = "with views" if result.views else "without views"
    text = f"{result.samples:,} samples of {result.dim} dimensions, {views}; temperature {result.temperature:g}."
    if result.compared < result.samples:
        text += f" Estimates rest on {result.compared:,} random ones."
    return text


def _share(result: "Diagnosis") -> str:
    if result.share is None or result.interval is None:
        return f"Share of false negatives: it cannot be told. {capitalised(result.refused or '')}."
    low, high = (percent(end, 1) for end in result.interval)
    used = [level for level in result.levels if level.repeats]
    numbers = [level.communities for level in used]
    best = max(level.agreement for level in used)
    text = (
        f"Share of false negatives: {percent(result.share, 1)} of the unlabelled pairs ({low} to {high}). It rests on "
        f"groups of samples that two halves of them agree on (adjusted Rand index up to {fixed(best)}; 0 is chance). "
        f"{_counts(numbers)} groups repeat; the interval is over all of these. If classes are meant coarser or finer "
        f"than that, the share is another."
    )
    if result.best_bin is not None:
        text += (
            f" By the views (bbe) the share is {percent(result.best_bin, 1)}; this is too low if views are more alike "
            f"than two samples of one class."
        )
    return textwrap.fill(text, WIDTH)


def _counts(numbers: Sequence[float]) -> str:
    """The smallest and the largest of some numbers of groups."""
    low, high = f"{min(numbers):.0f}", f"{max(numbers):.0f}"
    return low if low == high else f"Between {low} and {high}"


def _costs(result: "Diagnosis") -> str:
    """A table with a line for each temperature."""
    columns = ["temperature", "push on false negatives", "range"]
    labelled = any(cost.truth is not None for cost in result.costs)
    floored = any(cost.floored is not None for cost in result.costs)
    columns += ["by the labels"] * labelled + ["anchors at the floor (DEB, PUCL)"] * floored
    rows = []
    for cost in result.costs:
        row = [f"{cost.temperature:g}{' *' if cost.temperature == result.temperature else ''}", _percent(cost.share)]
        row.append("" if cost.least is None else f"{_percent(cost.least)} to {_percent(cost.most)}")
        rows.append(row + [_percent(cost.truth)] * labelled + [_percent(cost.floored)] * floored)
    if result.share is None and not labelled:
        return "What false negatives cost cannot be told either."
    return table([columns, *rows])


def _right(result: "Diagnosis", truth: "Truth") -> str:
    text = f"By the labels {percent(truth.share, 1)} of the pairs are of one class"
    if truth.inside is None:
        return f"{text}."
    text += ", inside the interval." if truth.inside else ", outside of the interval."
    if truth.calibration_error is not None:
        reading = "may be read as a probability" if result.calibrated else "is a rank and no probability"
        text += (
            f" The r of single pairs, which comes from these groups, {reading}: its expected calibration error is "
            f"{fixed(truth.calibration_error)}, and up to {CALIBRATED:g} counts as calibrated."
        )
    return text


def _percent(share: float | None) -> str:
    return "" if share is None else percent(share, 1)


def _digits(share: float) -> str:
    """A share with two digits that count."""
    return f"{share:.2g}"
