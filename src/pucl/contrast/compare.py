"""One step from pairs to an outcome, by whichever way is faster."""

from dataclasses import replace
from typing import Literal

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.grouping import pool
from pucl.contrast.objectives import OBJECTIVES, Floor, Outcome, conclude, summarise
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import pair_counts, stream, streaming_pays

ObjectiveName = Literal["infonce", "jensen_shannon"]


def compare(
    pairs: Pairs,
    correction: Correction,
    *,
    objective: ObjectiveName = "infonce",
    floor: Floor = "temperature",
    streaming: bool | None = None,
) -> Outcome:
    """Average the unlabelled samples under a correction, and take the loss of every anchor.

    Args:
        pairs: Who is compared with whom.
        correction: How unlabelled samples are read.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Below what an estimate over negatives cannot fall; see `Floor`.
        streaming: Never hold the anchors x unlabelled matrix. None: where that is faster.
    """
    check_objective(objective)
    form = OBJECTIVES[objective]
    if correction.tilt is None and pairs.query.device.type == "cpu" and not torch.compiler.is_compiling():
        correction.check_samples(int(pair_counts(pairs).max()))
    # Under autocast a matrix product would fall back to half precision.
    with torch.autocast(pairs.query.device.type, enabled=False):
        if streaming_pays(pairs, correction, form) if streaming is None else streaming:
            summary = stream(pairs, correction, form)
        else:
            summary = summarise(pairs.comparison(), correction, form)
        if pairs.group is not None:
            pooled, weight = pool(summary, pairs.group, form, pairs.copies)
            outcome = conclude(pooled, correction, form, floor)
            return replace(outcome, loss=outcome.loss * weight)
        outcome = conclude(summary, correction, form, floor)
        if pairs.copies is None:
            return outcome
        return replace(outcome, loss=outcome.loss * (pairs.copies * (len(pairs.copies) / pairs.copies.sum())))


def check_objective(objective: str) -> None:
    """Refuse what is no objective."""
    if objective not in OBJECTIVES:
        raise ValueError(f"objective is the form of the loss: expected one of {sorted(OBJECTIVES)}, got {objective!r}")
