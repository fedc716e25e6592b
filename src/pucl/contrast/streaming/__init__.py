"""The same averages without ever holding the anchors x unlabelled matrix.

There are five ways, each in its own file: `exponentials`, `softplus` and `tabled` (weights from a table) sum tile by
tile, `rows` computes whole rows of nodes against graphs, and `blocks` is for any correction. The objective picks one
of the first four, if it can (`Objective.tiling`). They share `tiles` (and excluded pairs), `totals` (counts and sums
that need no pass over the tiles), `cutoff` and `gradients`. `mates` sums over the positives of known groups, which may
be as many as the unlabelled.
"""

from dataclasses import replace

import torch

from pucl.contrast.averages import Averages
from pucl.contrast.correction import Correction
from pucl.contrast.objective import Objective, Tiling
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import blocks
from pucl.contrast.streaming.mates import StreamedMates
from pucl.contrast.streaming.tiles import TILE
from pucl.contrast.streaming.totals import pair_counts

__all__ = ["BLOCKS_PAY_FROM", "TILE", "pair_counts", "stream", "streaming_pays"]

BLOCKS_PAY_FROM = 1 << 26  # Number of logits: blocks of rows are slower, but a matrix would take 256 MiB.


def stream(pairs: Pairs, correction: Correction, objective: Objective) -> Averages:
    """The result of `average_unlabelled`, in memory linear in the number of anchors."""
    tiling = objective.tiling(pairs, correction)
    whole = blocks.average(pairs, correction, objective) if tiling is None else _by_tiles(pairs, correction, tiling)
    return whole if pairs.groups is None else replace(whole, mates=StreamedMates.of(pairs, pairs.groups))


def _by_tiles(pairs: Pairs, correction: Correction, tiling: Tiling) -> Averages:
    """The averages over the unlabelled, and the positives without mates."""
    sums = tiling.sums(pairs, correction)
    pairs_met = sums.met.sum()
    # Without any pair, the sum is only a rounding error.
    mean = torch.where(pairs_met > 0, sums.logit_sum / pairs_met.clamp_min(1), 0.0)
    return Averages(
        positive=pairs.positives() if sums.positive is None else sums.positive,
        positive_weight=pairs.positive_mask,
        unlabelled=sums.average,
        count=correction.count(sums.met if sums.weighed is None else sums.weighed, pairs.drawn),
        lowest=pairs.lowest,
        temperature=pairs.temperature,
        unlabelled_similarity=mean * pairs.temperature,
    )


def streaming_pays(pairs: Pairs, correction: Correction, objective: Objective) -> bool:
    """Whether the matrix of logits is so large that streaming is faster."""
    anchors, unlabelled = pairs.shape
    tiling = objective.tiling(pairs, correction)
    return anchors * unlabelled >= (BLOCKS_PAY_FROM if tiling is None else tiling.pays_from)
