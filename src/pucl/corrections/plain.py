"""No correction."""

from dataclasses import dataclass

from pucl.contrast.correction import Correction


@dataclass(frozen=True)
class Plain(Correction):
    """Treat every unlabelled sample as a negative, as InfoNCE and NT-Xent do.

    Uniform weights, odds 0. Unlabelled samples of the anchor's own class are pushed away with the rest. The other
    corrections are compared with this.
    """
