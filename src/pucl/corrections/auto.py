"""The automatic correction: it finds hidden positives in the data, and is plain until it has found some."""

from dataclasses import dataclass

from pucl.contrast.correction import Correction
from pucl.corrections.clusters import Clusters, ClusterState

FINDS = Clusters(attraction=1.0)
"""What finds hidden positives today."""


@dataclass(frozen=True, kw_only=True)
class Auto(Correction):
    r"""The correction that finds hidden positives without a prior. Until it does, it is `Plain`, bit by bit.

    There is nothing to set. The weights are :math:`w_i \propto 1 - r_i` with :math:`\omega = 0`, and at most half of
    plain's sum is removed for an anchor. Today r comes from `Clusters`. Sure mates are attracted: together they weigh
    as much as the given positive.
    """

    def start(self, samples: int | None) -> ClusterState:
        """The state of `Clusters` with attraction."""
        return FINDS.start(samples)

    def never_corrects(self, epochs: int) -> str | None:
        """The answer of `Clusters`."""
        return FINDS.never_corrects(epochs)
