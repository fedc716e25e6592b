"""Contrastive losses that know their negatives are only unlabelled."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pucl import adapters, corrections, functional, pairs
    from pucl.diagnosis.diagnose import Diagnosis
    from pucl.diagnosis.material import Labels, Vectors
    from pucl.diagnosis.suspects import Suspects
    from pucl.losses import (
        AutoLoss,
        BCLLoss,
        ClustersLoss,
        ContrastiveLoss,
        DebiasedLoss,
        FlooredWarning,
        GloFNDLoss,
        HardLoss,
        NTXentLoss,
        OracleLoss,
        PUCLLoss,
        RatioLoss,
        RingLoss,
        SupConLoss,
    )
    from pucl.modality import EncoderSource, Trained

__version__ = "0.2.0"

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
    "adapters",
    "corrections",
    "diagnose",
    "functional",
    "load",
    "pairs",
    "suspects",
]


def __getattr__(name: str) -> Any:
    """Import the losses and their modules when they are first used: `pucl --help` need not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'pucl' has no attribute {name!r}")
    if name.islower():
        return importlib.import_module(f"pucl.{name}")
    return getattr(importlib.import_module("pucl.losses"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load(run: str | Path, *, encoder: "EncoderSource | None" = None) -> "Trained":
    """Load the encoder of a finished run, ready to encode samples such as those that it was trained on.

    Args:
        run: The run's directory, or its ``encoder.safetensors`` alone.
        encoder: For a run that was trained with an encoder of your own, that encoder again: a class or function that
            makes it, ``"package.module:callable"``, or a module of the same layers. A file never says which code to
            run.

    Example::

        embeddings = pucl.load("runs/simclr-digits-pucl-seed-0").encode(images)  # float32 [n, features]
    """
    from pucl.runs.trained import load as load_trained  # noqa: PLC0415 - losses need none of it.

    return load_trained(run, encoder=encoder)


def diagnose(
    embeddings: "Vectors",
    views: "Vectors | None" = None,
    labels: "Labels | None" = None,
    *,
    temperature: float = 0.5,
    names: Sequence[str] | None = None,
    features: "Vectors | None" = None,
    seed: int = 0,
) -> "Diagnosis":
    """How many of the negatives of a contrastive loss are false, which, and what they cost. Nothing is trained.

    See `pucl.diagnosis.diagnose.diagnose` for the arguments and the method.

    Example::

        result = pucl.diagnose(embeddings, views=views, temperature=0.1)
        print(result)
        result.suspects(1000).write("pairs.csv")
    """
    from pucl.diagnosis.diagnose import diagnose as answer  # noqa: PLC0415 - losses need none of it.

    return answer(embeddings, views, labels, temperature=temperature, names=names, features=features, seed=seed)


def suspects(
    embeddings: "Vectors",
    views: "Vectors | None" = None,
    labels: "Labels | None" = None,
    *,
    count: int = 1000,
    temperature: float = 0.5,
    names: Sequence[str] | None = None,
    features: "Vectors | None" = None,
    seed: int = 0,
) -> "Suspects":
    """The pairs of samples that cost a contrastive loss most: pushed apart, though they probably belong together.

    The same as `diagnose` with these arguments, and then `Diagnosis.suspects(count)`.
    """
    result = diagnose(embeddings, views, labels, temperature=temperature, names=names, features=features, seed=seed)
    return result.suspects(count)
