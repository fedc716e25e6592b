"""Duplicates and near-duplicates across pairs, as a list to act on."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pucl.text.textset import TextSet

Kind = Literal["repeated", "shared", "near-duplicate", "same words"]
"""What is wrong with a row: an earlier row is equal, or has an equal text, or a text with the same words; or its own
two texts have the same words."""


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """A text that occurs before, or nearly.

    Args:
        kind: What it has in common with the earlier text.
        row: Its row, from 1.
        side: 1 for the first text of the row, 2 for the second.
        text: The text.
        earlier_row: The first row with such a text; the same row if its own two texts have the same words.
        earlier_side: The side of that text.
        earlier_text: That text.
    """

    kind: Kind
    row: int
    side: int
    text: str
    earlier_row: int
    earlier_side: int
    earlier_text: str


def find_duplicates(texts: TextSet) -> Iterator[Duplicate]:
    """Each text that occurs in an earlier row, or whose words do, once, in the order of the rows.

    A row that repeats an earlier one is listed once. A text is compared with its first occurrence alone, so the list is
    no longer than twice the number of rows.

    Example:
        >>> pairs = TextSet(texts=("a", "a", "Pay now!", "d"), seconds=("b", "c", "x", "now pay"))
        >>> [(each.kind, each.row, each.earlier_row) for each in find_duplicates(pairs)]
        [('shared', 2, 1), ('near-duplicate', 4, 3)]
    """
    columns = [_stripped(each) for each in (texts.texts, texts.seconds) if each is not None]
    rows: dict[tuple[str, ...], int] = {}
    equal: dict[str, tuple[int, int, str]] = {}
    alike: dict[str, tuple[int, int, str]] = {}
    for row, sides in enumerate(zip(*columns, strict=True), start=1):
        if (first := rows.setdefault(sides, row)) < row:
            yield _duplicate("repeated", (row, 1, sides[0]), (first, 1, sides[0]))
            continue
        for side, text in enumerate(sides, start=1):
            here, words = (row, side, text), words_of(text)
            before, near = equal.setdefault(text, here), alike.setdefault(words, here)
            if before != here:
                yield _duplicate("same words" if before[0] == row else "shared", here, before)
            elif near != here:
                yield _duplicate("same words" if near[0] == row else "near-duplicate", here, near)


def _duplicate(kind: Kind, later: tuple[int, int, str], earlier: tuple[int, int, str]) -> Duplicate:
    row, side, text = later
    earlier_row, earlier_side, earlier_text = earlier
    return Duplicate(
        kind=kind,
        row=row,
        side=side,
        text=text,
        earlier_row=earlier_row,
        earlier_side=earlier_side,
        earlier_text=earlier_text,
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
