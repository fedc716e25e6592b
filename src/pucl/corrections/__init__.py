"""The corrections, one idea a file. A new one is a file here and a line in `CORRECTIONS`."""

from pucl.contrast.correction import Correction, CorrectionState, ExtraPositives, Reading, StateReport
from pucl.contrast.pointwise import Pointwise, PointwiseTable
from pucl.corrections.auto import Auto
from pucl.corrections.bcl import BCL
from pucl.corrections.clusters import Clusters
from pucl.corrections.debiased import Debiased
from pucl.corrections.glofnd import GloFND
from pucl.corrections.hard import Hard
from pucl.corrections.plain import Plain
from pucl.corrections.pucl import PUCL
from pucl.corrections.ratio import Ratio
from pucl.corrections.ring import Ring

CORRECTIONS: dict[str, type[Correction]] = {
    "plain": Plain,
    "deb": Debiased,
    "hard": Hard,
    "ring": Ring,
    "pucl": PUCL,
    "bcl": BCL,
    "glofnd": GloFND,
    "clusters": Clusters,
    "ratio": Ratio,
    "auto": Auto,
}
"""Every correction by its name in `pucl train --correction` and in records."""

__all__ = [
    "BCL",
    "CORRECTIONS",
    "PUCL",
    "Auto",
    "Clusters",
    "Correction",
    "CorrectionState",
    "Debiased",
    "ExtraPositives",
    "GloFND",
    "Hard",
    "Plain",
    "Pointwise",
    "PointwiseTable",
    "Ratio",
    "Reading",
    "Ring",
    "StateReport",
]
