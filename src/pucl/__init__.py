"""Contrastive losses that know their negatives are only unlabelled."""

from pucl import adapters, corrections, functional
from pucl.corrections import Anneal
from pucl.losses import (
    ContrastiveLoss,
    DebiasedLoss,
    FlooredWarning,
    HardLoss,
    NTXentLoss,
    OracleLoss,
    PUCLLoss,
    RingLoss,
)

__version__ = "0.1.0"

__all__ = [
    "Anneal",
    "ContrastiveLoss",
    "DebiasedLoss",
    "FlooredWarning",
    "HardLoss",
    "NTXentLoss",
    "OracleLoss",
    "PUCLLoss",
    "RingLoss",
    "adapters",
    "corrections",
    "functional",
]
