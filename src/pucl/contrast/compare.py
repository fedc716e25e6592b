"""One step from pairs to an outcome, by whichever way is faster."""

from dataclasses import replace
from typing import Literal

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.grouping import pool
from pucl.contrast.objectives import OBJECTIVES, Floor, Outcome, check_floor, conclude, summarise
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import pair_counts, stream, streaming_pays
from pucl.precision import full_precision

ObjectiveName = Literal["infonce", "jensen_shannon"]


def compare(
    pairs: Pairs,
    correction: Correction,
    *,
    objective: ObjectiveName = "infonce",
    floor: Floor = "auto",
    streaming: bool | None = None,
    expected: int | None = None,
) -> Outcome:
    """Average the unlabelled samples under a correction, and take the loss of every anchor.

    Args:
        pairs: Who is compared with whom.
        correction: How unlabelled samples are read. Of a correction that learns, its reading of these pairs.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Below what an estimate over negatives cannot fall; see `Floor`.
        streaming: Never hold the anchors x unlabelled matrix. None: where that is faster.
        expected: How many unlabelled samples there will be, if not yet as many as now: those of a queue that fills up.
    """
    check_correction(correction)
    if correction.learns:
        raise ValueError(
            f"{type(correction).__name__} learns: expected its reading of these pairs, got its settings; use a "
            f"ContrastiveLoss, or start(samples).read(pairs)"
        )
    check_objective(objective)
    check_floor(floor, objective)
    form = OBJECTIVES[objective]
    minds_number = type(correction).check_samples is not Correction.check_samples
    if minds_number and pairs.query.device.type == "cpu" and not torch.compiler.is_compiling():
        correction.check_samples(int(pair_counts(pairs).max()) if expected is None else expected)
    # Under autocast a matrix product would fall back to half precision.
    with full_precision(pairs.query.device):
        if streaming_pays(pairs, correction, form) if streaming is None else streaming:
            summary = stream(pairs, correction, form)
        else:
            summary = summarise(pairs.comparison(), correction, form)
        if pairs.group is not None:
            pooled, weight = pool(summary, pairs.group, pairs.copies)
            outcome = conclude(pooled, correction, form, floor)
            return replace(outcome, loss=outcome.loss * weight)
        copies = None if pairs.copies is None else pairs.copies.to(summary.positive.dtype)
        outcome = conclude(replace(summary, copies=copies), correction, form, floor)
        if copies is None:
            return outcome
        return replace(outcome, loss=outcome.loss * (copies * (len(copies) / copies.sum())))


def check_correction(correction: object) -> None:
    """Refuse what is no correction, such as its class."""
    if not isinstance(correction, Correction):
        raise TypeError(f"correction says how unlabelled samples are read: expected a Correction, got {correction!r}")


def check_objective(objective: str) -> None:
    """Refuse what is no objective."""
    if objective not in OBJECTIVES:
        raise ValueError(f"objective is the form of the loss: expected one of {sorted(OBJECTIVES)}, got {objective!r}")
