"""Check pairs before training: find texts that occur in several pairs, and count the false negatives they cause."""

import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.text.groups import group_pairs
from pucl.text.textset import TextSet
from pucl.texts import percent, shortened

FEW = 0.01  # A smaller share of anchors is not worth any work.
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
        advice: What to do, in one sentence.
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
    advice: str

    def as_json(self) -> dict[str, Any]:
        """The values for a record."""
        return asdict(self)


def check_pairs(texts: TextSet, batch_size: int) -> CheckedPairs:
    """Find duplicates and near-duplicates across pairs, and count the false negatives that they cause in a batch.

    A batch takes the partners of all other pairs for negatives. If two pairs share a text, this is wrong, and it is
    known without any model. Near-duplicates are texts with the same words, in any order, whatever their case and
    punctuation.

    Args:
        texts: Pairs, or texts with labels.
        batch_size: Pairs of a batch, drawn at random.

    Example:
        >>> pairs = TextSet(texts=("a", "a", "Pay now!", "d"), seconds=("b", "c", "x", "now pay"))
        >>> found = check_pairs(pairs, batch_size=2)
        >>> found.same.groups, found.near.groups, round(found.near.negatives, 2)
        (3, 2, 0.33)
    """
    if not 2 <= batch_size <= len(texts):
        raise ValueError(
            f"batch_size is the number of pairs in a step: expected 2 to {len(texts)}, the number of pairs, got "
            f"{batch_size}"
        )
    firsts, seconds = _stripped(texts.texts), None if texts.seconds is None else _stripped(texts.seconds)
    rows: list[Any] = firsts if seconds is None else list(zip(firsts, seconds, strict=True))
    counts = Counter(itertools.chain(firsts, seconds or ()))
    commonest, times = counts.most_common(1)[0]
    keys = list(map(words_of, firsts)), None if seconds is None else list(map(words_of, seconds))
    same, near = (_grouping(group_pairs(*each), batch_size) for each in ((firsts, seconds), keys))
    return CheckedPairs(
        pairs=len(texts),
        texts=len(counts),
        copies=len(rows) - len(set(rows)),
        alike=sum(one == other for one, other in zip(keys[0], keys[1] or (), strict=False)),
        commonest=shortened(commonest, SHOWN),
        times=times,
        same=same,
        near=near,
        batch_size=batch_size,
        same_class=None if texts.labels is None else _negatives(np.bincount(texts.labels)),
        advice=_advice(same, near, len(texts), batch_size),
    )


def words_of(text: str) -> str:
    """The different words of a text in alphabetical order; the text itself if it has none.

    Example:
        >>> words_of("Is it, is IT?")
        'is it'
    """
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(sorted(set(words))) or text


def _stripped(texts: Sequence[str]) -> list[str]:
    return [text.strip() for text in texts]


def _grouping(groups: NDArray[np.int64], batch_size: int) -> Grouping:
    sizes = np.bincount(groups)
    chance = np.array([_chance_to_meet(int(size), len(groups), batch_size) for size in sizes])
    return Grouping(
        groups=len(sizes),
        grouped=int(sizes[sizes > 1].sum()),
        largest=int(sizes.max()),
        negatives=_negatives(sizes),
        anchors=float((sizes * chance).sum() / len(groups)),
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


def _advice(same: Grouping, near: Grouping, count: int, batch_size: int) -> str:
    if same.largest > max(2, count // 10):
        return (
            f"First remove pairs with the commonest texts, which tie {same.largest:,} of {count:,} pairs together: "
            f"such texts say little about what a pair means."
        )
    if same.anchors >= FEW:
        return (
            f"Give the loss the groups, as `pucl train pairs` does, or keep one pair of each: otherwise "
            f"{percent(same.anchors, 1)} of the anchors of a batch of {batch_size:,} push a known positive away."
        )
    if near.anchors >= FEW:
        return (
            f"Look at the near-duplicates, and keep one of each: they reach {percent(near.anchors, 1)} of the anchors "
            f"of a batch of {batch_size:,}."
        )
    return f"Nothing needs to be done: known positives reach fewer than {percent(FEW, 0)} of the anchors of a batch."
