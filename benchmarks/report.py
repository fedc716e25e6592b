"""What a benchmark returns: rows of figures, and the text that is printed of them."""

import statistics
from dataclasses import dataclass

from benchmarks.memory import Peak


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Median and quartiles of some measurements."""

    lower_quartile: float
    median: float
    upper_quartile: float

    def __str__(self) -> str:
        return f"{figure(self.median)} ({figure(self.lower_quartile)}-{figure(self.upper_quartile)})"


def spread_of(values: list[float]) -> Spread:
    """Median and quartiles of two or more values."""
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(lower_quartile=lower, median=median, upper_quartile=upper)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one contender.

    Args:
        milliseconds: Time of one call; None if it did not run.
        nanoseconds_by_round: The measured times; None in rounds that it skipped.
        peak: Peak memory; None if it was not measured.
        loss: The loss that it computed, if the benchmark compares losses.
        skipped: Why it did not run; None if it did.
    """

    milliseconds: Spread | None = None
    nanoseconds_by_round: list[int | None] | None = None
    peak: Peak | None = None
    loss: float | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case of a benchmark.

    Args:
        rounds: Number of rounds.
        contenders: Figures by contender.
        ratios: Ratios of times, such as ``"dense/streaming"``, taken round by round.
    """

    rounds: int
    contenders: dict[str, Figures]
    ratios: dict[str, Spread]

    def time(self, contender: str) -> str:
        """The median time in milliseconds, or a dash."""
        figures = self.contenders.get(contender, Figures())
        return "-" if figures.milliseconds is None else figure(figures.milliseconds.median)

    def memory(self, contender: str) -> str:
        """The peak memory in megabytes, or a dash."""
        peak = self.contenders.get(contender, Figures()).peak
        return "-" if peak is None or peak.bytes is None else figure(peak.bytes / 1e6)

    def ratio(self, name: str) -> str:
        """A ratio of times with its quartiles, or a dash."""
        return str(self.ratios.get(name, "-"))

    def notes(self, case: str) -> list[str]:
        """Sentences on contenders that did not run, and on missing peaks.

        Args:
            case: Name of this case, in the sentences.
        """
        notes = []
        for name, figures in self.contenders.items():
            if figures.skipped is not None:
                notes.append(f"{case}: {name} did not run: {figures.skipped}.")
            if figures.peak is not None and figures.peak.missing is not None:
                notes.append(f"{case}: no peak memory of {name}: {figures.peak.missing}.")
        return notes


class Report:
    """Base class of what a benchmark returns, a dataclass. The record holds its fields."""

    def table(self) -> str:
        """The figures as a table."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Sentences below the table, such as what is missing."""
        return []

    def failures(self) -> list[str]:
        """Reasons why the figures are not valid; none if they are."""
        return []


def figure(value: float) -> str:
    """A number with three digits, or without decimals from 100 on."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
