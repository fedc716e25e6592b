"""Tables and numbers as the pages write them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pucl.runs.rows import TableRow
from pucl.runs.statistics import Difference
from pucl.runs.tables import read_rows

OTHER_DIGITS = (
    "On another machine the same seeds give other digits: the numbers repeat exactly only with the same kind of "
    "processor, version of torch and number of threads."
)
"""What a reader who repeats a measurement should know."""


BEGIN, END = "<!-- results: python docs/build.py -->\n", "<!-- end of results -->\n"


def with_results(text: str, lines: Sequence[str]) -> str:
    """The same page with these lines between its marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "\n".join(lines) + END + after


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


def rows_of(part: Mapping[str, Any]) -> list[TableRow]:
    """The rows of a comparison, or of one part of a table."""
    return [row for row, _ in read_rows(part)]


def interval(difference: Difference | None) -> str:
    """A difference with its interval; bold if it is more than chance."""
    if difference is None:
        return ""
    return f"**{difference}**" if difference.sign else str(difference)


def tau(row: TableRow) -> str:
    """The share of hidden positives that a row assumes, if it assumes one."""
    return "" if row.tau_plus is None else f"{row.tau_plus:.3f}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share in percent, if there is one."""
    return "" if share is None else f"{share:.{digits}%}"
