"""The encoder of a run: save its weights to a file, load them again, and evaluate them.

The file outlives pucl. It is in the format safetensors, with a note that describes the weights. Their names are those
of the modules: ``encoder.`` and ``head.`` for SimCLR and MoCo; ``encoders.0.`` (lightness), ``encoders.1.`` (colour)
and ``heads.`` for CMC; ``encoder.``, ``local_head.`` and ``whole_head.`` for InfoGraph. Below the prefix, encoders of
images have the names of torchvision's ResNets, so that plain torch is enough::

    from safetensors import safe_open
    with safe_open("encoder.safetensors", "pt") as file:
        about = json.loads(file.metadata()["pucl"])  # encoder, stem, image size, colours, mean, std, config, ...
        state = {name.removeprefix("encoder."): file.get_tensor(name)
                 for name in file.keys() if name.startswith("encoder.")}
    network.load_state_dict(state)  # A network of the same layers, without a classifier.

A user's own encoder has ``encoder.module.`` before its names.

The note holds the SHA-256 of everything else in the file. It detects damage, not forgery: whoever rewrites the file can
rewrite the digest too.
"""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

import pucl
from pucl.config import RunConfig
from pucl.data.errors import DataError, ExtraMissingError
from pucl.files import write_whole
from pucl.frameworks import build_framework, modality_of
from pucl.frameworks.recipes import read_config
from pucl.modality import EncoderSource, ReportProgress, Trained
from pucl.records import DamagedError, MismatchError, conform
from pucl.runs.directory import RunDirectory
from pucl.training.framework import Framework

ABOUT = "pucl"  # One key for the whole note: safetensors writes several keys in a changing order.
DIGEST = "sha256"  # In the note.
EXPORTED = "model.safetensors"  # The same file in a folder that `pucl export` wrote.


class About(TypedDict):
    """The note of every encoder file; it may hold more, which depends on the modality."""

    config: dict[str, Any]
    features: int


def need_safetensors() -> None:
    """Raise if safetensors is missing, before any work begins."""
    try:
        import safetensors.torch  # noqa: F401, PLC0415
    except ImportError as error:
        raise ExtraMissingError("saving an encoder", "safetensors") from error


def encoder_state(framework: Framework[Any]) -> dict[str, Tensor]:
    """The state of a framework's encoders and heads; see `Framework.encodes`."""
    state = framework.state_dict()
    return {name: value for name, value in state.items() if name.partition(".")[0] in framework.encodes}


def save_weights(path: Path, framework: Framework[Any], config: RunConfig, about: dict[str, Any]) -> None:
    """Write encoder and head, whole or not at all. The same weights give the same bytes.

    The note has the configuration, and what `about` adds; see `Task.about`.
    """
    need_safetensors()
    # Copies: safetensors refuses shared memory and the channels-last layout of convolutions.
    state = {name: value.detach().cpu().clone().contiguous() for name, value in encoder_state(framework).items()}
    note = {"version": pucl.__version__, "framework": config.framework, **about, "config": config.as_json()}
    _write(path, state, note)


def copy_weights(run: Path, path: Path, config: RunConfig) -> None:
    """Copy the weights of a finished run to another file, with another configuration in the note."""
    state, about = read_weights(_find_weights(run))
    _write(path, state, about | {"config": config.as_json()})


def _write(path: Path, state: dict[str, Tensor], note: dict[str, Any]) -> None:
    from safetensors.torch import save  # noqa: PLC0415 (an extra)

    write_whole(path, save(state, {ABOUT: json.dumps(note | {DIGEST: _digest(state, note)})}))


def _digest(state: dict[str, Tensor], note: dict[str, Any]) -> str:
    """The SHA-256 of all weights, with their names and shapes, and of the note without its digest."""
    digest = hashlib.sha256(json.dumps(note, sort_keys=True).encode())
    for name in sorted(state):
        digest.update(json.dumps([name, str(state[name].dtype), list(state[name].shape)]).encode())
        digest.update(state[name].contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the weights and the note of a file.

    Raises:
        DamagedError: If anything in the file changed since it was written, or if it cannot be read.
        DataError: If pucl did not write it.
    """
    need_safetensors()
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no dictionary.
    except SafetensorError as error:
        raise DamagedError(path, f"expected weights as safetensors: {error}") from error
    if ABOUT not in metadata:
        raise DataError(f"{path} holds weights that pucl did not write: expected a note {ABOUT!r} about them")
    try:
        about: dict[str, Any] = conform(json.loads(metadata[ABOUT]), About, "its note")
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"its note {ABOUT!r} cannot be read: {error}") from error
    digest = about.pop(DIGEST, None)
    if digest is None:
        warnings.warn(f"{path} has no digest, so it cannot be checked for damage: an older pucl wrote it", stacklevel=2)
    elif digest != _digest(state, about):
        raise DamagedError(path, "its content does not match its digest")
    return state, about


def load_weights(framework: Framework[Any], state: dict[str, Tensor], path: Path) -> None:
    """Load weights into a framework with the same layers."""
    expected = encoder_state(framework)
    wrong = [name for name, value in expected.items() if name not in state or state[name].shape != value.shape]
    if wrong := wrong + [name for name in state if name not in expected]:
        raise DataError(
            f"{path} does not fit the network that its configuration names: {len(wrong)} of "
            f"{len(expected)} weights differ in name or shape, the first is {wrong[0]}"
        )
    framework.load_state_dict(state, strict=False)


def load(run: str | Path, *, encoder: EncoderSource | None = None) -> Trained:
    """Load the encoder of a finished run. Code that a file names is never run.

    Args:
        run: The run's directory, or its ``encoder.safetensors`` alone, or a directory of ``pucl export``.
        encoder: For a run that was trained with an encoder of your own, the same encoder: a class, function or
            ``"package.module:callable"`` that builds it, or a module with the same layers. For a run that began with a
            pretrained model which has moved since: its directory. The weights of the file are loaded into it.

    Raises:
        ValueError: If this is not a run, if it is not finished, or if its encoder must be named.
    """
    weights = _find_weights(Path(run).expanduser())
    state, about = read_weights(weights)
    try:
        config = read_config(about["config"])
        shape = modality_of(config).shape_of(about)
    except ValueError as error:
        raise DamagedError(weights, str(error)) from error
    _check_encoder(config, encoder, weights)
    with torch.random.fork_rng(devices=[]):  # Building draws random weights; the caller's generator stays as it is.
        framework = build_framework(config.for_encoding(), shape, encoder=encoder)
    load_weights(framework, state, weights)
    try:
        return modality_of(config).revive(config, framework, about)
    except MismatchError as error:
        raise DamagedError(weights, str(error)) from error


def _find_weights(path: Path) -> Path:
    """The file of weights: given itself, in the directory of a run, or in an exported one."""
    if path.is_file():
        return path
    directory = RunDirectory(path)
    if (path / EXPORTED).exists() and not directory.weights.exists():
        return path / EXPORTED
    if not directory.weights.exists():
        directory.config()  # Raises if this is not a run.
        raise ValueError(
            f"{directory.path} holds an unfinished run, which has no {directory.weights.name} yet: "
            f"the same `pucl train` command with --resume continues it"
        )
    return directory.weights


def _check_encoder(config: RunConfig, encoder: EncoderSource | None, weights: Path) -> None:
    """Refuse to run code that a file names, and an encoder where pucl has its own."""
    if config.foreign_encoder is None:
        if encoder is not None and config.pretrained_model is None:
            raise ValueError(f"{weights} holds an encoder of pucl's own: expected no other encoder to be named")
    elif encoder is None:
        raise ValueError(
            f"{weights} was trained with an encoder that is not pucl's; the file calls it {config.foreign_encoder!r}. "
            f"pucl runs no code that a file names. If you know and trust that code, name it yourself: "
            f"pucl.load(..., encoder=...), or --encoder package.module:callable on the command line"
        )


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A run and the numbers of its probes.

    Args:
        recorded: The same numbers in the run's own result; empty on other data.
        samples: Number of training samples.
    """

    run: str
    config: RunConfig
    data: str
    numbers: dict[str, float]
    recorded: dict[str, float]
    samples: int

    def as_json(self) -> dict[str, Any]:
        """The values for a record."""
        return {
            "run": self.run,
            "data": self.data,
            "accuracies": self.numbers,
            "recorded": self.recorded,
            "samples": self.samples,
            "config": self.config.as_json(),
        }


def evaluate_run(
    run: Path,
    probes: Sequence[str] | None,
    *,
    source: str | None = None,
    root: Path | None = None,
    progress: ReportProgress = lambda _done, _total: None,
    encoder: EncoderSource | None = None,
) -> Evaluated:
    """Embed data with the saved encoder, and measure the embeddings with probes.

    Classifiers of images are fitted on the training images and tested on the test images; those of graphs are
    cross-validated on ten folds.

    Args:
        run: Directory of a finished run.
        probes: Names of probes that fit the data; None for those of the run.
        source: A known name or a path; None for the run's own data.
        root: The directory of data sets.
        progress: Called before each batch with the number of embedded samples and of all samples.
        encoder: Builds the encoder if it is not pucl's; see `load`.
    """
    trained = load(run, encoder=encoder)
    found, samples = trained.evaluate(probes, source=source, root=root, progress=progress)
    result = None if source is not None or run.is_file() else RunDirectory(run).result()
    return Evaluated(
        run=str(run),
        config=trained.config,
        data=source or trained.config.data,
        numbers=found,
        recorded={name: result[name] for name in found if result and name in result},
        samples=samples,
    )
