"""Which way pairs are streamed, and whether at all."""

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.objectives import InfoNCE, JensenShannon, Objective, as_similarity, with_extra_positives
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import blocks, exponentials, rows, softplus
from pucl.contrast.summary import Summary
from pucl.shapes import Float, Tensor

PAYS_FROM = 1 << 17  # Logits from which streaming is faster than holding them; `python -m benchmarks loss` shows it.
NODES_PAY_FROM = 1 << 16  # The same for nodes against graphs, whose slopes are made on the way forth.
BLOCKS_PAY_FROM = 1 << 26  # The same for what goes by blocks of rows: slower, but 256 MiB a matrix is enough.


def stream(pairs: Pairs, correction: Correction, objective: Objective) -> Summary:
    """What `summarise` gives of ``pairs.comparison()``, in memory linear in the number of anchors."""
    positive, weight = None, pairs.positive_mask
    if not _by_tiles(pairs, correction, objective):
        average, count, similarity, extra, extra_weight = blocks.average(pairs, correction, objective)
        if extra.shape[1]:
            positive, weight = with_extra_positives(pairs.positives(), weight, extra, extra_weight)
    else:
        if not isinstance(objective, JensenShannon):
            average, met, logit_sum = exponentials.average(pairs, correction.tilt)
        elif rows.fit(pairs):
            average, met, logit_sum, positive = rows.average(pairs, correction.tilt)
        else:
            average, met, logit_sum = softplus.average(pairs, correction.tilt)
        count, similarity = correction.count(met, pairs.drawn), _mean_similarity(pairs, logit_sum, met)
    return Summary(
        positive=pairs.positives() if positive is None else positive,
        positive_weight=weight,
        unlabelled=average,
        count=count,
        lowest=pairs.lowest,
        temperature=pairs.temperature,
        unlabelled_similarity=similarity,
    )


def streaming_pays(pairs: Pairs, correction: Correction, objective: Objective) -> bool:
    """Whether the matrix of logits is so large that it is better made in parts."""
    anchors, unlabelled = pairs.shape
    if not _by_tiles(pairs, correction, objective):
        return anchors * unlabelled >= BLOCKS_PAY_FROM
    of_nodes = isinstance(objective, JensenShannon) and rows.fit(pairs)
    return anchors * unlabelled >= (NODES_PAY_FROM if of_nodes else PAYS_FROM)


def _by_tiles(pairs: Pairs, correction: Correction, objective: Objective) -> bool:
    return correction.is_tilted and isinstance(objective, InfoNCE | JensenShannon) and pairs.shared


def _mean_similarity(pairs: Pairs, logit_sum: Float[Tensor, ""], met: Float[Tensor, " anchor"]) -> Float[Tensor, ""]:
    """Of the pairs that count; 0 where there are none, and of the sum nothing is left but its rounding."""
    pairs_met = met.sum()
    return as_similarity(torch.where(pairs_met > 0, logit_sum / pairs_met.clamp_min(1), 0.0), pairs.temperature)
