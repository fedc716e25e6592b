"""The parts of the page that are text: what was run, what came out, the table, and where everything is."""

import math
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from pucl import texts
from pucl.config import NOT_TRAINED
from pucl.progress import duration
from pucl.reports.curves import TAU
from pucl.reports.page.records import Group, Row
from pucl.runs.build import modality_of
from pucl.runs.lines import PROBES, SHORT, Line, probes_of
from pucl.texts import counted, fixed, percent

MINUS = "\N{MINUS SIGN}"
NONE = '<span class="none">\N{EN DASH}</span>'
OBJECTIVES = {"infonce": "InfoNCE", "jensen_shannon": "Jensen-Shannon"}
VERSIONS = ("pucl", "torch", "numpy", "python", "device")
MOST_NAMED = 4  # Rows that a sentence names before it counts the rest.


def title_of(groups: Sequence[Group]) -> str:
    """What the page is about."""
    if not groups:
        return "Nothing to show"
    frameworks = dict.fromkeys(group.config.framework for group in groups if group.config)
    names = list(dict.fromkeys(group.name for group in groups))
    return f"{_listed(list(frameworks)) or 'runs'} on {_listed(names)}"


def verdict(group: Group) -> str:
    """What came out, in a sentence or two."""
    lines = [row.line for row in group.rows if row.line.scores]
    if not lines:
        if any(row.line.count for row in group.rows):
            return "No accuracy was measured: the data have no labels to test with."
        return "No run is finished, so there is no accuracy yet."
    probe = probes_of(lines)[0]
    lines = [line for line in lines if probe in line.scores and math.isfinite(line.scores[probe].mean)]
    best = max(lines, key=lambda line: line.scores[probe].mean)
    told = [line for line in lines if _has_interval(line, probe)]
    if not told:
        return _without_differences(group, lines, best, probe)
    parts = []
    for word, chosen in (
        ("above", [line for line in told if (line.differences[probe].low or 0) > 0]),
        ("below", [line for line in told if (line.differences[probe].high or 0) < 0]),
    ):
        if chosen:
            ordered = sorted(chosen, key=lambda line: -abs(line.differences[probe].mean))
            named = [f"{line.name} ({signed(line.differences[probe].mean)})" for line in ordered]
            parts.append(f"{_listed(named)} {_is(chosen)} {word} {group.base} by more than the 95 % interval")
    unclear = [line.name for line in told if _holds_zero(line, probe)]
    if unclear:
        parts.append(f"{_listed(unclear)} cannot be told from {group.base}")
    return f"By the {PROBES[probe]}, in percentage points: {'; '.join(parts)}."


def _without_differences(group: Group, lines: Sequence[Line], best: Line, probe: str) -> str:
    spread = best.scores[probe]
    number = f"{fixed(spread.mean)} %"
    if spread.count > 1:
        number += f" (± {fixed(spread.deviation)} over {counted(spread.count, 'seed')})"
    if len(lines) == 1:
        return f"{best.name} reaches {number} by the {PROBES[probe]}."
    rest = sorted((line for line in lines if line is not best), key=lambda line: -line.scores[probe].mean)
    others = _listed([f"{line.name} {fixed(line.scores[probe].mean)} %" for line in rest])
    if not any(line.name == group.base for line in lines):
        why = f"There is no row {group.base} to take differences to."
    elif all(line.count == 1 for line in lines):
        why = "With one seed there is no interval."
    else:
        why = f"There is no interval: it takes two seeds in common with {group.base}, with differences that differ."
    return f"By the {PROBES[probe]}, {best.name} is highest with {number}, before {others}. {why}"


def facts(group: Group) -> str:
    """What was run, as a list of terms."""
    runs = [run for row in group.rows for run in row.runs]
    found: dict[str, str] = {}
    if group.config is not None:
        config = group.config
        unit = modality_of(config).unit
        samples = next((run.result[f"{unit}s"] for run in runs if run.result and f"{unit}s" in run.result), None)
        found["Framework"] = config.framework
        found["Data"] = group.name + (f", {counted(samples, unit)}" if isinstance(samples, int) else "")
        longest = max(run.config.epochs for run in runs)
        found["Training"] = (
            f"{counted(longest, 'epoch')}, batches of {config.batch_size}, {OBJECTIVES[config.objective]}"
        )
    found["Runs"] = f"{len(runs)} in {counted(len(group.rows), 'row')}"
    versions = {
        name: " and ".join(dict.fromkeys(str(run.environment[name]) for run in runs if name in run.environment))
        for name in VERSIONS
    }
    found["Versions"] = ", ".join(f"{name} {value}" for name, value in versions.items() if value) or "not recorded"
    items = [f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in found.items()]
    if group.command:
        items.append(f'<div class="wide"><dt>Command</dt><dd><code>{escape(group.command)}</code></dd></div>')
    if group.note:
        items.append(f'<div class="wide"><dt>Note</dt><dd>{escape(group.note)}</dd></div>')
    return f'<dl class="facts">{"".join(items)}</dl>'


def table(group: Group) -> str:
    """The rows with all their numbers; heads of columns sort."""
    lines = [row.line for row in group.rows]
    probes = probes_of(lines)
    differences = bool(probes) and any(line.differences.get(probes[0]) for line in lines)
    published = list(dict.fromkeys(column for row in group.rows for column in row.published))
    heads = ["row", *(f"{SHORT[probe]}, %" for probe in probes)]
    heads += [f"to {group.base} (95 % interval)"] if differences else []
    heads += [*published, "seeds", TAU, "floored", "time"]
    cells = []
    for number, row in enumerate(group.rows):
        swatch = f'<span class="swatch" style="--c:var(--row-{number})"></span>'
        own = [_cell(row.line.name, swatch + escape(row.line.name), head=True)]
        own += [_score_cell(row.line, probe) for probe in probes]
        own += [_difference_cell(row, probes[0], group.base)] if differences else []
        own += [_number_cell(row.published.get(column), fixed) for column in published]
        own += [_seeds_cell(row.line), _number_cell(row.line.tau_plus, partial(fixed, digits=3))]
        own += [_number_cell(row.line.floored, partial(percent, digits=1)), _time_cell(row.line)]
        cells.append(f"<tr>{''.join(own)}</tr>")
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button" class="sort">{escape(name)}'
        '<span class="way" aria-hidden="true"></span></button></th>'
        for name in heads
    )
    notes = []
    if any(_has_interval(line, probe) for line in lines for probe in probes[:1]):
        notes.append(
            f'<span class="sure">▲ ▼</span> differ from {escape(group.base)} by more than their interval, which pairs '
            "the runs of one seed."
        )
    if any(spread.count > 1 for line in lines for spread in line.scores.values()):
        notes.append("± is the standard deviation over seeds.")
    marks = f'<p class="fine">{" ".join(notes)}</p>' if notes else ""
    return (
        '<div class="scroll" role="region" aria-label="Table of results" tabindex="0"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(cells)}</tbody></table></div>{marks}"
    )


def _cell(value: object, shown: str, *, head: bool = False) -> str:
    known = "" if value is None else f' data-value="{escape(str(value))}"'
    return f'<th scope="row"{known}>{shown}</th>' if head else f"<td{known}>{shown}</td>"


def _number_cell(value: float | None, form: Callable[[float], str]) -> str:
    if value is None or not math.isfinite(value):
        return _cell(None, NONE)
    return _cell(value, escape(form(value)))


def _score_cell(line: Line, probe: str) -> str:
    spread = line.scores.get(probe)
    if spread is None or not math.isfinite(spread.mean):
        return _cell(None, NONE)
    more = f' <span class="more">± {fixed(spread.deviation)}</span>' if spread.count > 1 else ""
    return _cell(spread.mean, f"{fixed(spread.mean)}{more}")


def _difference_cell(row: Row, probe: str, base: str) -> str:
    found = row.line.differences.get(probe)
    if found is None or not math.isfinite(found.mean):
        return _cell(None, '<span class="none">base</span>' if row.line.name == base else NONE)
    if found.low is None or found.high is None:
        return _cell(found.mean, f'{signed(found.mean)} <span class="more">no interval</span>')
    interval = f'<span class="more">{signed(found.low)} to {signed(found.high)}</span>'
    if _holds_zero(row.line, probe):
        return _cell(found.mean, f"{signed(found.mean)} {interval}")
    mark = "▲" if found.mean > 0 else "▼"
    return _cell(found.mean, f'<b class="sure">{mark} {signed(found.mean)}</b> {interval}')


def _seeds_cell(line: Line) -> str:
    failed = f' <span class="more">({len(line.failed)} failed)</span>' if line.failed else ""
    return _cell(line.count, f"{line.count}{failed}")


def _time_cell(line: Line) -> str:
    if line.correction in NOT_TRAINED:
        return _cell(None, NONE)
    return _cell(line.seconds, duration(line.seconds))


def signed(value: float) -> str:
    """A difference with its sign, as the page writes it.

    Example:
        >>> signed(1.234)
        '+1.23'
    """
    return texts.signed(value).replace("-", MINUS)


def foot(groups: Sequence[Group], skipped: Sequence[tuple[str, str]], command: str, near: Any) -> str:
    """Where everything is, what was left out, and how to make the page again.

    Args:
        groups: What is shown.
        skipped: What is not: where it is, and why.
        command: That makes the page.
        near: Gives a place as it is seen from the page.
    """
    items = []
    for group in groups:
        if group.place is not None:
            items.append(f"<li>{escape(group.name)}: <code>{escape(near(group.place))}</code></li>")
        else:
            places = ", ".join(f"<code>{escape(near(run.path))}</code>" for row in group.rows for run in row.runs)
            items.append(f"<li>{escape(group.name)}: {places}</li>")
    text = ""
    if items:
        text += f"<h2>Where everything is</h2><ul>{''.join(items)}</ul>"
        text += (
            '<p class="fine">Each run has a directory of its own, with config.json, metrics.jsonl, result.json, the '
            "encoder and its embeddings; or it has a line in the collection runs.jsonl, without encoder and "
            "embeddings. Paths are relative to this page.</p>"
        )
    if skipped:
        why = "".join(f"<li><code>{escape(place)}</code>: {escape(reason)}</li>" for place, reason in skipped)
        text += f'<h2>What could not be read</h2><ul class="skipped">{why}</ul>'
    again = f'<p class="fine">In the directory of this page:</p><pre><code>{escape(command)}</code></pre>'
    return f"{text}<h2>To make this page again</h2>{again}"


def command_of(out: Path, places: Sequence[str], points: int, usual: int, *, with_root: bool) -> str:
    """The command that makes the page; where data are kept is another matter on every machine."""
    words = ["pucl", "report", *places, "--out", out.name]
    words += ["--points", str(points)] if points != usual else []
    return shlex.join([*words, "--force"]) + (" --root DIR" if with_root else "")


def _has_interval(line: Line, probe: str) -> bool:
    found = line.differences.get(probe)
    return found is not None and found.low is not None


def _holds_zero(line: Line, probe: str) -> bool:
    found = line.differences[probe]
    return (found.low or 0) <= 0 <= (found.high or 0)


def _is(chosen: Sequence[Any]) -> str:
    return "is" if len(chosen) == 1 else "are"


def _listed(names: Sequence[str]) -> str:
    """Names as one says them; of many the first few.

    Example:
        >>> _listed(["a", "b", "c"])
        'a, b and c'
    """
    names = list(names)
    if len(names) > MOST_NAMED + 1:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
