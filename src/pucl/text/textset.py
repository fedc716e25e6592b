"""Texts in pairs, and the parts of a data set: for training, for fitting probes and for tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.choosing import count_held_out, draw_some, evenly, order_for_split
from pucl.data.errors import DataError
from pucl.data.labels import check_labels, classes_text
from pucl.text.groups import group_pairs
from pucl.texts import shortened

Indices = NDArray[np.int64]
SHOWN = 40  # Characters of a text that an error repeats.


class Side(NamedTuple):
    """The first or the second texts of some pairs.

    Args:
        texts: The texts.
        ids: The sample that each text shows. In a file of pairs, both texts of a pair show the same sample. In a file
            of texts with labels, every text is a sample.
        groups: The group of each text: texts of one group are known to belong together; see `TextSet.groups`.
    """

    texts: list[str]
    ids: Indices
    groups: Indices


@dataclass(frozen=True, eq=False, kw_only=True)
class TextSet:
    """Pairs of texts, or texts of which two of one class are a pair.

    Args:
        texts: The texts; with `seconds`, the first text of each pair.
        seconds: The second text of each pair. None: the partner of a text is another text of its class, drawn anew
            each time.
        labels: int64 [n], each an index into `classes`; None if unknown.
        classes: Names of the classes; empty without labels.

    Example:
        >>> texts = TextSet(texts=("hello", "hi", "bye"), labels=np.array([0, 0, 1]), classes=("greet", "leave"))
        >>> texts.partners(np.array([0, 1]), np.array([0.3, 0.9])).tolist()
        [1, 0]
    """

    texts: tuple[str, ...]
    seconds: tuple[str, ...] | None = None
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.texts:
            raise DataError("there are no texts: expected at least one row")
        if self.seconds is not None and len(self.seconds) != len(self):
            raise DataError(f"second texts are one for each pair: expected {len(self)}, got {len(self.seconds)}")
        if self.labels is not None:
            check_labels(self.labels, len(self), self.classes)
        for texts in (self.texts, self.seconds or ()):
            _refuse(texts, lambda text: not text.strip(), "has an empty text: remove the row, or fill it in")
            _refuse(texts, _is_broken, "has a text that is no valid Unicode: write the file again as UTF-8")
        if self.seconds is not None:
            same = [text if text.strip() == second.strip() else "" for text, second in self._rows()]
            _refuse(same, bool, "pairs a text with itself, which teaches nothing: remove the row")

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        kind = "texts" if self.seconds is None else "pairs of texts"
        return f"TextSet({len(self):,} {kind}{classes_text(self.classes)})"

    def _rows(self) -> list[tuple[str, str]]:
        return list(zip(self.texts, self.seconds or self.texts, strict=True))

    @cached_property
    def groups(self) -> Indices:
        """The group of each sample: pairs that share a text, or equal texts; see `group_pairs`."""
        return group_pairs(self.texts, self.seconds)

    def batch(self, indices: Indices) -> "TextBatch":
        """The samples at these indices, for a step of training."""
        return TextBatch(source=self, indices=indices)

    def subset(self, indices: Indices) -> "TextSet":
        """The samples at these indices, in this order."""
        return TextSet(
            texts=tuple(self.texts[i] for i in indices),
            seconds=None if self.seconds is None else tuple(self.seconds[i] for i in indices),
            labels=None if self.labels is None else self.labels[indices],
            classes=self.classes,
        )

    def limited(self, limit: int | None) -> "TextSet":
        """At most `limit` of the samples, evenly from all classes; None keeps all."""
        return self if limit is None or limit >= len(self) else self.subset(evenly(self.labels, len(self), limit))

    def split(self, share: float) -> tuple["TextSet", "TextSet"] | None:
        """Hold out a share of the samples, always the same ones: the rest, and those held out.

        With labels, this is a share of each class. Without, it is a share of the groups, so that no text is in both
        parts. None if a part would have fewer than two samples.
        """
        if self.labels is not None:
            order, quantiles = order_for_split(self.labels)
            held = np.zeros(len(self), dtype=np.bool_)
            held[order[len(self) - count_held_out(quantiles, share) :]] = True
        else:
            count = int(self.groups.max()) + 1
            held = np.isin(self.groups, draw_some(count, round(share * count)))
        if not 2 <= held.sum() <= len(self) - 2:
            return None
        return self.subset(np.flatnonzero(~held)), self.subset(np.flatnonzero(held))

    def with_partners(self) -> "TextSet":
        """Without the texts that are alone in their class; these have no partner.

        Raises:
            DataError: If no two texts are known to belong together.
        """
        if self.seconds is not None:
            return self
        if self.labels is None:
            raise DataError("texts without a second text or a label give no pairs: expected a column of either")
        paired = np.flatnonzero(np.bincount(self.labels)[self.labels] > 1)
        if not len(paired):
            raise DataError("two texts of one class are a pair: expected a class of two texts or more, got none")
        return self if len(paired) == len(self) else self.subset(paired)

    def partners(self, indices: Indices, draws: NDArray[np.float64]) -> Indices:
        """Another text of the class of each of these texts.

        Args:
            indices: Indices of texts; their classes have two texts or more.
            draws: A random number from 0 to 1 for each.
        """
        order, start, size, position = self._by_class
        steps = 1 + (draws * (size[indices] - 1)).astype(np.int64)
        partners: Indices = order[start[indices] + (position[indices] + steps) % size[indices]]
        return partners

    @cached_property
    def _by_class(self) -> tuple[Indices, Indices, Indices, Indices]:
        """All texts class by class; and for each text the start and size of its class, and its position in it."""
        if self.labels is None:
            raise DataError("the partner of a text is of its class: expected labels, got none")
        order = np.argsort(self.labels, kind="stable")
        sizes = np.bincount(self.labels)
        start = (np.cumsum(sizes) - sizes)[self.labels]
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        return order, start, sizes[self.labels], position - start


@dataclass(frozen=True, eq=False, kw_only=True)
class TextBatch:
    """The samples of one step. Texts stay in the memory of the host; the encoder moves its tensors to the device."""

    source: TextSet
    indices: Indices

    def to(self, _device: torch.device) -> "TextBatch":
        """The same batch."""
        return self

    @property
    def texts(self) -> list[str]:
        """The texts; of pairs, the first ones."""
        return [self.source.texts[i] for i in self.indices]

    def sides(self, draws: NDArray[np.float64]) -> tuple[Side, Side]:
        """The first and the second texts of the pairs.

        Args:
            draws: A random number from 0 to 1 for each sample. It chooses the partner of a text with a label; pairs of
                a file do not depend on it.
        """
        source, others, seconds = self.source, self.indices, self.source.seconds
        if seconds is None:
            seconds, others = source.texts, source.partners(self.indices, draws)
        return (
            Side(self.texts, self.indices, source.groups[self.indices]),
            Side([seconds[i] for i in others], others, source.groups[others]),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class TextData:
    """A data set in separate parts, so that nothing is trained on test texts.

    Args:
        name: Its name.
        train: Texts to train on, and to fit probes on.
        test: Texts to score probes on; None if there are none.
        validation: Texts to test on while settings are chosen, if the data set has its own.
        notes: What a user should know.
    """

    name: str
    train: TextSet
    test: TextSet | None = None
    validation: TextSet | None = None
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, TextSet]:
        """The parts by name: train, and test if there is one."""
        return {"train": self.train} | ({} if self.test is None else {"test": self.test})


def _refuse(texts: Sequence[str], is_wrong: Callable[[str], Any], fault: str) -> None:
    """Raise if a text is wrong, with the number of its row, from 1."""
    wrong = [row for row, text in enumerate(texts, start=1) if is_wrong(text)]
    if wrong:
        shown = texts[wrong[0] - 1].strip()
        came = f" ({shortened(shown, SHOWN)!r})" if shown else ""
        more = f"; so do {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        raise DataError(f"row {wrong[0]:,} {fault}{came}{more}")


def _is_broken(text: str) -> bool:
    """Whether a text holds half of a surrogate pair, which no file can be written with."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
