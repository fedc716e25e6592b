"""Encoders of texts by name: pucl's own, or a model of sentence-transformers by its directory or name."""

from torch import nn

from pucl.modality import EncoderSource
from pucl.text.encoders.hashed import HashedNgrams
from pucl.text.encoders.sentence import SentenceEncoder

HASHED = "hashed"


def is_pretrained(name: str) -> bool:
    """Whether a name is that of a model of sentence-transformers."""
    return name != HASHED


def make_encoder(source: EncoderSource, *, buckets: int, width: int, fetch: bool = True) -> nn.Module:
    """Make an encoder: a module that maps a list of texts to [text, features] and has an attribute `features`.

    Args:
        source: ``"hashed"``; or the directory or name of a model of sentence-transformers; or a module, which is used
            as it is.
        buckets: Rows of the table of `HashedNgrams`, whose weights are random (from torch's global generator).
        width: Its `features`.
        fetch: Whether a model may be downloaded by its name. It is not if a file names the model.
    """
    if isinstance(source, nn.Module):
        if not isinstance(getattr(source, "features", None), int):
            raise ValueError(
                f"an encoder of texts has an attribute features, the dimension of its output: expected an integer, got "
                f"{type(source).__name__} without"
            )
        return source
    if not isinstance(source, str):
        raise ValueError(f"encoder is {HASHED}, a model's directory or name, or a module, got {source!r}")
    return SentenceEncoder(source, fetch=fetch) if is_pretrained(source) else HashedNgrams(buckets, width)
