"""Load the encoder of a finished run."""

from pathlib import Path

import torch

from pucl.config import RunConfig
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.recipes import read_config
from pucl.images.encoders.registry import EncoderSource
from pucl.modality import Trained
from pucl.records import DamagedError, MismatchError
from pucl.runs.build import build_framework
from pucl.runs.directory import RunDirectory
from pucl.runs.weights import load_weights, read_weights


def load(run: str | Path, *, encoder: EncoderSource | None = None) -> Trained:
    """Load the encoder of a finished run. No code is run that a file names.

    Args:
        run: The run's directory, or its ``encoder.safetensors`` alone.
        encoder: For a run that was trained with an encoder of your own, that encoder again: what makes it (a class,
            function or ``"package.module:callable"``), or a module of the same layers. The file's weights are put into
            it.

    Raises:
        ValueError: If it is no run, one that is not finished, or one whose encoder must be named.
    """
    path = Path(run).expanduser()
    weights = path if path.is_file() else _weights_of(RunDirectory(path))
    state, about = read_weights(weights)
    try:
        config = read_config(about["config"])
        shape = FRAMEWORKS[config.framework].modality.shape_of(about)
    except ValueError as error:
        raise DamagedError(weights, str(error)) from error
    _check_encoder(config, encoder, weights)
    with torch.random.fork_rng(devices=[]):  # Building draws weights; the caller's random numbers stay as they are.
        framework = build_framework(config.for_encoding(), shape, encoder=encoder)
    load_weights(framework, state, weights)
    try:
        return FRAMEWORKS[config.framework].modality.revive(config, framework, about)
    except MismatchError as error:
        raise DamagedError(weights, str(error)) from error


def _weights_of(directory: RunDirectory) -> Path:
    if not directory.weights.exists():
        directory.config()  # Raises where this is no run at all.
        raise ValueError(
            f"{directory.path} holds a run that is not finished, so there is no {directory.weights.name} yet: "
            f"the same `pucl train` with --resume goes on with it"
        )
    return directory.weights


def _check_encoder(config: RunConfig, encoder: EncoderSource | None, weights: Path) -> None:
    """Refuse to take the name of code from a file, and code where none is needed."""
    if config.foreign_encoder is None:
        if encoder is not None:
            raise ValueError(f"{weights} holds an encoder of pucl's own: expected no other encoder to be named")
    elif encoder is None:
        raise ValueError(
            f"{weights} was trained with an encoder that is not pucl's; the file calls it {config.foreign_encoder!r}. "
            f"pucl runs no code that a file names. If you know and trust that code, name it yourself: "
            f"pucl.load(..., encoder=...), or --encoder package.module:callable on the command line"
        )
