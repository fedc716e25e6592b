"""The ideal loss when labels are known: what every correction aims at."""

from dataclasses import replace

from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import pair_counts
from pucl.shapes import Int, Tensor


def without_false_negatives(
    pairs: Pairs, query_labels: Int[Tensor, " anchor"], key_labels: Int[Tensor, " unlabelled"]
) -> Pairs:
    r"""The same pairs less those of one class: what remains are true negatives.

    They speak for as many samples as were drawn, so N is what it was and the mean over negatives is the only
    thing that differs: :math:`N\, E^-[g]` without an estimate. A correction with odds 0 then gives the loss
    that the others estimate; Hard's tilt may be kept.

    An anchor whose unlabelled samples are all of its own class has no negative left, and its negative term is 0.
    """
    drawn = pair_counts(pairs)
    return replace(pairs, query_ids=query_labels, key_ids=key_labels, period=0, drawn=drawn)
