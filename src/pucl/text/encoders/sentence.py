"""A pretrained encoder: any model of sentence-transformers that needs no code of its own."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pucl.data.errors import DataError, ExtraMissingError, reason_of
from pucl.modality import OwnFormat, Portable
from pucl.samples import Features
from pucl.shapes import Float, Tensor

MODULES = "modules.json"  # The file that names the layers of a model.
OWN = "sentence_transformers."  # How the names of the library's own layers begin.


class SentenceEncoder(nn.Module):
    """A model of sentence-transformers, with its tokenizer, pooling and normalisation.

    Code that comes with a model is never run: ``trust_remote_code`` is off, and layers must be the library's own.

    Args:
        source: Directory of a model, or its name.
        fetch: Whether it may be downloaded by its name.

    Shapes:
        A list of texts to [text, features].
    """

    def __init__(self, source: str, *, fetch: bool = True) -> None:
        super().__init__()
        self.model = _load(source, fetch=fetch)
        self.features = int(self.model.get_embedding_dimension())

    def forward(self, texts: Sequence[str]) -> Float[Tensor, "text feature"]:
        """The vectors of these texts. Those that are longer than the model's limit are cut."""
        device = next(self.model.parameters()).device
        tokens = self.model.preprocess(list(texts))
        moved = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in tokens.items()}
        vectors: Tensor = self.model(moved)["sentence_embedding"]
        return vectors

    def portable(self) -> Portable:
        """There is none: a graph of tensors would lack the tokenizer."""
        raise ValueError(
            "this encoder is a model of sentence-transformers, which a graph of tensors would cut off from its "
            'tokenizer: give --format sentence-transformers; SentenceTransformer(DIR, backend="onnx") then exports it'
        )

    @property
    def own_formats(self) -> Mapping[str, OwnFormat]:
        """A directory of sentence-transformers."""

        def write(directory: Path) -> tuple[Features, Features]:
            self.model.save(str(directory), create_model_card=False)
            texts = ["play some jazz", "will it rain?", "a longer text, with more words than the other two"]
            again = SentenceEncoder(str(directory), fetch=False).eval()
            with torch.no_grad():
                return again(texts).numpy(), self(texts).numpy()

        usage = (
            "from sentence_transformers import SentenceTransformer\n\n"
            'model = SentenceTransformer(".")  # this directory\n'
            'features = model.encode(["play some jazz", "will it rain?"])'
        )
        return {"sentence-transformers": OwnFormat(library="sentence-transformers", write=write, usage=usage)}


def _load(source: str, *, fetch: bool) -> Any:
    path = Path(source).expanduser()
    local = path.is_dir()
    if local:
        check_model(path)
    elif path.exists() or source.startswith((".", "/", "~")):
        raise DataError(
            f"encoder is a directory of a sentence-transformers model: expected one with {MODULES}, got {source}, "
            f"{'a file' if path.exists() else 'which does not exist'}; if the model has moved, give --encoder DIRECTORY"
        )
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415
        from transformers.utils import logging  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissingError(f"the encoder {source}", "sentence-transformers", "text") from error
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # It would appear in each run of a comparison.
    try:
        return SentenceTransformer(
            str(path) if local else source, device="cpu", trust_remote_code=False, local_files_only=local or not fetch
        )
    except Exception as error:  # Of several libraries, for damaged files, unknown names and an absent network.
        where = "in its directory" if local else "on this machine" if not fetch else "on this machine or the hub"
        raise DataError(
            f"encoder {source} cannot be loaded: expected hashed, or a model of sentence-transformers {where}; "
            f"{type(error).__name__}: {reason_of(error)}"
        ) from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()


def check_model(directory: Path) -> None:
    """Refuse a directory that is no model, or whose model needs code that is not the library's own."""
    path = directory / MODULES
    if not path.is_file():
        raise DataError(
            f"encoder is a directory of a sentence-transformers model: expected a file {MODULES} in it, got "
            f"{directory} without; `SentenceTransformer(...).save(DIRECTORY)` writes one"
        )
    try:
        layers = [str(layer["type"]) for layer in json.loads(path.read_bytes())]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise DataError(
            f"{path} is damaged: expected a list of layers, each with a type; {reason_of(error)}"
        ) from error
    for layer in layers:
        if not layer.startswith(OWN):
            raise DataError(
                f"{path} names {layer!r}, which is not a layer of sentence-transformers: pucl runs no code that a file "
                f"names; choose a model without code of its own"
            )
