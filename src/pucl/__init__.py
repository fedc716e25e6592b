"""Contrastive losses that know their negatives are only unlabelled."""

from pathlib import Path
from typing import TYPE_CHECKING

from pucl import adapters, corrections, functional
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

if TYPE_CHECKING:
    from pucl.images.encoders.registry import EncoderSource
    from pucl.modality import Trained

__version__ = "0.1.0"

__all__ = [
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
    "load",
]


def load(run: str | Path, *, encoder: "EncoderSource | None" = None) -> "Trained":
    """Load the encoder of a finished run, ready to encode images (see `pucl.images.trained`) or graphs (see
    `pucl.graphs.trained`).

    Args:
        run: The run's directory, or its ``encoder.safetensors`` alone.
        encoder: For a run that was trained with an encoder of your own, that encoder again: what makes it (a class,
            function or ``"package.module:callable"``), or a module of the same layers. A file never says which code is
            run.

    Example::

        embeddings = pucl.load("runs/simclr-digits-pucl-seed-0").encode(images)  # float32 [n, features]
    """
    from pucl.runs.trained import load as load_trained  # noqa: PLC0415 - the losses need none of it.

    return load_trained(run, encoder=encoder)
