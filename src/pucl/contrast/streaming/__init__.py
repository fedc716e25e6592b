"""The same averages without ever holding the anchors x unlabelled matrix.

`stream` picks one of five ways, each in its own file: `exponentials`, `softplus` and `tabled` (weights from a table)
sum tile by tile, `rows` computes whole rows of nodes against graphs, and `blocks` is for any correction. They share
`tiles` (and excluded pairs), `totals` (counts and sums that need no pass over the tiles), `cutoff` and `gradients`.
`mates` sums over the positives of known groups, which may be as many as the unlabelled.
"""

from dataclasses import replace

import torch

from pucl.contrast.averages import Averages
from pucl.contrast.correction import Correction
from pucl.contrast.objectives import InfoNCE, JensenShannon, Objective
from pucl.contrast.pairs import Pairs
from pucl.contrast.pointwise import PointwiseTable
from pucl.contrast.streaming import blocks, exponentials, rows, softplus, tabled
from pucl.contrast.streaming.mates import StreamedMates
from pucl.contrast.streaming.tiles import TILE
from pucl.contrast.streaming.totals import pair_counts

__all__ = ["BLOCKS_PAY_FROM", "NODES_PAY_FROM", "PAYS_FROM", "TILE", "pair_counts", "stream", "streaming_pays"]

PAYS_FROM = 1 << 17  # Number of logits from which streaming is faster; see `python -m benchmarks loss`.
NODES_PAY_FROM = 1 << 16  # The same for nodes against graphs, whose slopes are computed in the forward pass.
BLOCKS_PAY_FROM = 1 << 26  # The same for blocks of rows: these are slower, but a matrix would take 256 MiB.


def stream(pairs: Pairs, correction: Correction, objective: Objective) -> Averages:
    """The result of `average_unlabelled`, in memory linear in the number of anchors."""
    averages = _stream(pairs, correction, objective)
    return averages if pairs.groups is None else replace(averages, mates=StreamedMates.of(pairs, pairs.groups))


def _stream(pairs: Pairs, correction: Correction, objective: Objective) -> Averages:
    """The averages over the unlabelled, and the positives without mates."""
    if not _by_tiles(pairs, correction, objective):
        return blocks.average(pairs, correction, objective)
    positive, weighed = None, None
    if isinstance(correction, PointwiseTable):
        average, met, logit_sum, weighed = tabled.average(pairs, correction)
    elif isinstance(objective, InfoNCE):
        average, met, logit_sum = exponentials.average(pairs, correction.tilt)
    elif rows.fit(pairs):
        average, met, logit_sum, positive = rows.average(pairs, correction.tilt)
    else:
        average, met, logit_sum = softplus.average(pairs, correction.tilt)
    pairs_met = met.sum()
    # Without any pair, the sum is only a rounding error.
    mean = torch.where(pairs_met > 0, logit_sum / pairs_met.clamp_min(1), 0.0)
    return Averages(
        positive=pairs.positives() if positive is None else positive,
        positive_weight=pairs.positive_mask,
        unlabelled=average,
        count=correction.count(met if weighed is None else weighed, pairs.drawn),
        lowest=pairs.lowest,
        temperature=pairs.temperature,
        unlabelled_similarity=mean * pairs.temperature,
    )


def streaming_pays(pairs: Pairs, correction: Correction, objective: Objective) -> bool:
    """Whether the matrix of logits is so large that streaming is faster."""
    anchors, unlabelled = pairs.shape
    if not _by_tiles(pairs, correction, objective):
        return anchors * unlabelled >= BLOCKS_PAY_FROM
    of_nodes = isinstance(objective, JensenShannon) and rows.fit(pairs)
    return anchors * unlabelled >= (NODES_PAY_FROM if of_nodes else PAYS_FROM)


def _by_tiles(pairs: Pairs, correction: Correction, objective: Objective) -> bool:
    if isinstance(correction, PointwiseTable):
        return isinstance(objective, InfoNCE) and tabled.fit(pairs)
    return correction.is_tilted and pairs.shared
