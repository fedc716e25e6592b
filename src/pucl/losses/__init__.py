"""The losses as modules, called like lightly's: ``loss(z0, z1)``. One loss or one small family a file.

`ContrastiveLoss` is what they share, and explains the keywords of them all.
"""

from pucl.floored import FlooredWarning
from pucl.losses.bcl import BCLLoss
from pucl.losses.clusters import AutoLoss, ClustersLoss
from pucl.losses.contrastive import ContrastiveLoss
from pucl.losses.debiased import DebiasedLoss, HardLoss
from pucl.losses.glofnd import GloFNDLoss
from pucl.losses.oracle import OracleLoss, SupConLoss
from pucl.losses.plain import NTXentLoss
from pucl.losses.pucl import PUCLLoss
from pucl.losses.ratio import RatioLoss
from pucl.losses.ring import RingLoss

__all__ = [
    "AutoLoss",
    "BCLLoss",
    "ClustersLoss",
    "ContrastiveLoss",
    "DebiasedLoss",
    "FlooredWarning",
    "GloFNDLoss",
    "HardLoss",
    "NTXentLoss",
    "OracleLoss",
    "PUCLLoss",
    "RatioLoss",
    "RingLoss",
    "SupConLoss",
]
