"""The main result of a group of runs, in one or two sentences."""

import math
from collections.abc import Sequence

from pucl.config import NOT_TRAINED, ORACLE, ORACLES, PLAIN
from pucl.evaluation import known_numbers
from pucl.evaluation.probe import Number
from pucl.reports.page.records import Group
from pucl.runs.rows import TableRow, numbers_of
from pucl.runs.statistics import Difference
from pucl.texts import counted, fixed

DIGITS = 1  # After the point. The table has more.
MOST_NAMED = 4  # Rows that a sentence names before it counts the others.


def verdict(group: Group) -> str:
    """What false negatives cost by the leading number, and how much of it a correction brings back.

    It says so where the difference may be chance, and what is unknown without an oracle, without the base, or with a
    single seed.
    """
    rows = [row.summary for row in group.rows if row.summary.scores]
    if not rows:
        if any(row.summary.count for row in group.rows):
            return "No score was measured: the data have no labels to test with."
        return "No run is finished, so there is no score yet."
    probe = numbers_of(rows, group.yardstick)[0]
    number = known_numbers()[probe]
    rows = [row for row in rows if probe in row.scores and math.isfinite(row.scores[probe].mean)]
    gains = {row.name: _gain(row.differences[probe], number) for row in rows if probe in row.differences}
    oracle = next((row for row in rows if row.correction == ORACLE and row.name in gains), None)
    corrected = [row for row in rows if row.name in gains and row.correction not in (*ORACLES, *NOT_TRAINED)]
    best = max(corrected, key=lambda row: gains[row.name].mean, default=None)
    base = "plain training" if group.base == PLAIN else group.base
    if oracle is None and best is None:
        return _without_differences(group, rows, probe)
    of = f", the best of {len(corrected)} corrections," if len(corrected) > 1 else ""  # A choice by test scores.
    sentences = [] if oracle is None else [_cost(gains[oracle.name], number, base, group.name)]
    if best is not None and oracle is not None and _is_cost(gains[oracle.name]):
        sentences = [f"{sentences[0]}; {_brought_back(best.name + of, gains[best.name])}"]
    elif best is not None:
        sentences.append(f"{best.name}{of} {_changes(gains[best.name], number, base, group.name)}")
    if oracle is None:
        sentences.append(f"What false negatives cost in {number.short} is unknown: there is no row {ORACLE}")
    if max(row.count for row in rows) == 1:
        sentences.append("One seed gives no interval: all of this may be chance")
    return ". ".join(sentences) + "."


def _gain(difference: Difference, number: Number) -> Difference:
    """How much better a row is than the base: the difference, with its sign turned for errors and costs."""
    if number.higher_is_better:
        return difference
    low = None if difference.high is None else -difference.high
    high = None if difference.low is None else -difference.low
    return Difference(-difference.mean, low, high)


def _is_cost(lead: Difference) -> bool:
    """Whether the oracle is better than the base, and not by chance; with a single seed, whether it is better."""
    return lead.mean > 0 and (lead.low is None or lead.sign > 0)


def _cost(lead: Difference, number: Number, base: str, data: str) -> str:
    """What false negatives cost: the lead of the oracle, which leaves them out."""
    if _is_cost(lead):
        return f"Pushing false negatives away costs {base} {_points(lead.mean, number)} on {data}{_interval(lead)}"
    changed = f"leaving them out by the labels changes {base} by {_change(lead, number)}"
    if lead.low is not None and not lead.sign:
        return f"What false negatives cost on {data} cannot be told from chance: {changed}"
    return f"By {number.short}, false negatives cost nothing on {data}: {changed}"


def _brought_back(name: str, gain: Difference) -> str:
    """How much of the cost the best correction brings back."""
    if gain.mean <= 0:
        return f"no correction brings any of it back, {name} comes nearest with {_text(gain.mean)}{_interval(gain)}"
    chance = ", which may be chance" if gain.low is not None and not gain.sign else ""
    return f"{name} brings {_text(gain.mean)} of them back{_interval(gain)}{chance}"


def _changes(gain: Difference, number: Number, base: str, data: str) -> str:
    """What the best correction does to the base, where there is no cost to compare it with."""
    chance = ", which may be chance" if gain.low is not None and not gain.sign else ""
    return f"changes {base} on {data} by {_change(gain, number)}{chance}"


def _points(value: float, number: Number) -> str:
    """Percentage points of a number.

    Example:
        >>> _points(11.86, Number(name="mean average precision of retrieval", short="mAP"))
        '11.9 points of mAP'
    """
    return f"{_text(value)} points of {number.short}"


def _change(difference: Difference, number: Number) -> str:
    """A difference in percentage points with its sign and interval."""
    sign = "+" if difference.mean > 0 else ""
    return f"{sign}{_points(difference.mean, number)}{_interval(difference)}"


def _interval(difference: Difference) -> str:
    """The 95 % interval in brackets."""
    if difference.low is None or difference.high is None:
        return " (no interval)"
    return f" ({_text(difference.low)} to {_text(difference.high)})"


def _text(value: float) -> str:
    return fixed(value, DIGITS).replace("-", "\N{MINUS SIGN}")


def _without_differences(group: Group, rows: Sequence[TableRow], probe: str) -> str:
    """The scores alone, and why nothing is said of differences."""
    probed = known_numbers()[probe]
    best, *others = sorted(rows, key=lambda row: row.scores[probe].mean, reverse=probed.higher_is_better)
    spread = best.scores[probe]
    number = f"{fixed(spread.mean)} %"
    if spread.count > 1:
        number += f" (± {fixed(spread.deviation)} over {counted(spread.count, 'seed')})"
    if not others:
        alone = f"A page about {PLAIN} and {ORACLE} too says what false negatives cost."
        return f"{best.name} reaches {number} by the {probed.name}. {alone}"
    rest = joined([f"{row.name} {fixed(row.scores[probe].mean)} %" for row in others])
    if not any(row.name == group.base for row in rows):
        why = f"There is no row {group.base} for differences, so what false negatives cost is unknown."
    else:
        why = f"There is neither a row {ORACLE} nor a correction, so what false negatives cost is unknown."
    return f"By the {probed.name}, {best.name} is best with {number}, before {rest}. {why}"


def joined(names: Sequence[str]) -> str:
    """Names with commas and "and"; of many names the first few.

    Example:
        >>> joined(["a", "b", "c"])
        'a, b and c'
    """
    names = list(names)
    if len(names) > MOST_NAMED + 1:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
