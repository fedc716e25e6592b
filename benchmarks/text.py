"""Figures as text: tables, sentences and numbers with three digits."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from benchmarks.memory import Peak
from benchmarks.timing import Spread

WIDTH = 110  # Characters of a line of text.

_Row = TypeVar("_Row")


def aligned(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """A table with two header lines. The first column is aligned left, the others right.

    Args:
        columns: The two header words of each column.
        rows: The cells, as many in each row as there are columns.

    Example:
        >>> print(aligned([("loss", ""), ("dense", "ms")], [["plain", "1.23"], ["pucl", "-"]]))
        loss   dense
                  ms
        ------------
        plain   1.23
        pucl       -
    """
    lines = [*zip(*columns, strict=True), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid = []
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        laid.append("  ".join(cells).rstrip())
    return "\n".join([*laid[:2], "-" * max(map(len, laid)), *laid[2:]])


def as_paragraphs(sentences: Sequence[str]) -> str:
    """Each sentence starts on a new line. Repeated sentences are left out."""
    return "\n".join(textwrap.fill(sentence, width=WIDTH) for sentence in dict.fromkeys(sentences))


@runtime_checkable
class Measured(Protocol):
    """Time and memory of one contender."""

    @property
    def milliseconds(self) -> Spread | None:
        """Time; None if it did not run."""
        ...

    @property
    def peak(self) -> Peak | None:
        """Peak memory; None if it was not measured."""
        ...


def time(contenders: Mapping[str, Measured], name: str) -> str:
    """The median time of a contender in milliseconds, or a dash."""
    figures = contenders.get(name)
    return "-" if figures is None or figures.milliseconds is None else figure(figures.milliseconds.median)


def peak_bytes(contenders: Mapping[str, Measured], name: str) -> int | None:
    """The peak memory of a contender in bytes, if it was measured."""
    figures = contenders.get(name)
    return None if figures is None or figures.peak is None else figures.peak.bytes


def peak(contenders: Mapping[str, Measured], name: str) -> str:
    """The peak memory of a contender in megabytes, or a dash."""
    risen = peak_bytes(contenders, name)
    return "-" if risen is None else figure(risen / 1e6)


def ratio(ratios: Mapping[str, Spread], name: str) -> str:
    """A ratio of times with its quartiles, or a dash."""
    return quartiles(ratios[name]) if name in ratios else "-"


def quartiles(spread: Spread) -> str:
    """Median, and quartiles in brackets."""
    return f"{figure(spread.median)} ({figure(spread.lower_quartile)}-{figure(spread.upper_quartile)})"


def figure(value: float) -> str:
    """A number with three digits, or without decimals from 100 on."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def extremes(values: Sequence[tuple[_Row, float]]) -> tuple[tuple[_Row, float], tuple[_Row, float]]:
    """The rows with the smallest and the largest value."""
    ordered = sorted(values, key=lambda pair: pair[1])
    return ordered[0], ordered[-1]
