"""Check pairs before they are trained on: duplicates, what they do to a batch, how pairs look, and what to set."""

import itertools
import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.text.advice import Recommended, advise, recommend
from pucl.text.duplicates import words_of
from pucl.text.groups import group_pairs
from pucl.text.look import Look
from pucl.text.textset import TextSet
from pucl.texts import shortened

SHOWN = 60  # Characters of a text in a report.


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Pairs that are known to belong together, and how often they meet in a batch of random pairs.

    Args:
        groups: Number of groups, including groups of a single pair.
        grouped: Pairs whose group has another pair.
        largest: Pairs of the largest group.
        negatives: Share of an anchor's negatives in the batch that are of its own group: known positives.
        anchors: Share of the anchors that meet such a negative.
    """

    groups: int
    grouped: int
    largest: int
    negatives: float
    anchors: float


@dataclass(frozen=True, kw_only=True)
class CheckedPairs:
    """The result of `check_pairs`. A file of texts with labels is checked text by text.

    Args:
        pairs: Number of pairs.
        texts: Number of different texts.
        copies: Pairs that are equal to an earlier one.
        alike: Pairs whose two texts have the same words.
        commonest: The text that occurs most often.
        times: How often it occurs.
        same: Groups of pairs that share a text.
        near: Groups of pairs that share a text or have near-duplicates.
        batch_size: Pairs of a batch.
        same_class: Share of an anchor's negatives that are of its class; None without labels.
        look: How the pairs look to an encoder; None if none was given.
        settings: What to set for a training.
        advice: What to do with the pairs, in one sentence.
    """

    pairs: int
    texts: int
    copies: int
    alike: int
    commonest: str
    times: int
    same: Grouping
    near: Grouping
    batch_size: int
    same_class: float | None
    look: Look | None
    settings: Recommended
    advice: str

    def as_json(self) -> dict[str, Any]:
        """The values for a record."""
        return asdict(self) | {"look": None if self.look is None else self.look.as_json()}


def check_pairs(texts: TextSet, batch_size: int, look: Look | None = None) -> CheckedPairs:
    """Find duplicates and near-duplicates across pairs, count what they do to a batch, and say what to set.

    A batch takes the partners of all other pairs for negatives. If two pairs share a text, this is wrong, and it is
    known without any model. Near-duplicates are texts with the same words, in any order, whatever their case and
    punctuation. `pucl.text.find_duplicates` lists them.

    Args:
        texts: Pairs, or texts with labels.
        batch_size: Pairs of a batch, drawn at random.
        look: How the pairs look to an encoder, by `pucl.text.look_at_pairs`. It says which correction may help.

    Example:
        >>> pairs = TextSet(texts=("a", "a", "Pay now!", "d"), seconds=("b", "c", "x", "now pay"))
        >>> found = check_pairs(pairs, batch_size=2)
        >>> found.same.groups, found.near.groups, round(found.near.negatives, 2)
        (3, 2, 0.33)
    """
    if len(texts) < 2:
        raise DataError("the other pairs of a batch are its negatives: expected two pairs or more, got one")
    if not 2 <= batch_size <= len(texts):
        raise ValueError(
            f"batch_size is the number of pairs in a step: expected 2 to {len(texts)}, the number of pairs, got "
            f"{batch_size}"
        )
    columns = [[text.strip() for text in each] for each in (texts.texts, texts.seconds) if each is not None]
    rows = list(zip(*columns, strict=True))
    counts = Counter(itertools.chain.from_iterable(columns))
    commonest, times = counts.most_common(1)[0]
    keys = [list(map(words_of, column)) for column in columns]
    same, near = (_grouping(group_pairs(*each), batch_size) for each in (columns, keys))
    same_class = None if texts.labels is None else _negatives(np.bincount(texts.labels))
    return CheckedPairs(
        pairs=len(texts),
        texts=len(counts),
        copies=len(rows) - len(set(rows)),
        alike=sum(one == other for one, other in zip(*keys, strict=True)) if texts.seconds is not None else 0,
        commonest=shortened(commonest, SHOWN),
        times=times,
        same=same,
        near=near,
        batch_size=batch_size,
        same_class=same_class,
        look=look,
        settings=recommend(look, known=same_class, largest=same.largest, pairs=len(texts), batch_size=batch_size),
        advice=advise(
            anchors=(same.anchors, near.anchors),
            largest=same.largest,
            pairs=len(texts),
            batch_size=batch_size,
            commonest=shortened(commonest, SHOWN),
        ),
    )


def _grouping(groups: NDArray[np.int64], batch_size: int) -> Grouping:
    sizes = np.bincount(groups)
    chance = {size: _chance_to_meet(int(size), len(groups), batch_size) for size in np.unique(sizes)}
    return Grouping(
        groups=len(sizes),
        grouped=int(sizes[sizes > 1].sum()),
        largest=int(sizes.max()),
        negatives=_negatives(sizes),
        anchors=float(sum(size * chance[size] for size in sizes) / len(groups)),
    )


def _negatives(sizes: NDArray[np.int64]) -> float:
    """The share of all pairs of different samples that are of one group. It is the same in a batch of any size."""
    count = int(sizes.sum())
    return float((sizes * (sizes - 1)).sum() / (count * (count - 1)))


def _chance_to_meet(size: int, count: int, batch_size: int) -> float:
    r"""The probability that a batch with an anchor has another sample of its group.

    With s samples in the group, n in all and B in the batch, it is :math:`1 - \binom{n-s}{B-1} / \binom{n-1}{B-1}`.
    """
    others = batch_size - 1
    if count - size < others:
        return 1.0

    def log_choices(total: int) -> float:
        return math.lgamma(total + 1) - math.lgamma(total - others + 1)

    return -math.expm1(log_choices(count - size) - log_choices(count - 1))
