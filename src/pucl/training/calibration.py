"""How good the probabilities of a learning correction are, by the labels. No loss ever sees these labels."""

from collections.abc import Sequence

import torch

from pucl import processes
from pucl.contrast.correction import CorrectionState
from pucl.contrast.pairs import Comparison, Pairs
from pucl.estimation.calibration import Reliability, reliability
from pucl.shapes import Bool, Int, Tensor


@torch.no_grad()
def measure_calibration(
    state: CorrectionState, pairs_of_step: Sequence[Pairs], labels: Int[Tensor, " sample"]
) -> Reliability:
    """Compare r with the labels, for the pairs of one step of all processes that have r > 0.

    Pairs with r = 0 are left out: they are by far the most, and would make any r look good.

    Args:
        state: State of the correction, before it learns from this step.
        pairs_of_step: All pairs of this process.
        labels: The class of each sample.
    """
    found = Reliability.empty(labels.device)
    for pairs in pairs_of_step:
        reading = state.read(pairs)
        for comparison in pairs.measured().comparisons():
            hidden = reading.hidden(comparison)
            if hidden is not None:
                shown = (hidden > 0) & _known(comparison)
                found += reliability(hidden[shown], _same_class(comparison, labels)[shown])
    return found if processes.world_size() == 1 else found.map(processes.sum_over_processes)


def _known(comparison: Comparison) -> Bool[Tensor, "anchor unlabelled"]:
    """Which pairs count and are of known samples."""
    anchors, keys = comparison.sample_ids()
    known = (anchors >= 0)[:, None] & (keys >= 0)[None, :]
    return known if comparison.mask is None else known & comparison.mask


def _same_class(comparison: Comparison, labels: Int[Tensor, " sample"]) -> Bool[Tensor, "anchor unlabelled"]:
    anchors, keys = comparison.sample_ids()
    return labels[anchors][:, None] == labels[keys][None, :]


def calibration_metrics(found: Reliability) -> dict[str, float]:
    """The numbers for the record of an epoch; empty if no pair had r > 0."""
    if not found.pairs:
        return {}
    return {
        "calibration.error": found.expected_error,
        "calibration.brier": found.brier,
        "calibration.pairs": found.pairs,
    }
