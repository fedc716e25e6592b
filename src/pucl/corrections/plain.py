"""No correction."""

from dataclasses import dataclass

from pucl.contrast.correction import Correction


@dataclass(frozen=True)
class Plain(Correction):
    """Take every unlabelled sample for a negative, as InfoNCE and NT-Xent do.

    Uniform weights, odds 0. Where some unlabelled samples are of the anchor's class, this pushes them
    away with the rest; how much that costs is what the other corrections are measured against.
    """
