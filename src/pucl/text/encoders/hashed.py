"""A small encoder without a vocabulary: hashed n-grams of words and characters, and one linear layer."""

import functools
import inspect
import itertools
import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from pucl.modality import OwnFormat, Portable
from pucl.samples import Features
from pucl.shapes import Float, Int, Tensor

CHARACTERS = (3, 4)  # Lengths of n-grams of characters.
REMEMBERED = 2**16  # Texts whose n-grams are kept.

START = 2e-3
"""Standard deviation of the first weights.

Only the directions of outputs count, so the scale of the weights is free. This scale makes a learning rate that suits a
pretrained transformer (2e-5 with Adam) as large for this table as 1e-2 is for weights of size 1.
"""


class HashedNgrams(nn.Module):
    r"""The mean of the vectors of a text's n-grams, scaled to length one.

    An n-gram is a word, two neighbouring words, or three or four neighbouring characters of a word with its ends. Its
    row in the table is a hash of it, so there is no vocabulary to learn or to keep. For counts :math:`x` of the rows of
    a text, the output is :math:`x W / \lVert x W \rVert`: a linear layer. With its first, random weights, cosines are
    about those of the counts.

    Args:
        buckets: Rows of the table W. N-grams that share a row are not distinguished.
        features: Dimension of the output.

    Shapes:
        A list of texts to [text, features].

    Example:
        >>> encoder = HashedNgrams(1024, 16)
        >>> encoder(["A cold day", "a cold day", "!"]).shape
        torch.Size([3, 16])
    """

    def __init__(self, buckets: int, features: int) -> None:
        super().__init__()
        self.features = features
        self.table = nn.EmbeddingBag(buckets, features, mode="mean")
        nn.init.normal_(self.table.weight, std=START)

    def forward(self, texts: Sequence[str]) -> Float[Tensor, "text feature"]:
        """The vectors of these texts."""
        buckets, device = self.table.num_embeddings, self.table.weight.device
        rows = [[number % buckets for number in hashes(text)] for text in texts]
        starts = [0, *itertools.accumulate(map(len, rows))][:-1]
        flat = torch.tensor(list(itertools.chain.from_iterable(rows)), device=device)
        means: Tensor = self.table(flat, torch.tensor(starts, device=device))
        return nn.functional.normalize(means, dim=1)

    def portable(self) -> Portable:
        """The table alone. Texts become rows of it by a few lines of Python, since graphs know no strings."""
        buckets = self.table.num_embeddings

        def draw(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, ...], Features]:
            words = torch.randint(1000, (count, 5), generator=generator).tolist()
            texts = [" ".join(f"word{number}" for number in line[: 1 + index % 5]) for index, line in enumerate(words)]
            lists = [torch.tensor(hashes(text)) % buckets for text in texts]
            rows = nn.utils.rnn.pad_sequence(lists, batch_first=True, padding_value=-1)
            with torch.no_grad():
                return (rows,), self(texts).numpy()

        return Portable(
            module=RowMeans(self.table.weight),
            axes={"rows": ("text", "ngram")},
            draw=draw,
            inputs="`rows`: int64 [text, ngram], the rows of the n-grams of each text, with -1 where a text has fewer.",
            usage=PREPARATION.format(characters=CHARACTERS, ngrams=inspect.getsource(ngrams), buckets=buckets),
        )

    @property
    def own_formats(self) -> Mapping[str, OwnFormat]:
        """None: no other library has this encoder."""
        return {}


class RowMeans(nn.Module):
    """What is left of `HashedNgrams` when n-grams are rows already.

    Args:
        table: The vector of each row, [row, feature].

    Shapes:
        [text, ngram], rows of the table with -1 where a text has fewer, to [text, feature].
    """

    def __init__(self, table: Float[Tensor, "row feature"]) -> None:
        super().__init__()
        self.table = nn.Parameter(table.detach(), requires_grad=False)

    def forward(self, rows: Int[Tensor, "text ngram"]) -> Float[Tensor, "text feature"]:
        """The mean of the vectors of each text, scaled to length one."""
        there = (rows >= 0)[:, :, None].to(self.table.dtype)
        means = (self.table[rows.clamp_min(0)] * there).sum(1) / there.sum(1)
        return nn.functional.normalize(means, dim=1)


PREPARATION = """\
import itertools, re, unicodedata, zlib
from collections.abc import Iterator
import numpy as np

CHARACTERS = {characters}

{ngrams}
texts = ["play some jazz", "will it rain?"]  # your texts
lists = [[zlib.crc32(ngram.encode()) % {buckets} for ngram in ngrams(text)] for text in texts]
rows = np.full((len(lists), max(map(len, lists))), -1, np.int64)
for row, numbers in zip(rows, lists):
    row[: len(numbers)] = numbers
inputs = {{"rows": rows}}"""
"""How texts become the input of `RowMeans`, for a model card."""


@functools.lru_cache(REMEMBERED)
def hashes(text: str) -> tuple[int, ...]:
    """The CRC-32 of each n-gram of a text; at least one. Upper and lower case are equal."""
    return tuple(zlib.crc32(ngram.encode()) for ngram in ngrams(text))


def ngrams(text: str) -> Iterator[str]:
    """The n-grams of a text.

    Example:
        >>> list(ngrams("Is it?"))
        ['is', 'it', 'is it', '#is', 'is#', '#is#', '#it', 'it#', '#it#']
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = re.findall(r"\w+", folded) or [folded.strip() or "#"]
    yield from words
    yield from (" ".join(two) for two in itertools.pairwise(words))
    for word in words:
        marked = f"#{word}#"
        for length in CHARACTERS:
            yield from (marked[start : start + length] for start in range(len(marked) - length + 1))
