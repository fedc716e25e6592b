"""What false negatives cost by each yardstick, and how much each correction brings back."""

from collections.abc import Collection, Sequence
from typing import Any

from pucl.estimation.calibration import CALIBRATED
from pucl.evaluation import known_numbers
from pucl.runs.rows import share_of_lead
from pucl.runs.statistics import Difference
from results.words import OTHER_DIGITS, interval, markdown, rows_of

LEADING, AUTO, PLAIN, ORACLE, CONTROL = "retrieval", "auto", "plain", "oracle", "auto-shuffled"
UNTRAINED = "untrained"
SHOWN = (("retrieval", "knn"), ("clustering", "fewshot", "linear"))
"""The yardsticks of the two tables of a part; the records have all."""


def study_page(*records: Any) -> str:
    """docs/measurement.md from records/study, and from the other studies that are there.

    Args:
        records: The table of rows, the table of temperatures and the runs of each study, and at last the sizes that
            were looked at; None for one that is not there. Graphs have no temperatures.
    """
    *each, sizes = records
    studies = [rows for rows in each[::3] if rows is not None]
    commands = " and ".join(f"`{rows['command']}`" for rows in studies)
    parts = {name: part for rows in studies for name, part in rows["data"].items()}
    choices = {name: part for choice in each[1::3] if choice is not None for name, part in choice["data"].items()}
    runs = [run for found in each[2::3] if found is not None for run in found]
    lines = [
        "# What false negatives cost, and how much comes back",
        "",
        f"Made by {commands} with torch {studies[0]['torch']}. The temperature of each row was chosen on "
        "validation images, which are training images that were held out, with one seed. Then each row was trained at "
        f"the temperature that is best for {PLAIN}, and at its own best one if that is another (named behind the row), "
        "and measured on the test images. Differences are taken seed by seed, with 95 % intervals (bold: more than "
        f"chance). *Closed* is the difference of a row to {PLAIN}, divided by that of the {ORACLE}, whose loss leaves "
        f"out all false negatives; it is shown where the {ORACLE}'s lead is more than chance. {OTHER_DIGITS}",
        "",
        "## Findings",
        "",
        *findings(parts),
        "",
        f"Mean average precision of each row minus that of {PLAIN}, at the temperature that is best for {PLAIN} (bold: "
        "more than chance). The first line has that of plain itself.",
        "",
        *overview(parts),
        *control(runs, parts),
        *calibration(runs, parts),
        *([] if sizes is None else sizes_section(sizes)),
    ]
    for name, part in parts.items():
        seeds = max(row.count for row in rows_of(part))
        lines += ["", f"## {name}", "", f"{seeds} seeds. {part['note'][0].upper()}{part['note'][1:]}.", ""]
        for shown in SHOWN:
            lines += [*part_table(part, shown), ""]
        if name in choices:
            lines += ["By validation images, retrieval in %:", "", *choice_table(choices[name])]
    return "\n".join([*lines, "", "The runs are in `records/`."]) + "\n"


def findings(parts: dict[str, dict[str, Any]]) -> list[str]:
    """For each part what the automatic correction closes, and in how many cells of all it is below plain."""
    table, cells, equal, constant, below, nothing_to_win, not_learnt = [], 0, 0, [], [], [], []
    for name, part in parts.items():
        rows = {row.name: row for row in rows_of(part)}
        if AUTO not in rows:
            continue
        auto = rows[AUTO].differences
        if rows[ORACLE].differences[LEADING].sign <= 0:
            nothing_to_win.append(name)
        if rows[UNTRAINED].differences[LEADING].sign > 0:
            not_learnt.append(name)
        line = [name, f"{rows[PLAIN].scores[LEADING].mean:.2f}", interval(rows[ORACLE].differences[LEADING])]
        for number in (LEADING, "knn"):
            share = share_of_lead(rows[AUTO], list(rows.values()), number)
            line += [interval(auto[number]), "" if share is None else f"{share:.0%}"]
        table.append(line)
        for row in rows.values():
            if row.name.split(" at ")[0] == AUTO:
                found = {f"{number} of {row.name} on {name}": one for number, one in row.differences.items()}
                cells += len(found)
                equal += sum(one.mean == 0 for one in found.values())
                below += [cell for cell, one in found.items() if one.sign < 0]
                constant += [f"{cell} ({one})" for cell, one in found.items() if one.low is None and one.mean != 0]
    if not cells:
        return []
    header = [
        "part",
        f"{PLAIN}'s mAP, %",
        f"{ORACLE}: mAP to {PLAIN}",
        f"{AUTO}: mAP to {PLAIN}",
        "closed",
        f"{AUTO}: kNN to {PLAIN}",
        "closed",
    ]
    named = f" ({', '.join(below)})" if below else ""
    return [
        *markdown(header, table),
        "",
        f"{AUTO} was compared with {PLAIN} {cells} times: by all numbers, on all parts. It is below {PLAIN} by more "
        f"than chance in {len(below)} of these{named}; luck alone would make {0.025 * (cells - equal):.1f} so."
        + (f" In {equal} both are equal to the last digit." if equal else "")
        + (f" Without an interval, since all seeds differ by the same: {', '.join(constant)}." if constant else ""),
        *([f"The {ORACLE}'s lead is not more than chance on {', '.join(nothing_to_win)}."] if nothing_to_win else []),
        *([f"The encoder is better before training, in retrieval, on {', '.join(not_learnt)}."] if not_learnt else []),
    ]


def control(runs: Sequence[dict[str, Any]], parts: Collection[str]) -> list[str]:
    """What the automatic correction is above its control: the same with the communities of other samples."""
    scores: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for run in runs:
        part, row = part_and_row(run, parts)
        scores.setdefault((part, row), {})[run["config"]["seed"]] = run["result"]
    table = []
    for part in dict.fromkeys(part for part, row in scores if {(part, AUTO), (part, CONTROL)} <= scores.keys()):
        own, other = scores[part, AUTO], scores[part, CONTROL]
        seeds = sorted(own.keys() & other.keys())
        cells = []
        for number in (LEADING, "knn"):
            ours, theirs = ([100 * each[seed][number] for seed in seeds] for each in (own, other))
            cells.append(interval(Difference.between(ours, theirs)))
        table.append([part, *cells])
    if not table:
        return []
    return [
        "",
        "## Is it the communities?",
        "",
        f"{AUTO} less {CONTROL}, in which each sample has the communities of another one, at {PLAIN}'s best "
        "temperature where there is one. The control has as many pairs, but random ones, which carry less of the push; "
        "and it attracts wrong samples.",
        "",
        *markdown(["part", "mAP", "kNN"], table),
    ]


def calibration(runs: Sequence[dict[str, Any]], parts: Collection[str]) -> list[str]:
    """How far the r of the automatic correction was from the observed share when training ended, by part."""
    errors: dict[str, list[float]] = {}
    for run in runs:
        part, row = part_and_row(run, parts)
        if row == AUTO and "calibration.error" in run["result"]:
            errors.setdefault(part, []).append(run["result"]["calibration.error"])
    table = [
        [part, f"{sum(found) / len(found):.3f}", f"{min(found):.3f} to {max(found):.3f}", _of_runs(found)]
        for part, found in errors.items()
    ]
    return [
        "",
        "## Is r a probability?",
        "",
        f"The expected calibration error of the r of {AUTO} by the labels, at the end of training, over pairs with r "
        f"above 0. Up to {CALIBRATED:g} r is shown as a probability, above it as a rank. Parts in which {AUTO} was "
        "plain at the end of all runs are not here.",
        "",
        *markdown(["part", "mean", "runs", f"up to {CALIBRATED:g}"], table),
    ]


def part_and_row(run: dict[str, Any], parts: Collection[str]) -> tuple[str, str]:
    """The names of a run's part and row; directories have those of parts in small letters."""
    directory, row, _ = run["path"].split("/")
    return next(part for part in parts if part.lower() == directory), row


def _of_runs(errors: Sequence[float]) -> str:
    return f"{sum(error <= CALIBRATED for error in errors)} of {len(errors)}"


def sizes_section(record: dict[str, Any]) -> list[str]:
    """Where the oracle leads plain: the sizes that were looked at before anything was measured."""
    table: list[list[str]] = []
    leads: dict[str, bool] = {}
    for name, part in record["data"].items():
        rows = {row.name: row for row in rows_of(part)}
        lead = rows[ORACLE].differences[LEADING]
        subject = name.rsplit("-", 1)[0]
        leads[subject] = leads.get(subject, False) or lead.sign > 0
        table.append([subject, part["note"], str(rows[PLAIN].scores[LEADING]), interval(lead)])
    without = ", ".join(subject for subject, found in leads.items() if not found)
    return [
        "",
        "## Where there is something to win",
        "",
        "The sizes of CIFAR were chosen with validation images, before anything was tested "
        f"(`{record['command']}`, three seeds). Images times epochs are the same, so fewer images are met more often. "
        f"A correction can win something where the {ORACLE} leads {PLAIN} by more than chance."
        + (f" It does so at none of these sizes on {without}." if without else ""),
        "",
        *markdown(["part", "size", f"{PLAIN}'s mAP, %", f"{ORACLE}: mAP to {PLAIN}"], table),
    ]


def overview(parts: dict[str, dict[str, Any]]) -> list[str]:
    """The rows by the parts: what each is above plain in the leading number."""
    rows = {name: {row.name: row for row in rows_of(part)} for name, part in parts.items()}
    table = [[PLAIN, *(f"{each[PLAIN].scores[LEADING].mean:.2f}" for each in rows.values())]]
    for row in dict.fromkeys(name for each in rows.values() for name in each if name != PLAIN and " at " not in name):
        found = (each[row].differences.get(LEADING) if row in each else None for each in rows.values())
        table.append(
            [row, *("" if one is None else f"**{one.mean:+.2f}**" if one.sign else f"{one.mean:+.2f}" for one in found)]
        )
    return markdown(["row", *parts], table)


def part_table(part: dict[str, Any], numbers: Sequence[str]) -> list[str]:
    """One row for each method, with some of the numbers."""
    rows, known = rows_of(part), known_numbers()
    shown = [number for number in numbers if any(number in row.scores for row in rows)]
    header = ["row"]
    for number in shown:
        header += [f"{known[number].short}, %", f"to {PLAIN}", "closed"]
    table = []
    for row in rows:
        cells = [row.name]
        for number in shown:
            score, difference = row.scores.get(number), row.differences.get(number)
            share = share_of_lead(row, rows, number)
            cells += ["" if score is None else str(score), interval(difference)]
            cells.append("" if share is None else f"{share:.0%}")
        table.append(cells)
    return markdown(header, table)


def choice_table(part: dict[str, Any]) -> list[str]:
    """Rows by temperatures; the best of each row is bold."""
    scores: dict[str, dict[str, float]] = {}
    for each in rows_of(part):
        row, temperature = each.name.rsplit(" at ", 1)
        if LEADING in each.scores:
            scores.setdefault(row, {})[temperature] = each.scores[LEADING].mean
    temperatures = list(dict.fromkeys(temperature for found in scores.values() for temperature in found))
    table = []
    for row, found in scores.items():
        best = max(found, key=found.__getitem__)
        cells = [f"{found[each]:.2f}" if each in found else "" for each in temperatures]
        table.append([row, *(f"**{c}**" if each == best else c for each, c in zip(temperatures, cells, strict=True))])
    lines, ends = markdown(["row", *(f"t {each}" for each in temperatures)], table), {temperatures[0], temperatures[-1]}
    if at_an_end := [row for row, found in scores.items() if max(found, key=found.__getitem__) in ends]:
        lines += ["", f"Best at an end of this range, so perhaps better beyond it: {', '.join(at_an_end)}."]
    return lines
