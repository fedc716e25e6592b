"""The weights of an encoder in a file that outlives pucl: safetensors, with words on what to do with them.

The names are those of the modules: ``encoder.`` and ``head.`` for SimCLR and MoCo; ``encoders.0.`` (lightness),
``encoders.1.`` (colour) and ``heads.`` for CMC; ``encoder.``, ``local_head.`` and ``whole_head.`` for InfoGraph. Below
the prefix, encoders of images have the names of torchvision's ResNets, so that plain torch is enough::

    from safetensors import safe_open
    with safe_open("encoder.safetensors", "pt") as file:
        about = json.loads(file.metadata()["pucl"])  # encoder, stem, image size, colours, mean, std, config, ...
        state = {name.removeprefix("encoder."): file.get_tensor(name)
                 for name in file.keys() if name.startswith("encoder.")}
    network.load_state_dict(state)  # Of the same layers, without a classifier.

An encoder of the user's own has ``encoder.module.`` before its names.

The note holds the SHA-256 of everything else in the file. It tells damage, not forgery: whoever rewrites the file can
rewrite the digest too.
"""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

import pucl
from pucl.config import RunConfig
from pucl.data.errors import DataError, ExtraMissingError
from pucl.files import write_whole
from pucl.records import DamagedError, conform
from pucl.training.framework import Framework

PARTS = ("encoder", "head", "encoders", "heads", "local_head", "whole_head")
"""What a framework calls that which encodes. Queues, banks and slow copies have other names, and end with training."""

ABOUT = "pucl"  # One key for everything: safetensors writes several in an order that changes from call to call.
DIGEST = "sha256"  # In the note.


class About(TypedDict):
    """What the note of every encoder file says; it holds more, which depends on the kind of data."""

    config: dict[str, Any]
    features: int


def need_safetensors() -> None:
    """Say what is missing before work is begun."""
    try:
        import safetensors.torch  # noqa: F401, PLC0415
    except ImportError as error:
        raise ExtraMissingError("keeping an encoder", "safetensors") from error


def encoder_state(module: nn.Module) -> dict[str, Tensor]:
    """Those entries of a framework's state that encode: its encoders and heads, without memory and slow copies."""
    return {name: value for name, value in module.state_dict().items() if name.partition(".")[0] in PARTS}


def save_weights(path: Path, framework: Framework[Any], config: RunConfig, about: dict[str, Any]) -> None:
    """Write encoder and head, whole or not at all; the same weights give the same bytes.

    Args:
        path: Where to.
        framework: Whose weights. It may be on any device.
        config: The run that made them.
        about: What else someone needs to know who has nothing but the file; see `Task.about`.
    """
    need_safetensors()
    from safetensors.torch import save  # noqa: PLC0415

    # Copies, since safetensors takes neither two names for one memory nor the layout that convolutions like best.
    state = {name: value.detach().cpu().clone().contiguous() for name, value in encoder_state(framework).items()}
    note = {"version": pucl.__version__, "framework": config.framework, **about, "config": config.as_json()}
    write_whole(path, save(state, {ABOUT: json.dumps(note | {DIGEST: _digest(state, note)})}))


def _digest(state: dict[str, Tensor], note: dict[str, Any]) -> str:
    """The SHA-256 of all weights, with their names and shapes, and of the note without its digest."""
    digest = hashlib.sha256(json.dumps(note, sort_keys=True).encode())
    for name in sorted(state):
        digest.update(json.dumps([name, str(state[name].dtype), list(state[name].shape)]).encode())
        digest.update(state[name].contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the weights of a file, and what it says about them.

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


def load_weights(module: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Put weights into a framework that was built as the one they came from; the path is for the error."""
    expected = encoder_state(module)
    wrong = [name for name, value in expected.items() if name not in state or state[name].shape != value.shape]
    if wrong := wrong + [name for name in state if name not in expected]:
        raise DataError(
            f"{path} holds the weights of another network than its configuration names: {len(wrong)} of "
            f"{len(expected)} differ in name or shape, the first is {wrong[0]}"
        )
    module.load_state_dict(state, strict=False)
