"""The corrections, one idea a file. A new one is a file here and a line in `CORRECTIONS`."""

from pucl.contrast.correction import Correction, CorrectionState, ExtraPositives
from pucl.corrections.debiased import Debiased
from pucl.corrections.hard import Hard
from pucl.corrections.plain import Plain
from pucl.corrections.pucl import PUCL
from pucl.corrections.ring import Ring

CORRECTIONS: dict[str, type[Correction]] = {
    "plain": Plain,
    "deb": Debiased,
    "hard": Hard,
    "ring": Ring,
    "pucl": PUCL,
}

__all__ = [
    "CORRECTIONS",
    "PUCL",
    "Correction",
    "CorrectionState",
    "Debiased",
    "ExtraPositives",
    "Hard",
    "Plain",
    "Ring",
]
