"""Tables and numbers as the pages write them."""

from collections.abc import Sequence
from typing import Any

from pucl.runs.statistics import Difference, Spread
from pucl.texts import signed

OTHER_DIGITS = (
    "On another machine the same seeds give other digits: the numbers repeat exactly only with the same kind of "
    "processor, version of torch and number of threads."
)
"""What a reader who repeats a measurement should know."""


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def milliseconds(contender: dict[str, Any] | None) -> str:
    """The median time, if it was measured."""
    times = (contender or {}).get("milliseconds")
    return f"{times['median']:,.3g}" if times and times["median"] < 100 else f"{times['median']:,.0f}" if times else ""


def megabytes(contender: dict[str, Any] | None) -> str:
    """The peak of memory, if it was measured."""
    peak = (contender or {}).get("peak") or {}
    return f"{peak['bytes'] / 1e6:,.0f}" if peak.get("bytes") else ""


def ratio(quartiles: dict[str, float] | None) -> str:
    """A median ratio with its quartiles."""
    if not quartiles:
        return ""
    return f"{quartiles['median']:.2f} ({quartiles['lower_quartile']:.2f} to {quartiles['upper_quartile']:.2f})"


def spread(values: dict[str, Any]) -> str:
    """A mean, with its standard deviation where there are several seeds."""
    return str(Spread(**values))


def interval(difference: dict[str, Any] | None) -> str:
    """A difference with its interval; bold where that is on one side of zero."""
    if not difference:
        return ""
    mean, low, high = (difference[name] for name in ("mean", "low", "high"))
    if low is None or high is None:
        return signed(mean)
    text = str(Difference(mean, low, high))
    return f"**{text}**" if certain(difference) else text


def certain(difference: dict[str, Any] | None) -> bool:
    """Whether a difference is more than chance: its interval is on one side of zero."""
    if not difference or difference["low"] is None or difference["high"] is None:
        return False
    return bool(difference["low"] * difference["high"] > 0)


def tau(line: dict[str, Any]) -> str:
    """The share of hidden positives that a row assumes, if it assumes one."""
    return "" if line["tau_plus"] is None else f"{line['tau_plus']:.3f}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share in percent, if there is one."""
    return "" if share is None else f"{share:.{digits}%}"
