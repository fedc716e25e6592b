"""The HTML of the page: what was run, the results, the table, the charts, and the files."""

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from pucl.config import NOT_TRAINED
from pucl.evaluation import known_numbers
from pucl.frameworks import modality_of
from pucl.progress import duration
from pucl.reports.canvas import TAU, MatplotlibMissingError
from pucl.reports.curves import page_curves
from pucl.reports.page.records import Gathered, Group
from pucl.reports.page.verdict import joined, verdict
from pucl.reports.reliability import page_reliability
from pucl.reports.scores import page_scores, signed_text
from pucl.runs.rows import TableRow, numbers_of, share_of_lead
from pucl.texts import counted, fixed, percent

NONE = '<span class="none">\N{EN DASH}</span>'
OBJECTIVES = {"infonce": "InfoNCE", "jensen_shannon": "Jensen-Shannon"}
SECTIONS = {
    "cost": "Cost",
    "pairs": "Pairs",
    "anchor": "One anchor",
    "map": "Map",
    "curves": "Metrics",
    "run": "How it was run",
}
"""What a part of the page has, by id, with the words of its link."""
NEED_EMBEDDINGS = ("anchor", "map")
VERSIONS = ("pucl", "torch", "numpy", "python", "device")


def title_of(groups: Sequence[Group]) -> str:
    """The headline of the page: frameworks and data."""
    frameworks = dict.fromkeys(group.config.framework for group in groups if group.config)
    names = list(dict.fromkeys(group.name for group in groups))
    return f"{joined(list(frameworks)) or 'runs'} on {joined(names)}"


def facts(group: Group) -> str:
    """What was run, as a list of terms."""
    runs = [run for row in group.rows for run in row.runs]
    found: dict[str, str] = {}
    if group.config is not None:
        config = group.config
        modality = modality_of(config)
        results = (run.result or {} for run in runs)
        samples = next((result[modality.name] for result in results if modality.name in result), None)
        found["Framework"] = config.framework
        found["Data"] = group.name + (f", {counted(samples, modality.unit)}" if isinstance(samples, int) else "")
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
    items += [
        f'<div class="wide"><dt>{escape(name)}, at the end, seed {seed}</dt><dd>{escape(sentence)}</dd></div>'
        for name, seed, sentence in corrections_said(group)
    ]
    return f'<dl class="facts">{"".join(items)}</dl>'


def corrections_said(group: Group) -> list[tuple[str, int, str]]:
    """Row, seed and sentence: what corrections that learn reported when the training of their first seed ended."""
    firsts = ((row.summary.name, row.runs[0]) for row in group.rows if row.runs)
    found = ((name, run.config.seed, (run.result or {}).get("correction.report")) for name, run in firsts)
    return [(name, seed, sentence) for name, seed, sentence in found if sentence]


def table(group: Group) -> str:
    """The rows with all their numbers."""
    summaries = [row.summary for row in group.rows]
    probes, known = numbers_of(summaries, group.yardstick), known_numbers()
    differences = bool(probes) and any(summary.differences.get(probes[0]) for summary in summaries)
    published = list(dict.fromkeys(column for row in group.rows for column in row.published))
    shares = [share_of_lead(summary, summaries, probes[0]) if probes else None for summary in summaries]
    closed = any(share is not None for share in shares)
    heads = ["row", *(f"{known[probe].short}, %" for probe in probes[:1])]
    heads += [f"to {group.base} (95 % interval)"] if differences else []
    heads += ["of the oracle's lead"] if closed else []
    heads += [f"{known[probe].short}, %" for probe in probes[1:]]
    heads += [*published, "seeds", TAU, "floored", "time"]
    body = []
    for number, (row, share) in enumerate(zip(group.rows, shares, strict=True)):
        summary = row.summary
        cells = [f'<th scope="row">{_swatch(number)}{escape(summary.name)}</th>']
        cells += [_score_cell(summary, probe) for probe in probes[:1]]
        cells += [_difference_cell(summary, probes[0], group.base)] if differences else []
        cells += [_number_cell(share, partial(percent, digits=0))] if closed else []
        cells += [_score_cell(summary, probe) for probe in probes[1:]]
        cells += [_number_cell(row.published.get(column), fixed) for column in published]
        failed = f' <span class="more">({len(summary.failed)} failed)</span>' if summary.failed else ""
        cells += [f"<td>{summary.count}{failed}</td>", _number_cell(summary.tau_plus, partial(fixed, digits=3))]
        seconds = None if summary.correction in NOT_TRAINED else summary.seconds
        cells += [_number_cell(summary.floored, partial(percent, digits=1)), _number_cell(seconds, duration)]
        body.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    notes = []
    if differences and any(
        found.low is not None for summary in summaries if (found := summary.differences.get(probes[0]))
    ):
        notes.append(
            f'<span class="sure">▲ ▼</span> differ from {escape(group.base)} by more than the interval, which pairs '
            "runs of the same seed."
        )
    if any(spread.count > 1 for summary in summaries for spread in summary.scores.values()):
        notes.append("± is the standard deviation over seeds.")
    below = f'<p class="fine">{" ".join(notes)}</p>' if notes else ""
    return (
        '<div class="scroll" role="region" aria-label="Table of results" tabindex="0"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{below}"
    )


def _number_cell(value: float | None, form: Callable[[float], str]) -> str:
    return f"<td>{NONE if value is None or not math.isfinite(value) else escape(form(value))}</td>"


def _score_cell(summary: TableRow, probe: str) -> str:
    spread = summary.scores.get(probe)
    if spread is None or not math.isfinite(spread.mean):
        return f"<td>{NONE}</td>"
    more = f' <span class="more">± {fixed(spread.deviation)}</span>' if spread.count > 1 else ""
    return f"<td>{fixed(spread.mean)}{more}</td>"


def _difference_cell(summary: TableRow, probe: str, base: str) -> str:
    found = summary.differences.get(probe)
    if found is None or not math.isfinite(found.mean):
        return '<td><span class="none">base</span></td>' if summary.name == base else f"<td>{NONE}</td>"
    if found.low is None or found.high is None:
        return f'<td>{signed_text(found.mean)} <span class="more">no interval</span></td>'
    mean = signed_text(found.mean)
    if found.sign:
        mean = f'<b class="sure">{"▲" if found.sign > 0 else "▼"} {mean}</b>'
    return f'<td>{mean} <span class="more">{signed_text(found.low)} to {signed_text(found.high)}</span></td>'


def _swatch(row: int) -> str:
    return f'<span class="swatch" style="--c:var(--row-{row})"></span>'


def charts_of(group: Group, number: int) -> tuple[str, str]:
    """The charts of scores and of metrics of a group, which is part `number` of the page."""
    summaries, key = [row.summary for row in group.rows], f"curves-{number}"
    histories = [[run.history for run in row.runs] for row in group.rows]
    corrections, names = [summary.correction for summary in summaries], [summary.name for summary in summaries]
    cosines = group.config is None or group.config.compares_cosines
    try:
        scores = page_scores(summaries, group.base, group.yardstick, f"scores-{number}")
        curves = page_curves(histories, corrections, names, cosines=cosines, key=key)
        reliability = page_reliability(histories, corrections, names, key=key)
    except MatplotlibMissingError as error:
        missing = absent(f"There is no chart: {error}")
        return missing, missing
    return _score_charts(summaries, scores), _curve_charts(group, curves + ([reliability] if reliability else []))


def _score_charts(summaries: Sequence[TableRow], panels: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """The charts of scores by number, of which the page shows one number at a time."""
    scored = [summary for summary in summaries if summary.scores]
    if not scored:
        return absent("There is no chart of scores: none was measured.")
    if len(scored) == 1 and scored[0].count < 2:
        return absent("There is no chart of scores: one run has nothing to be compared with.")
    known = known_numbers()
    options = "".join(f'<option value="{number}">{escape(known[number].name)}</option>' for number in panels)
    choice = f'<div class="controls"><label>Measured by <select data-choice="number">{options}</select></label></div>'
    charts = "".join(
        f'<div class="panels" data-number="{number}"{" hidden" if index else ""}>{"".join(map(_figure, figures))}</div>'
        for index, (number, figures) in enumerate(panels.items())
    )
    return f'<div class="scores">{choice if len(panels) > 1 else ""}{charts}</div>'


def _curve_charts(group: Group, panels: Sequence[Mapping[str, str]]) -> str:
    """The charts of metrics, with a button for each row that switches it off and on."""
    if not panels:
        return absent("There are no curves: nothing was trained, or no metrics were kept.")
    several = any(len(row.runs) > 1 for row in group.rows)
    lines = "Thick lines are means over seeds, thin lines the seeds. " if several else ""
    buttons = "".join(
        f'<button type="button" class="row" aria-pressed="true" data-switch="{number}">{_swatch(number)}'
        f"{escape(row.summary.name)}</button>"
        for number, row in enumerate(group.rows)
        if any(run.history for run in row.runs)
    )
    return (
        f'<p class="about">{lines}<span class="controls inline">Names switch rows off and on.</span></p>'
        f'<div class="legend" role="group" aria-label="Rows that are shown">{buttons}</div>'
        f'<div class="curves">{"".join(map(_figure, panels))}</div>'
    )


def _figure(panel: Mapping[str, str]) -> str:
    caption = f"<b>{escape(panel['title'])}</b><span>{escape(panel['meaning'])}</span>"
    return f"<figure><figcaption>{caption}</figcaption>{panel['svg']}</figure>"


def absent(words: str) -> str:
    """A paragraph in place of something that cannot be shown."""
    return f'<p class="absent">{escape(words)}</p>'


def part_of(group: Group, number: int, charts: tuple[str, str], samples: tuple[bool, str], alone: bool) -> str:
    """The part of the page for one group.

    Args:
        group: The runs.
        number: Index of the part; the page shows the first.
        charts: See `charts_of`.
        samples: Whether there are samples to show, and a sentence on what the losses push, or why there are none.
        alone: Whether it is the only part.
    """
    shown, about = samples
    template = Template(read_file("samples.html"))
    space = template.substitute(number=number, about=f"<p>{escape(about)}</p>" if about else "")
    missing = f'<section id="pairs-{number}"><h2>The costliest pairs</h2>{absent(about)}</section>'
    return Template(read_file("part.html")).substitute(
        number=number,
        hidden="" if number == 0 else "hidden",
        role="" if alone else 'role="tabpanel"',
        heading="" if alone else f"<h2 class='name'>{escape(group.name)}</h2>",
        label=escape(group.name),
        verdict=escape(verdict(group)),
        facts=facts(group),
        table=table(group),
        scores=charts[0],
        curves=charts[1],
        jumps="".join(
            f'<a href="#{section}-{number}">{words}</a>'
            for section, words in SECTIONS.items()
            if shown or section not in NEED_EMBEDDINGS
        ),
        samples=space if shown else missing,
        map=Template(read_file("map.html")).substitute(number=number) if shown else "",
    )


def tabs(names: Sequence[str]) -> str:
    """Buttons that choose the part of the page; arrow keys move between them."""
    buttons = [
        f'<button type="button" role="tab" id="tab-{number}" aria-controls="part-{number}" '
        f'aria-selected="{str(number == 0).lower()}" tabindex="{0 if number == 0 else -1}">{escape(name)}</button>'
        for number, name in enumerate(names)
    ]
    return f'<div class="tabs" role="tablist" aria-label="Data">{"".join(buttons)}</div>'


def foot(
    gathered: Gathered, skipped: Sequence[tuple[Path, str]], out: Path, *, points: int | None, with_root: bool
) -> str:
    """The files, what was left out, and the command that makes the page.

    Args:
        gathered: The runs.
        skipped: Paths that could not be read, and why.
        out: The file of the page. Paths are relative to it, so that all can be moved together.
        points: As given to the command; None for the default.
        with_root: Whether a directory of data was given. It is not named, since it differs from machine to machine.
    """

    def relative(path: Path) -> str:
        return Path(os.path.relpath(path.resolve(), out.parent.resolve())).as_posix()

    items = []
    for group in gathered.groups:
        paths = [run.path for row in group.rows for run in row.runs] if group.path is None else [group.path]
        named = ", ".join(f"<code>{escape(relative(path))}</code>" for path in paths)
        items.append(f"<li>{escape(group.name)}: {named}</li>")
    text = ""
    if skipped:
        why = "".join(f"<li><code>{escape(relative(path))}</code>: {escape(reason)}</li>" for path, reason in skipped)
        text += f'<h2>What could not be read</h2><ul class="skipped">{why}</ul>'
    words = ["pucl", "report", *map(relative, gathered.directories), "--out", out.name]
    words += [] if points is None else ["--points", str(points)]
    command = shlex.join([*words, "--force"]) + (" --root DIR" if with_root else "")
    return (
        f'{text}<details class="fold"><summary><h2>Files, and how to make this page again</h2></summary>'
        f"<ul>{''.join(items)}</ul>"
        '<p class="fine">A run has a directory with config.json, metrics.jsonl, result.json, the encoder and its '
        "embeddings, or a line in the collection runs.jsonl, which has no encoder and no embeddings. Paths are "
        "relative to this page.</p>"
        f'<p class="fine">In the directory of this page:</p><pre><code>{escape(command)}</code></pre></details>'
    )


def read_file(name: str) -> str:
    """A template, the style sheet or the program of the page."""
    return resources.files("pucl.reports.page").joinpath(name).read_text(encoding="utf-8")
