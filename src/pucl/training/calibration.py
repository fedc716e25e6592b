"""How good the probabilities of a learning correction are, by the labels. No loss ever sees these labels."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from pucl import processes
from pucl.contrast.correction import CorrectionState
from pucl.contrast.pairs import Comparison, Pairs
from pucl.estimation.calibration import Reliability, reliability
from pucl.shapes import Bool, Int, Tensor

SAMPLES = 1_000
"""Training samples whose pairs are compared with the labels, where r depends on the samples of a pair alone."""


@torch.no_grad()
def measure_calibration(state: CorrectionState, pairs: Sequence[Pairs], labels: Int[Tensor, " sample"]) -> Reliability:
    """Compare r with the labels, for some pairs of all processes: those that have r > 0.

    Pairs with r = 0 are left out: they are by far the most, and would make any r look good.

    Args:
        state: State of the correction.
        pairs: Pairs of this process; all of a step, before the state learns from it, or `random_samples`.
        labels: The class of each sample.
    """
    found = Reliability.empty(labels.device)
    for each in pairs:
        reading = state.read(each)
        for comparison in each.measured().comparisons():
            hidden = reading.hidden(comparison)
            if hidden is not None:
                shown = (hidden > 0) & _known(comparison)
                found += reliability(hidden[shown], _same_class(comparison, labels)[shown])
    return found if processes.world_size() == 1 else found.map(processes.sum_over_processes)


def measure_step(
    state: CorrectionState, pairs_of_step: Sequence[Pairs], labels: Int[Tensor, " sample"]
) -> Reliability | None:
    """Compare r with the labels in a step, if it is known there alone: r of samples is measured by `random_samples`."""
    of_samples = state.read(pairs_of_step[0]).of_samples
    return None if of_samples else measure_calibration(state, pairs_of_step, labels)


def random_samples(state: CorrectionState, labels: Int[Tensor, " sample"]) -> Pairs | None:
    """Pairs among some samples, the same in each epoch, for an r that depends on the samples alone; None for another.

    They tell the r that a state has found when an epoch ends. The steps of this epoch had an earlier one. Each process
    has a part of the anchors.
    """
    chosen = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[:SAMPLES].to(labels.device)
    anchors = chosen[processes.rank() :: processes.world_size()]
    pairs = replace(pairs_of_samples(anchors, chosen), query_ids=anchors, key_ids=chosen)
    return pairs if state.read(pairs).of_samples else None


def pairs_of_samples(anchors: Int[Tensor, " anchor"], keys: Int[Tensor, " unlabelled"]) -> Pairs:
    """Pairs of samples by their ids, without embeddings."""
    device = anchors.device
    return Pairs(
        query=torch.zeros(len(anchors), 1, device=device),
        key=torch.zeros(len(keys), 1, device=device),
        positive=torch.zeros(len(anchors), 1, device=device),
        query_samples=anchors,
        key_samples=keys,
    )


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
